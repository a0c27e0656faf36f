"""Remembers, between two scans, for how long each committed offset has not moved. The verdicts need
this duration.

A commit timestamp is not enough: a stuck client may keep committing the same offset. Each scan of a
group is therefore compared with the previous scan, partition by partition, in arrays. The first
scan of a group, including the first scan after a start of the broker, uses the times of the commits
in the log.

`Arrivals` remembers the end offsets that topics had in the last minute. An unread record below an
earlier end offset existed at the time of this end offset, which is known without a read of the log.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

PARTITIONS_MAX = 1_000_000
"""The maximum number of remembered triples (group, topic, partition); no history is kept for
further triples."""
MARKS_KEPT = 8
MARKS_EVERY = 6
"""The number of marks in the period after which a record is old; MARKS_KEPT is a little larger."""

Columns = tuple[list[int], list[int]]
"""The partitions that have a commit, in ascending order, and their committed offsets."""

_NEVER = -1


class Place(NamedTuple):
    """The progress of a group in one partition, as one scan has found it."""

    partition: int
    offset: int
    committed_ms: int
    start: int
    end: int
    moved_ms: int
    """The time at which a scan last found the committed offset changed."""
    stands_ms: int
    """The time since when records have been waiting without a move of the committed offset; -1 if
    no records wait."""
    is_still: bool
    """True if the committed offset is the same as in the previous scan."""

    @property
    def first_unread(self) -> int:
        """Returns the offset at which the group continues to read."""
        return max(self.offset, self.start)


class Standing:
    """The remembered progress of one group in one topic, by partition in ascending order."""

    __slots__ = ("moved", "offsets", "partitions", "seen_ms", "stands", "unclaimed")

    def __init__(self) -> None:
        self.partitions = array("i")
        self.offsets = array("q")
        self.moved = array("q")
        self.stands = array("q")
        self.seen_ms = _NEVER
        """The time of the last scan; -1 before the first scan."""
        self.unclaimed: dict[int, Unclaimed] = {}
        """The progress of partitions without a commit that a member owns or owned, by partition."""

    def __len__(self) -> int:
        return len(self.partitions) + len(self.unclaimed)


class Unclaimed(NamedTuple):
    """The remembered progress of a partition without a commit, since a member became its owner."""

    owner: str
    """The member id; for a static member the instance id, which does not change at a restart."""
    end: int
    """The log end offset at the scan that first saw the owner."""
    seen_ms: int
    grown_ms: int
    """The time at which a scan first saw records after ``end``; -1 if no scan has seen such
    records."""


class Look:
    """One scan of a group in a topic, which is compared with the previous scan and stored for the
    next one."""

    def __init__(self, before: Standing | None, now_ms: int) -> None:
        self.before = before or Standing()
        self.after = Standing()
        self.now_ms = self.after.seen_ms = now_ms
        self._next = 0
        """The number of partitions of the previous scan that have been compared."""

    def at(self, partition: int, offset: int, committed_ms: int, start: int, end: int) -> Place:
        """Adds the next partition, in ascending order."""
        before, now_ms = self.before, self.now_ms
        known, place = before.partitions, self._next
        while place < len(known) and known[place] < partition:
            place += 1
        self._next = place
        is_known = place < len(known) and known[place] == partition
        is_still = is_known and before.offsets[place] == offset
        stands_ms = _NEVER
        if is_still:
            moved_ms = before.moved[place]
            stands_ms = before.stands[place]
        elif is_known or before.seen_ms != _NEVER:
            is_recent = before.seen_ms <= committed_ms <= now_ms
            moved_ms = committed_ms if is_recent else now_ms
        else:
            moved_ms = min(max(committed_ms, 0), now_ms)
        if end <= max(offset, start):
            stands_ms = _NEVER
        elif stands_ms == _NEVER:
            stands_ms = now_ms if is_still else moved_ms
        after = self.after
        after.partitions.append(partition)
        after.offsets.append(offset)
        after.moved.append(moved_ms)
        after.stands.append(stands_ms)
        return Place(partition, offset, committed_ms, start, end, moved_ms, stands_ms, is_still)

    @staticmethod
    def all_read(standing: Standing, offsets: list[int], now_ms: int) -> None:
        """Records a scan in which the group has read all records, in the same partitions as in the
        previous scan."""
        before = standing.offsets.tolist()
        if before != offsets:
            for place, (was, offset) in enumerate(zip(before, offsets, strict=True)):
                if was != offset:
                    standing.moved[place] = now_ms
            standing.offsets = array("q", offsets)
        standing.stands = array("q", (_NEVER,)) * len(before)
        standing.seen_ms = now_ms

    def without_commit(self, partition: int, owner: str, end: int) -> Unclaimed:
        """Adds a partition in which its owner has never committed."""
        kept = self.before.unclaimed.get(partition)
        if kept is None or kept.owner != owner:
            kept = Unclaimed(owner, end, self.now_ms, _NEVER)
        elif kept.grown_ms == _NEVER and end > kept.end:
            kept = kept._replace(grown_ms=self.now_ms)
        self.after.unclaimed[partition] = kept
        return kept

    def after_owner(self, partition: int, end: int) -> Unclaimed:
        """Adds a partition that had an owner in the previous scan and has none now."""
        kept = self.before.unclaimed[partition]
        if kept.grown_ms == _NEVER and end > kept.end:
            kept = kept._replace(grown_ms=self.now_ms)
        self.after.unclaimed[partition] = kept
        return kept


class Progress:
    """The remembered progress of all groups, bounded by PARTITIONS_MAX."""

    def __init__(self) -> None:
        self.size = 0
        """The number of remembered partitions."""
        self._groups: dict[str, dict[str, Standing]] = {}
        self._generations: dict[str, int] = {}
        """The groups in which every owned partition has a commit, with the generation in which a
        scan found this state."""

    def look(self, group_id: str, topic: str, now_ms: int) -> Look:
        """Begins a scan of a group in a topic."""
        return Look(self._groups.get(group_id, {}).get(topic), now_ms)

    def unclaimed(self, group_id: str) -> list[str]:
        """Returns the topics in which, at the last scan, a member owned partitions without a
        commit."""
        known = self._groups.get(group_id, {})
        return [topic for topic, standing in known.items() if standing.unclaimed]

    def keep(self, group_id: str, looks: dict[str, Look], generation_id: int) -> None:
        """Replaces the remembered progress of a group by the results of a scan of all its
        topics."""
        self.forget(group_id)
        kept = {topic: look.after for topic, look in looks.items()}
        size = sum(map(len, kept.values()))
        if self.size + size <= PARTITIONS_MAX:
            self._groups[group_id] = kept
            self.size += size
            if not any(each.unclaimed for each in kept.values()):
                self._generations[group_id] = generation_id

    def forget(self, group_id: str) -> None:
        """Removes the remembered progress of a group."""
        self.size -= sum(map(len, self._groups.pop(group_id, {}).values()))
        self._generations.pop(group_id, None)

    def unchanged(
        self, group_id: str, generation_id: int, offsets: Mapping[str, Columns]
    ) -> Mapping[str, Standing] | None:
        """Returns the remembered progress of a group whose partitions with commits are the same as
        at the last scan, else None.

        Every owned partition must have a commit. The ownership of partitions does not change within
        a generation.
        """
        known = self._groups.get(group_id)
        if known is None or self._generations.get(group_id) != generation_id:
            return None
        if known.keys() != offsets.keys():
            return None
        for topic, (partitions, _) in offsets.items():
            if known[topic].partitions.tolist() != partitions:
                return None
        return known


class Mark(NamedTuple):
    """The end offsets of a topic's partitions at one time; 0 if unknown."""

    at_ms: int
    ends: array[int]


