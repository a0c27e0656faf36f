"""The state of a share group. This state results from the records in the log.

Only `ShareGroup.fold` changes it, for new records and at load. Timers and the fields about the
initialization of partitions are not stored in records: a load initializes them. After compaction a
member may have a current assignment but no metadata, or metadata but no current assignment. A
tombstone may be for a record that does not exist.

Source: Kafka 4.3.1 ``ShareGroup``, ``ModernGroup``, ``GroupMetadataManager.replay``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from coordinator.config import GroupConfig
from coordinator.outcome import ShareHeartbeatReply
from coordinator.timers import GroupTimer
from coordinator.topics_image import TopicsImage
from offsets.consumer_records import Assignment
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)

SHARE = "share"
"""The protocol type of share groups, which is also their type in ListGroups."""
ASSIGNOR = "simple"
INITIAL_EPOCH = 1
"""The epoch of a new group and of its target assignment. The first member raises the group's epoch
to 2."""
JOINING_EPOCH = 0
LEAVING_EPOCH = -1

NO_METADATA = ShareMemberMetadata()
NO_ASSIGNMENT = ShareCurrentAssignment()
NO_STATE = StatePartitions()


class ShareGroupState(Enum):
    """The state of a share group, derived from its members. The values are the names in
    responses."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareMember:
    """A member of a share group."""

    __slots__ = ("current", "idle_reply", "member_id", "metadata", "session")

    def __init__(self, group_id: str, member_id: str) -> None:
        self.member_id = member_id
        self.metadata = NO_METADATA
        """The member's metadata. ``metadata`` and ``current`` change only in `ShareGroup.fold`."""
        self.current = NO_ASSIGNMENT
        self.idle_reply: ShareHeartbeatReply | None = None
        """The last reply to a heartbeat that changed nothing. If the next such reply is equal, the
        same object is sent again."""
        self.session = GroupTimer(group_id, member_id)
        """The timer of the member's session, which every accepted heartbeat extends. When it is
        due, the member is removed."""


def session_timeout_ms(config: GroupConfig, member: ShareMember) -> int:
    return config.of_share_group(member.session.group_id).session_timeout_ms


class ShareGroup:
    """One share group of a shard."""

    __slots__ = (
        "_names",
        "asked_ms",
        "changed_ms",
        "epoch",
        "epoch_ms",
        "group_id",
        "is_settled",
        "members",
        "refresh_wanted",
        "state_partitions",
        "target_epoch",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = ShareGroupEpoch(INITIAL_EPOCH)
        self.epoch_ms = -1
        """The wall time in ms at which the epoch was last raised; -1 if unknown."""
        self.target_epoch = ShareTargetEpoch(INITIAL_EPOCH)
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        """The target assignment of each member, by member id. A member that joined after the target
        was computed is missing."""
        self.state_partitions: StatePartitions | None = None
        """The partitions that have a delivery state, are getting one, or are losing it (record type
        15); None if the log has no such record."""
        self.refresh_wanted = True
        """True if topics may have changed since the metadata hash was computed. This is so after a
        load, and after a subscribed topic was created, changed or deleted."""
        self.asked_ms: int | None = None
        """The monotonic time in ms of the last `ShareStateWanted` event since the load; None if no
        such event was emitted. After a load it is None, so that the shard requests an
        initialization again that a restart has interrupted."""
        self.is_settled = False
        """True if the last heartbeat found no partition to initialize or to assign, and no record
        has changed the group since then."""
        self.changed_ms = 0
        """The monotonic time in ms of the group's last written records; after a load, the time of
        the load."""
        self._names: dict[str, int] = {}

    # -------------------------------------------------------------------------------------- fold

    def fold(self, record: ShareRecord, timestamp_ms: int = -1) -> None:
        """Applies a record that is in the log. ``timestamp_ms`` is the wall time at which the
        record was written."""
        self.is_settled = False
        if isinstance(record, ShareCurrentRecord):
            if record.value is not None or record.member_id in self.members:
                self.new_member(record.member_id).current = record.value or NO_ASSIGNMENT
        elif isinstance(record, ShareMemberRecord):
            self._fold_metadata(record.member_id, record.value)
        elif isinstance(record, ShareTargetRecord):
            if record.value is None:
                self.targets.pop(record.member_id, None)
            else:
                self.targets[record.member_id] = record.value
        elif isinstance(record, ShareEpochRecord):
            self.epoch = record.value or ShareGroupEpoch(INITIAL_EPOCH)
            self.epoch_ms = timestamp_ms
        elif isinstance(record, ShareTargetEpochRecord):
            self.target_epoch = record.value or ShareTargetEpoch(INITIAL_EPOCH)
        else:
            self.state_partitions = record.value

    def _fold_metadata(self, member_id: str, value: ShareMemberMetadata | None) -> None:
        old = self.members.get(member_id)
        if old is not None:
            self._count(old.metadata, -1)
        if value is None:
            self.members.pop(member_id, None)
            self.targets.pop(member_id, None)
        else:
            self.new_member(member_id).metadata = value
            self._count(value, 1)

    def _count(self, metadata: ShareMemberMetadata, step: int) -> None:
        for name in metadata.subscribed_topics:
            count = self._names.get(name, 0) + step
            if count:
                self._names[name] = count
            else:
                del self._names[name]

    def new_member(self, member_id: str) -> ShareMember:
        """Returns the member with this id. Creates it if necessary, so that its timer can be armed
        before the member's records are in the log."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ShareMember(self.group_id, member_id)
        return member

    def records(self) -> Iterator[ShareRecord]:
        """Yields, for snapshots, the records that a fully compacted log would have of this group.
        If the group changes during the iteration, a yielded record may be outdated; a later record
        in the log then replaces it."""
        members = list(self.members.items())
        for member_id, member in members:
            yield ShareMemberRecord(member_id, member.metadata)
        yield ShareEpochRecord(self.epoch)
        for member_id, target in list(self.targets.items()):
            yield ShareTargetRecord(member_id, target)
        yield ShareTargetEpochRecord(self.target_epoch)
        for member_id, member in members:
            yield ShareCurrentRecord(member_id, member.current)
        if self.state_partitions is not None:
            yield StatePartitionsRecord(self.state_partitions)

    # ------------------------------------------------------------------------------------- views

    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def stored(self) -> StatePartitions:
        """The value of ``state_partitions``, or an empty value if it is None."""
        return self.state_partitions or NO_STATE

    def assignable(self) -> dict[bytes, tuple[int, ...]]:
        """Returns the partitions whose delivery state is initialized, by topic id."""
        return {key: partitions for key, (_, partitions) in self.stored.initialized.items()}

    def subscribed_names(self) -> set[str]:
        return set(self._names)

    def subscribes_to(self, name: str) -> bool:
        return name in self._names

    def lacks_initialized_partitions(self, image: TopicsImage) -> bool:
        """Returns True if the targets of all members together differ from the initialized
        partitions of a subscribed topic. The group then needs a new target."""
        if not self.members:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        for topic_id, (name, partitions) in self.stored.initialized.items():
            topic = image.by_name.get(name) if name in self._names else None
            if topic is not None and topic.topic_id == topic_id:
                existing = {n for n in partitions if n < topic.partitions}
                if assigned.get(topic_id, set()) != existing:
                    return True
        return False

    def stale_topics(self, image: TopicsImage) -> list[bytes]:
        """Returns the ids of topics in ``state_partitions`` that no longer exist."""
        stored, names = self.stored, image.names
        ids = {*stored.initializing, *stored.initialized, *stored.deleting}
        return sorted(ids - names.keys())
