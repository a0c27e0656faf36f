"""Loads the records of groups as Kafka 4.3.1 does, with all checks of
``GroupMetadataManager.replay``. Tests compare Muster with this loader. Kafka refuses some orders of
records that Muster accepts."""

from __future__ import annotations

from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from offsets.runs import GroupRun

LEAVE_EPOCH = -1


class CanNotLoad(Exception):
    """Raised where Kafka throws an IllegalStateException and does not load the partition."""


class _Group:
    def __init__(self) -> None:
        self.members: dict[str, int] = {}
        """The member epoch of each member id."""
        self.targets: set[str] = set()
        self.target_epoch = 1


class KafkaLoader:
    """The groups of one partition of the offsets topic, as Kafka loads them. Groups with only
    offsets are ignored."""

    def __init__(self) -> None:
        self.classic: set[str] = set()
        self.consumers: dict[str, _Group] = {}

    def replay(self, run: object) -> None:
        """Replays one run. Raises `CanNotLoad` if Kafka refuses the order of its records."""
        if isinstance(run, GroupRun):
            self.consumers.pop(run.group_id, None)
            self.classic.discard(run.group_id)
            if run.value is not None:
                self.classic.add(run.group_id)
        elif isinstance(run, ConsumerGroupRun):
            for record in run.records:
                self._replay(run.group_id, record)

    def _replay(self, group_id: str, record: ConsumerRecord) -> None:
        if group_id in self.classic:
            raise CanNotLoad(f"Group {group_id} is not a consumer group")
        group = self.consumers.get(group_id)
        if record.value is None:
            if group is not None:
                self._delete(group_id, group, record)
            return
        if group is None:
            group = self.consumers[group_id] = _Group()
        if isinstance(record, CurrentRecord):
            assert record.value is not None
            group.members[record.member_id] = record.value.epoch
        elif isinstance(record, MemberRecord):
            group.members.setdefault(record.member_id, 0)
        elif isinstance(record, TargetRecord):
            group.targets.add(record.member_id)
        elif isinstance(record, TargetEpochRecord):
            assert record.value is not None
            group.target_epoch = record.value.epoch

    def _delete(self, group_id: str, group: _Group, record: ConsumerRecord) -> None:
        if isinstance(record, CurrentRecord):
            if record.member_id in group.members:
                group.members[record.member_id] = LEAVE_EPOCH
        elif isinstance(record, TargetRecord):
            group.targets.discard(record.member_id)
        elif isinstance(record, TargetEpochRecord):
            _refuse_if(bool(group.targets), "6T before 7T")
            group.target_epoch = -1
        elif isinstance(record, MemberRecord):
            if record.member_id in group.members:
                _refuse_if(group.members[record.member_id] != LEAVE_EPOCH, "5T before 8T")
                _refuse_if(record.member_id in group.targets, "5T before 7T")
                del group.members[record.member_id]
        elif isinstance(record, EpochRecord):
            _refuse_if(bool(group.members), "3T before 5T")
            _refuse_if(bool(group.targets), "3T before 7T")
            _refuse_if(group.target_epoch != -1, "3T before 6T")
            del self.consumers[group_id]


def _refuse_if(wrong: bool, why: str) -> None:
    if wrong:
        raise CanNotLoad(why)