class Arrivals:
    """The end offsets of topics at a few points in time within about the last minute."""

    def __init__(self) -> None:
        self._marks: dict[bytes, deque[Mark]] = {}
        self._used: set[bytes] = set()

    def mark(
        self, topic_id: bytes, ends: Callable[[], array[int]], now_ms: int, old_ms: int
    ) -> Sequence[Mark]:
        """Returns the marks of a topic, oldest first. First adds a mark if the topic has no marks,
        or if the newest mark is at least ``old_ms`` / MARKS_EVERY old."""
        self._used.add(topic_id)
        marks = self._marks.get(topic_id)
        if marks is None:
            marks = self._marks[topic_id] = deque(maxlen=MARKS_KEPT)
        elif marks[-1].at_ms > now_ms:
            marks.clear()  # the wall clock was set back
        if not marks or now_ms - marks[-1].at_ms >= old_ms // MARKS_EVERY:
            marks.append(Mark(now_ms, ends()))
        return marks

    def forget_unused(self) -> None:
        """Removes the topics that were not used since the last call of this method."""
        for topic_id in [each for each in self._marks if each not in self._used]:
            del self._marks[topic_id]
        self._used.clear()


def unread_since(marks: Sequence[Mark], place: Place, timestamp_ms: int | None, now_ms: int) -> int:
    """Returns the time since when the first unread record has existed: its timestamp, limited to
    the range of times that the marks allow.

    If a record that has just arrived has an old timestamp, for example because it was copied from
    another topic, its reader is not late. If a record has a timestamp in the future, its reader may
    still be late. If the timestamp is unknown, the latest possible time of arrival is returned.
    """
    first = place.first_unread
    came_ms = now_ms
    """An upper bound of the time at which the record arrived."""
    for mark in reversed(marks):
        end = mark.ends[place.partition] if place.partition < len(mark.ends) else 0
        if end <= first:
            return came_ms if timestamp_ms is None else min(max(timestamp_ms, mark.at_ms), came_ms)
        came_ms = mark.at_ms
    return came_ms if timestamp_ms is None else min(timestamp_ms, came_ms)
