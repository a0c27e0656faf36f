"""Since when committed offsets stand: what the judge of groups remembers between two looks.

A commit timestamp does not tell: a stuck client may go on committing the same offset. So each look
at a group is compared with the one before it, partition by partition, in arrays. A look that is the
first one (after a start of the broker, too) begins with the times of the commits in the log.

`Arrivals` has the ends of topics as they were up to a minute ago: what lies below such an end and
is still unread is at least that old, without a look into the log.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

PARTITIONS_MAX = 1_000_000
"""Places (group, topic, partition) that are remembered; those beyond have no history."""
MARKS_KEPT = 8
MARKS_EVERY = 6
"""Marks in the time after which a record is old; a few more are kept than lie in it."""

Columns = tuple[list[int], list[int]]
"""Partitions with a commit, ascending, and their offsets."""

_NEVER = -1


class Place(NamedTuple):
    """One partition at a look."""

    partition: int
    offset: int
    committed_ms: int
    start: int
    end: int
    moved_ms: int
    """When the offset last became another one, as far as that was seen."""
    stands_ms: int
    """Since when records wait without that; -1 where none do."""
    is_still: bool
    """The offset is that of the look before."""

    @property
    def first_unread(self) -> int:
        """Where reading would go on."""
        return max(self.offset, self.start)


class Standing:
    """What is remembered of one group in one topic, partitions ascending."""

    __slots__ = ("moved", "offsets", "partitions", "seen_ms", "stands", "unclaimed")

    def __init__(self) -> None:
        self.partitions = array("i")
        self.offsets = array("q")
        self.moved = array("q")
        self.stands = array("q")
        self.seen_ms = _NEVER
        """When the look was; -1: there was none."""
        self.unclaimed: dict[int, Unclaimed] = {}
        """Partitions that a member owns, or owned until it was lost, and has never committed."""

    def __len__(self) -> int:
        return len(self.partitions) + len(self.unclaimed)


class Unclaimed(NamedTuple):
    """A partition without a commit, since its owner has it."""

    owner: str
    """Its member id; the instance id of a static member, which keeps its place when it restarts."""
    end: int
    """Of its log, when the owner was first seen."""
    seen_ms: int
    grown_ms: int
    """When records were first seen that came after that; -1 before."""


class Look:
    """One look at a group in a topic: compares with the look before and makes the next memory."""

    def __init__(self, before: Standing | None, now_ms: int) -> None:
        self.before = before or Standing()
        self.after = Standing()
        self.now_ms = self.after.seen_ms = now_ms
        self._next = 0
        """How far the look before has been walked."""

    def at(self, partition: int, offset: int, committed_ms: int, start: int, end: int) -> Place:
        """Take in the next partition, in ascending order."""
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
        """A look at a topic of which all is read, in the same partitions as before."""
        before = standing.offsets.tolist()
        if before != offsets:
            for place, (was, offset) in enumerate(zip(before, offsets, strict=True)):
                if was != offset:
                    standing.moved[place] = now_ms
            standing.offsets = array("q", offsets)
        standing.stands = array("q", (_NEVER,)) * len(before)
        standing.seen_ms = now_ms

    def without_commit(self, partition: int, owner: str, end: int) -> Unclaimed:
        """Take in a partition that its owner has never committed."""
        kept = self.before.unclaimed.get(partition)
        if kept is None or kept.owner != owner:
            kept = Unclaimed(owner, end, self.now_ms, _NEVER)
        elif kept.grown_ms == _NEVER and end > kept.end:
            kept = kept._replace(grown_ms=self.now_ms)
        self.after.unclaimed[partition] = kept
        return kept

    def after_owner(self, partition: int, end: int) -> Unclaimed:
        """Take in a partition of the look before again, which nobody owns now."""
        kept = self.before.unclaimed[partition]
        if kept.grown_ms == _NEVER and end > kept.end:
            kept = kept._replace(grown_ms=self.now_ms)
        self.after.unclaimed[partition] = kept
        return kept


class Progress:
    """The memory of all groups; bounded."""

    def __init__(self) -> None:
        self.size = 0
        """Partitions remembered."""
        self._groups: dict[str, dict[str, Standing]] = {}
        self._generations: dict[str, int] = {}
        """Of groups in which every partition that a member owns has a commit: as of when."""

    def look(self, group_id: str, topic: str, now_ms: int) -> Look:
        """Begin a look at a group in a topic."""
        return Look(self._groups.get(group_id, {}).get(topic), now_ms)

    def unclaimed(self, group_id: str) -> list[str]:
        """The topics in which a member owned partitions at the last look and had not committed."""
        known = self._groups.get(group_id, {})
        return [topic for topic, standing in known.items() if standing.unclaimed]

    def keep(self, group_id: str, looks: dict[str, Look], generation_id: int) -> None:
        """Remember a look at all topics of a group instead of the one before."""
        self.forget(group_id)
        kept = {topic: look.after for topic, look in looks.items()}
        size = sum(map(len, kept.values()))
        if self.size + size <= PARTITIONS_MAX:
            self._groups[group_id] = kept
            self.size += size
            if not any(each.unclaimed for each in kept.values()):
                self._generations[group_id] = generation_id

    def forget(self, group_id: str) -> None:
        """A group is gone."""
        self.size -= sum(map(len, self._groups.pop(group_id, {}).values()))
        self._generations.pop(group_id, None)

    def unchanged(
        self, group_id: str, generation_id: int, offsets: Mapping[str, Columns]
    ) -> Mapping[str, Standing] | None:
        """The memory of a group that has commits in the same partitions as at the last look, in all
        that its members own; None where that is not so. What a generation owns does not change.
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
    """The ends of a topic's partitions at a time; 0 where one was not known."""

    at_ms: int
    ends: array[int]


class Arrivals:
    """Where topics ended at a few times of the last minute or so."""

    def __init__(self) -> None:
        self._marks: dict[bytes, deque[Mark]] = {}
        self._used: set[bytes] = set()

    def mark(
        self, topic_id: bytes, ends: Callable[[], array[int]], now_ms: int, old_ms: int
    ) -> Sequence[Mark]:
        """The marks of a topic, the oldest first; one of now is added when it is time for it."""
        self._used.add(topic_id)
        marks = self._marks.get(topic_id)
        if marks is None:
            marks = self._marks[topic_id] = deque(maxlen=MARKS_KEPT)
        elif marks[-1].at_ms > now_ms:
            marks.clear()  # the wall clock went back
        if not marks or now_ms - marks[-1].at_ms >= old_ms // MARKS_EVERY:
            marks.append(Mark(now_ms, ends()))
        return marks

    def forget_unused(self) -> None:
        """Drop the topics that nobody asked for since the last call."""
        for topic_id in [each for each in self._marks if each not in self._used]:
            del self._marks[topic_id]
        self._used.clear()


def unread_since(marks: Sequence[Mark], place: Place, timestamp_ms: int | None, now_ms: int) -> int:
    """Since when the first unread record is there: its timestamp, within what the marks prove.

    Old timestamps of records that have just come (a copy of another topic) do not make a reader
    late, and wrong ones of the future do not make it early. Without a timestamp: as late as it can
    have come.
    """
    first = place.first_unread
    came_ms = now_ms
    """It came before this."""
    for mark in reversed(marks):
        end = mark.ends[place.partition] if place.partition < len(mark.ends) else 0
        if end <= first:
            return came_ms if timestamp_ms is None else min(max(timestamp_ms, mark.at_ms), came_ms)
        came_ms = mark.at_ms
    return came_ms if timestamp_ms is None else min(timestamp_ms, came_ms)
