"""Remembers for how long each committed offset has not moved. The verdicts need this duration.

The timestamp of a commit is not enough, since a stuck client may commit the same offset again and
again. Therefore each scan of a group is compared with its previous scan, partition by partition, in
arrays. The first scan of a group after a start of the broker uses the timestamps of the commits.

`Arrivals` remembers the end offsets that topics had in about the last minute. A record below an
earlier end offset existed at that time. So its minimum age is known without reading the log.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

PARTITIONS_MAX = 1_000_000
"""The maximum number of pairs of group and partition whose progress is remembered. The progress of
other pairs is not remembered."""
MARKS_KEPT = 8
MARKS_EVERY = 6
"""The number of `Mark` objects that are made for a topic in a certain time: the time after which an
unread record makes a group late. MARKS_KEPT is larger, so that the kept marks cover this time."""

Columns = tuple[list[int], list[int]]
"""The partitions that have a commit, in ascending order, and the committed offset of each."""

_NEVER = -1


class Place(NamedTuple):
    """The progress of a group in one partition at one scan."""

    partition: int
    offset: int
    committed_ms: int
    start: int
    end: int
    moved_ms: int
    """The time at which a scan last found that the committed offset had changed."""
    stands_ms: int
    """The time at which the group stopped making progress: since then there are unread records and
    the committed offset has not moved. -1 if all records are read."""
    is_still: bool
    """True if the committed offset is the same as at the previous scan."""

    @property
    def first_unread(self) -> int:
        """The offset at which the group continues to read."""
        return max(self.offset, self.start)


class Standing:
    """The progress of one group in one topic, as the last scan found it. The partitions are in
    ascending order."""

    __slots__ = ("moved", "offsets", "partitions", "seen_ms", "stands", "unclaimed")

    def __init__(self) -> None:
        self.partitions = array("i")
        self.offsets = array("q")
        self.moved = array("q")
        self.stands = array("q")
        self.seen_ms = _NEVER
        """The time of the last scan; -1 before the first scan."""
        self.unclaimed: dict[int, Unclaimed] = {}
        """By partition: facts about a partition that a member owns or owned, but in which the group
        has not committed an offset."""

    def __len__(self) -> int:
        return len(self.partitions) + len(self.unclaimed)


class Unclaimed(NamedTuple):
    """Facts about a partition that has an owner but no committed offset. Scans collect these facts
    from the first scan that saw this owner."""

    owner: str
    """The owner's member id. For a static member, the group instance id, which remains after a
    restart."""
    end: int
    """The log end offset of the partition at the first scan that saw ``owner`` as its owner."""
    seen_ms: int
    grown_ms: int
    """The time in ms at which a scan first saw records after ``end`` in the partition; -1 if no
    scan has seen such records."""


class Look:
    """The result of one scan of a group's committed offsets in a topic. It is compared with the
    result of the previous scan, and kept for the next scan."""

    def __init__(self, before: Standing | None, now_ms: int) -> None:
        self.before = before or Standing()
        self.after = Standing()
        self.now_ms = self.after.seen_ms = now_ms
        self._next = 0
        """An index in the list of partitions of the previous scan. The search for the next
        partition begins at this index."""

    def at(self, partition: int, offset: int, committed_ms: int, start: int, end: int) -> Place:
        """Adds a partition that has a commit, and returns the partition's progress. Must be called
        in ascending order of partitions."""
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
        """Updates ``standing``, the result of the previous scan of a topic, when the group has read
        all records of the topic. ``offsets`` are the committed offsets now. The caller must have
        checked that the partitions of the group are the same as in the previous scan."""
        before = standing.offsets.tolist()
        if before != offsets:
            for place, (was, offset) in enumerate(zip(before, offsets, strict=True)):
                if was != offset:
                    standing.moved[place] = now_ms
            standing.offsets = array("q", offsets)
        standing.stands = array("q", (_NEVER,)) * len(before)
        standing.seen_ms = now_ms

    def without_commit(self, partition: int, owner: str, end: int) -> Unclaimed:
        """Records that a partition has an owner but no committed offset. The result contains two
        times: when a scan first found this owner, and when a scan first found that the log had
        grown since then."""
        kept = self.before.unclaimed.get(partition)
        if kept is None or kept.owner != owner:
            kept = Unclaimed(owner, end, self.now_ms, _NEVER)
        elif kept.grown_ms == _NEVER and end > kept.end:
            kept = kept._replace(grown_ms=self.now_ms)
        self.after.unclaimed[partition] = kept
        return kept

    def after_owner(self, partition: int, end: int) -> Unclaimed:
        """Returns the `Unclaimed` of a partition that has no commit and no owner any more, and
        keeps it for the next scan. Sets ``grown_ms`` if this is the first scan that sees records
        after `Unclaimed.end`."""
        kept = self.before.unclaimed[partition]
        if kept.grown_ms == _NEVER and end > kept.end:
            kept = kept._replace(grown_ms=self.now_ms)
        self.after.unclaimed[partition] = kept
        return kept


class Progress:
    """The remembered progress of all groups. PARTITIONS_MAX limits its size."""

    def __init__(self) -> None:
        self.size = 0
        """The number of remembered pairs of a group and a partition."""
        self._groups: dict[str, dict[str, Standing]] = {}
        self._generations: dict[str, int] = {}
        """By group id: the generation of the group at the last scan. A group is missing if it had a
        partition with an owner but without a committed offset at that scan."""

    def look(self, group_id: str, topic: str, now_ms: int) -> Look:
        """Returns a new scan of the offsets that a group has committed in a topic."""
        return Look(self._groups.get(group_id, {}).get(topic), now_ms)

    def unclaimed(self, group_id: str) -> list[str]:
        """Returns the topics in which the last scan found partitions that have an owner but no
        commit."""
        known = self._groups.get(group_id, {})
        return [topic for topic, standing in known.items() if standing.unclaimed]

    def keep(self, group_id: str, looks: dict[str, Look], generation_id: int) -> None:
        """Replaces the remembered progress of a group with ``looks``, the results of a scan of all
        its topics."""
        self.forget(group_id)
        kept = {topic: look.after for topic, look in looks.items()}
        size = sum(map(len, kept.values()))
        if self.size + size <= PARTITIONS_MAX:
            self._groups[group_id] = kept
            self.size += size
            if not any(each.unclaimed for each in kept.values()):
                self._generations[group_id] = generation_id

    def forget(self, group_id: str) -> None:
        self.size -= sum(map(len, self._groups.pop(group_id, {}).values()))
        self._generations.pop(group_id, None)

    def unchanged(
        self, group_id: str, generation_id: int, offsets: Mapping[str, Columns]
    ) -> Mapping[str, Standing] | None:
        """Returns the stored progress of a group, by topic, if it is still valid. It is valid if
        the generation and the partitions with a commit are the same as in the last scan; the
        committed offsets themselves may have changed.

        Otherwise returns None. Also returns None if a partition had an owner but no commit in the
        last scan. The owners of partitions do not change within a generation.
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
    """The log end offsets of the partitions of a topic at one time; 0 for a partition whose log end
    offset was unknown."""

    at_ms: int
    ends: array[int]


