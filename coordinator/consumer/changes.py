"""Collects the records of one step of a consumer group, before one of these records is in the log.

Handlers compute values and add records here; `ConsumerGroup.fold` applies the records when they are
in the log. The records of one step are one run, so that they stay in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.target import Members
from coordinator.topics_image import TopicsImage
from offsets.consumer_records import (
    Assignment,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)


class Changes:
    """The changes of one step in a group: the group's members after the step, and the records of
    the step."""

    __slots__ = ("_members", "epoch", "group", "records", "target_epoch", "targets")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[ConsumerRecord] = []
        self._members: dict[str, MemberMetadata] | None = None
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.targets = group.targets

    @property
    def members_changed(self) -> bool:
        """Whether the step adds, removes or changes a member."""
        return self._members is not None

    @property
    def members(self) -> dict[str, MemberMetadata]:
        """Returns the metadata of the members after the step. Most heartbeats do not change a
        member."""
        if self._members is None:
            members = self.group.members
            self._members = {member_id: each.metadata for member_id, each in members.items()}
        return self._members

    def replace(self, old: ConsumerMember, member_id: str, current: CurrentAssignment) -> None:
        """Replaces a static member that has left temporarily by a new member."""
        target = self.targets.get(old.member_id, {})
        self.remove([old.member_id])
        self.set_metadata(member_id, old.metadata)
        self.targets = {k: v for k, v in self.targets.items() if k != old.member_id}
        self.targets[member_id] = target
        self.records += (TargetRecord(member_id, target), CurrentRecord(member_id, current))

    def remove(self, member_ids: Iterable[str]) -> None:
        """Removes members. Writes the tombstones of types 8, 7 and 5 of each member, in the order
        that Kafka's loader requires."""
        for member_id in member_ids:
            del self.members[member_id]
            self.records += (
                CurrentRecord(member_id, None),
                TargetRecord(member_id, None),
                MemberRecord(member_id, None),
            )

    def set_metadata(self, member_id: str, metadata: MemberMetadata) -> None:
        """Add or change a member."""
        self.members[member_id] = metadata
        self.records.append(MemberRecord(member_id, metadata))

    def drop_unused_regexes(self) -> None:
        """Deletes each resolved regex that is no longer part of a member's subscription."""
        used = {metadata.subscribed_regex for metadata in self.members.values()}
        for regex in sorted(self.group.regexes):
            if regex not in used:
                self.records.append(RegexRecord(regex, None))

    def bump(self, metadata_hash: int) -> None:
        """Raise the group's epoch by 1."""
        self.epoch = GroupEpoch(self.epoch.epoch + 1, metadata_hash)
        self.records.append(EpochRecord(self.epoch))
        if self.group.has_topics_record:
            self.records.append(TopicsRecord())

    def set_target(self, targets: dict[str, Assignment], timestamp_ms: int) -> int:
        """Replace the target assignment; returns the number of members whose target changed."""
        before = self.targets
        changed = 0
        for member_id, target in targets.items():
            if before.get(member_id) != target:
                changed += 1
                self.records.append(TargetRecord(member_id, target))
        self.targets = targets
        self.target_epoch = TargetEpoch(self.epoch.epoch, timestamp_ms)
        self.records.append(TargetEpochRecord(self.target_epoch))
        return changed

    def names(self) -> set[str]:
        """Returns the names of the topics to which the members subscribe after the step, including
        the topics of regexes."""
        return subscribed_names(self.group.regexes, self.members)

    def metadata_hash(self, image: TopicsImage) -> int:
        """Returns the hash of the existing topics to which the members subscribe after the step."""
        return image.metadata_hash(self.names())


def subscribed_names(regexes: Mapping[str, ResolvedRegex], members: Members) -> set[str]:
    """The names of the topics to which these members subscribe, by name or by resolved regex."""
    names: set[str] = set()
    for topics in {each.subscribed_topics for each in members.values()}:
        names.update(topics)
    for regex in {each.subscribed_regex for each in members.values() if each.subscribed_regex}:
        if regex in regexes:
            names.update(regexes[regex].topics)
    return names
