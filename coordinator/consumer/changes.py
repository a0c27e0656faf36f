"""Collects the records of one step of a consumer group, before the records are in the log.

Handlers compute values and add records here. `ConsumerGroup.fold` applies the records when they are
in the log. The records of one step are one run, so that they stay in one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from coordinator.consumer.group import NO_METADATA, ConsumerGroup, ConsumerMember
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

AWAITED_NAMED = 100
"""The maximum number of awaited members that the event of a new epoch names. The journal has the
same limit."""


class Changes:
    """The changes of one step to a group: the changed members, and the records of the step.

    A group may have thousands of members, and a step changes few of them. Therefore only the method
    `members`, which most steps do not call, does work for each member.
    """

    __slots__ = ("_removed", "_set", "epoch", "group", "records", "target_epoch", "targets")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[ConsumerRecord] = []
        self._removed: set[str] = set()
        """The ids of the members that the step removes. A removed id may also be in ``_set``, if
        the step adds it again."""
        self._set: dict[str, MemberMetadata] = {}
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.targets = group.targets

    @property
    def members_changed(self) -> bool:
        return bool(self._set or self._removed)

    def has(self, member_id: str) -> bool:
        if member_id in self._set:
            return True
        return member_id in self.group.members and member_id not in self._removed

    def awaited(self, without: str = "") -> tuple[str, ...]:
        """Returns the ids of at most `AWAITED_NAMED` members that are in the group after the step.
        The member ``without`` is left out."""
        members, removed = self.group.members, self._removed
        kept = (each for each in members if each not in removed)
        added = (each for each in self._set if each not in members or each in removed)
        others = (each for each in chain(kept, added) if each != without)
        return tuple(islice(others, AWAITED_NAMED))

    def members(self) -> dict[str, MemberMetadata]:
        """Returns the metadata of all members that the group has after the step, in a new dict."""
        removed = self._removed
        members = {
            member_id: each.metadata
            for member_id, each in self.group.members.items()
            if member_id not in removed
        }
        members.update(self._set)
        return members

    def replace(self, old: ConsumerMember, member_id: str, current: CurrentAssignment) -> None:
        """Replaces the static member ``old``, which has left temporarily, by a new member."""
        target = self.targets.get(old.member_id, {})
        self.remove([old.member_id])
        self.set_metadata(member_id, old.metadata)
        self.targets = {k: v for k, v in self.targets.items() if k != old.member_id}
        self.targets[member_id] = target
        self.records += (TargetRecord(member_id, target), CurrentRecord(member_id, current))

    def remove(self, member_ids: Iterable[str]) -> None:
        """Removes members. Writes the tombstones of record types 8, 7 and 5 of each member, in the
        order that Kafka's loader requires."""
        for member_id in member_ids:
            self._set.pop(member_id, None)
            self._removed.add(member_id)
            self.records += (
                CurrentRecord(member_id, None),
                TargetRecord(member_id, None),
                MemberRecord(member_id, None),
            )

    def set_metadata(self, member_id: str, metadata: MemberMetadata) -> None:
        self._set[member_id] = metadata
        self.records.append(MemberRecord(member_id, metadata))

    def drop_unused_regexes(self) -> None:
        """Deletes each resolved regex to which no member subscribes after the step."""
        used = self.used_regexes()
        for regex in sorted(self.group.regexes):
            if regex not in used:
                self.records.append(RegexRecord(regex, None))

    def bump(self, metadata_hash: int) -> None:
        self.epoch = GroupEpoch(self.epoch.epoch + 1, metadata_hash)
        self.records.append(EpochRecord(self.epoch))
        if self.group.has_topics_record:
            self.records.append(TopicsRecord())

    def set_target(self, targets: dict[str, Assignment], timestamp_ms: int) -> int:
        """Replaces the target assignment. Returns the number of members whose target changed."""
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

    def used_regexes(self) -> set[str]:
        counts = self.group.regex_counts
        if not self.members_changed:
            return set(counts)
        gone, come = self._replaced()
        used = _used(
            counts,
            [each.subscribed_regex or "" for each in gone],
            [each.subscribed_regex or "" for each in come],
        )
        used.discard("")
        return used

    def names(self, regexes: Mapping[str, ResolvedRegex] | None = None) -> set[str]:
        """Returns the names of the topics to which the members subscribe after the step, by name or
        by regex. ``regexes`` has the topics of each regex (default: the group's resolved regexes).
        """
        counts = self.group.name_counts
        resolved = self.group.regexes if regexes is None else regexes
        if not self.members_changed:
            names = set(counts)
        else:
            gone, come = self._replaced()
            names = _used(
                counts,
                [name for each in gone for name in each.subscribed_topics],
                [name for each in come for name in each.subscribed_topics],
            )
        for regex in self.used_regexes():
            if regex in resolved:
                names.update(resolved[regex].topics)
        return names

    def metadata_hash(self, image: TopicsImage) -> int:
        """Returns the hash of the existing topics to which the members subscribe after the step."""
        return image.metadata_hash(self.names())

    def _replaced(self) -> tuple[list[MemberMetadata], list[MemberMetadata]]:
        """Returns two lists: the metadata that the step removes or replaces, and the metadata that
        the step sets."""
        members = self.group.members
        changed = self._removed | self._set.keys()
        gone = [members[each].metadata if each in members else NO_METADATA for each in changed]
        return gone, list(self._set.values())


def _used(counts: Mapping[str, int], gone: Iterable[str], come: Iterable[str]) -> set[str]:
    """Returns the keys whose count is above 0 when the keys in ``gone`` are subtracted from
    ``counts`` and the keys in ``come`` are added."""
    moved = Counter(come)
    moved.subtract(gone)
    used = set(counts)
    for key, number in moved.items():
        (used.add if counts.get(key, 0) + number > 0 else used.discard)(key)
    return used