class Arrivals:
    """For each topic: the end offsets of its partitions at a few times in about the last minute."""

    def __init__(self) -> None:
        self._marks: dict[bytes, deque[Mark]] = {}
        self._used: set[bytes] = set()

    def mark(
        self, topic_id: bytes, ends: Callable[[], array[int]], now_ms: int, old_ms: int
    ) -> Sequence[Mark]:
        """Adds a new mark if the topic has no mark, or if the newest mark is at least ``old_ms`` /
        MARKS_EVERY old. Then returns the marks of the topic, oldest first. A mark has a time, and
        the log end offsets of the topic's partitions at this time."""
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
        """Removes the topics for which `mark` was not called since the last call of this method."""
        for topic_id in [each for each in self._marks if each not in self._used]:
            del self._marks[topic_id]
        self._used.clear()


def unread_since(marks: Sequence[Mark], place: Place, timestamp_ms: int | None, now_ms: int) -> int:
    """Returns the wall time since which the first unread record exists. This is the timestamp of
    the record, moved into the interval in which the record was appended. The times of two ``marks``
    limit this interval.

    The limits are needed because a producer may set any timestamp. A record that has just been
    copied from another topic may have an old timestamp; its group is not late. A record may have a
    timestamp in the future; its group may still be late. If ``timestamp_ms`` is None, the end of
    the interval is returned.
    """
    first = place.first_unread
    came_ms = now_ms
    """The latest wall time in ms at which the first unread record can have been appended."""
    for mark in reversed(marks):
        end = mark.ends[place.partition] if place.partition < len(mark.ends) else 0
        if end <= first:
            return came_ms if timestamp_ms is None else min(max(timestamp_ms, mark.at_ms), came_ms)
        came_ms = mark.at_ms
    return came_ms if timestamp_ms is None else min(timestamp_ms, came_ms)
