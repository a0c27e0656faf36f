"""Collects the records of one step of a streams group, before the records are in the log.

Handlers compute values and add records here. `StreamsGroup.fold` applies the records when they are
in the log. The records of one step are one run, so that they stay in one batch.
"""

from __future__ import annotations

from coordinator.config import StreamsSettings
from coordinator.streams.computed_target import ComputedTarget
from coordinator.streams.group import StreamsGroup
from offsets.streams_records import (
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
)

NUM_STANDBY_REPLICAS = "num.standby.replicas"
"""The name of the assignor setting in the group's record of type 17."""


class StreamsChanges:
    """The changes of one step to a group: the group's members after the step, and the records of
    the step."""

    __slots__ = ("_members", "epoch", "group", "records", "target_epoch", "targets")

    def __init__(self, group: StreamsGroup) -> None:
        self.group = group
        self.records: list[StreamsRecord] = []
        self._members: dict[str, StreamsMemberMetadata] | None = None
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.targets = group.targets

    @property
    def members(self) -> dict[str, StreamsMemberMetadata]:
        """Returns the metadata of the members after the step. The dict is created at the first
        call, because most heartbeats do not change a member."""
        if self._members is None:
            members = self.group.members
            self._members = {member_id: each.metadata for member_id, each in members.items()}
        return self._members

    def remove(self, member_id: str) -> None:
        """Removes a member. Writes the tombstones of record types 22, 21 and 19, in the order that
        Kafka's loader requires."""
        del self.members[member_id]
        self.records += (
            StreamsCurrentRecord(member_id, None),
            StreamsTargetRecord(member_id, None),
            StreamsMemberRecord(member_id, None),
        )

    def set_metadata(self, member_id: str, metadata: StreamsMemberMetadata) -> None:
        self.members[member_id] = metadata
        self.records.append(StreamsMemberRecord(member_id, metadata))

    def bump(
        self,
        metadata_hash: int | None = None,
        validated_topology_epoch: int | None = None,
        settings: StreamsSettings | None = None,
    ) -> None:
        """Raises the group's epoch by 1, and adds the new epoch record to the step. If an argument
        is None, the new record repeats the value of the previous epoch record."""
        old = self.epoch
        self.epoch = StreamsGroupEpoch(
            old.epoch + 1,
            old.metadata_hash if metadata_hash is None else metadata_hash,
            old.validated_topology_epoch
            if validated_topology_epoch is None
            else validated_topology_epoch,
            old.last_assignment_configs if settings is None else assignment_configs(settings),
        )
        self.records.append(StreamsEpochRecord(self.epoch))

    def set_target(self, computed: ComputedTarget, epoch: int, timestamp_ms: int) -> None:
        """Replaces the target assignment. ``epoch`` is the group epoch for which ``computed`` was
        computed."""
        self.records += computed.records
        self.targets = computed.targets
        self.target_epoch = StreamsTargetEpoch(epoch, timestamp_ms)
        self.records.append(StreamsTargetEpochRecord(self.target_epoch))


def assignment_configs(settings: StreamsSettings) -> tuple[tuple[str, str], ...]:
    """Returns the settings of the assignor, as in a record of type 17."""
    return ((NUM_STANDBY_REPLICAS, str(settings.num_standby_replicas)),)
