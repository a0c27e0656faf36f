"""Collects the records of one step of a consumer group, before one of these records is in the log.

Handlers compute values and add records here; `ConsumerGroup.fold` applies the records when they are
in the log. The records of one step are one run, so that they stay in one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from coordinator.consumer.group import ConsumerGroup, ConsumerMember
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

    __slots__ = ("_changed", "epoch", "group", "records", "target_epoch", "targets")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[ConsumerRecord] = []
        self._changed: dict[str, MemberMetadata | None] = {}
        """The metadata of the members that the step adds or changes; None for those that it
        removes."""
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.targets = group.targets

    @property
    def members_changed(self) -> bool:
        """Whether the step adds, removes or changes a member."""
        return bool(self._changed)

    def members(self) -> dict[str, MemberMetadata]:
        """Returns the metadata of all members after the step. The cost grows with the group: a step
        that can do without calls `names`, `regexes` or `member_ids`."""
        members = {member_id: each.metadata for member_id, each in self.group.members.items()}
        for member_id, metadata in self._changed.items():
            members.pop(member_id, None)
            if metadata is not None:
                members[member_id] = metadata
        return members

    def member_ids(self) -> dict[str, object]:
        """Returns the ids of the members after the step, as keys."""
        ids: dict[str, object] = dict(self.group.members)
        for member_id, metadata in self._changed.items():
            ids.pop(member_id, None)
            if metadata is not None:
                ids[member_id] = None
        return ids

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
            self._changed[member_id] = None
            self.records += (
                CurrentRecord(member_id, None),
                TargetRecord(member_id, None),
                MemberRecord(member_id, None),
            )

    def set_metadata(self, member_id: str, metadata: MemberMetadata) -> None:
        """Add or change a member."""
        self._changed[member_id] = metadata
        self.records.append(MemberRecord(member_id, metadata))

    def drop_unused_regexes(self) -> None:
        """Deletes each resolved regex that is no longer part of a member's subscription."""
        used = self.regexes()
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
        resolved = self.group.regexes
        return subscribed_names(resolved, self.named(), self.regexes())

    def named(self) -> set[str]:
        """Returns the names of the topics to which members subscribe by name after the step."""
        return self._subscribed(self.group.names, lambda metadata: metadata.subscribed_topics)

    def regexes(self) -> set[str]:
        """Returns the regexes by which members subscribe after the step."""
        return self._subscribed(
            self.group.used_regexes,
            lambda metadata: (metadata.subscribed_regex,) if metadata.subscribed_regex else (),
        )

    def _subscribed(
        self, counts: Mapping[str, int], of: Callable[[MemberMetadata], Iterable[str]]
    ) -> set[str]:
        """Returns the keys of ``counts``, which has the number of members per key, after the
        step."""
        changed: Counter[str] = Counter()
        for member_id, metadata in self._changed.items():
            old = self.group.members.get(member_id)
            if old is not None:
                changed.subtract(of(old.metadata))
            if metadata is not None:
                changed.update(of(metadata))
        result = set(counts)
        for key, change in changed.items():
            if counts.get(key, 0) + change > 0:
                result.add(key)
            else:
                result.discard(key)
        return result

    def metadata_hash(self, image: TopicsImage) -> int:
        """Returns the hash of the existing topics to which the members subscribe after the step."""
        return image.metadata_hash(self.names())


def subscribed_names(
    resolved: Mapping[str, ResolvedRegex], named: Iterable[str], regexes: Iterable[str]
) -> set[str]:
    """Returns the names of the topics of a subscription by name and by regexes that are
    resolved."""
    names = set(named)
    for regex in regexes:
        if regex in resolved:
            names.update(resolved[regex].topics)
    return names
