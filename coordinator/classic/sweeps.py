"""Deletion of many offsets in bounded pieces, after groups or topics were deleted. Offsets that
retention removes are in retention.py.

A group may have hundreds of thousands of offsets, and each tombstone costs about 10 us until it is
in the log. The step that begins such work does the first pieces. ``expire`` does the pieces that
remain in ``state.sweeps``. The state may change between two pieces, so each piece reads the state
again. After a crash between two pieces, the remaining offsets are not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinator.calls import Ticket
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.events import Cause, GroupRemoved, OffsetsExpired
from coordinator.step import Step, Sweep
from offsets.cache import OffsetCache
from offsets.runs import GroupRun, OffsetTombstones
from protocol.errors import NONE
from protocol.records.batch import HEADER_BYTES

AT_ONCE = 100
"""The maximum number of units of work that the first step of a sweep does. Later calls of `expire`
do the other units."""
OFFSETS_PER_PIECE = 100
_LOOKS_PER_ITEM = 50
_TOMBSTONES_PER_ITEM = 4
"""The number of tombstones that one unit of work writes. A unit costs about 40 us, as much as the
handling of an expired deadline."""
EVERY_LOG_OFFSET = 1 << 62
_TOMBSTONE_FIXED_BYTES = 40
"""Maximum size of a tombstone record without its group id and topic."""


def begin(step: Step, sweep: Sweep) -> bool:
    """Does the first part of a sweep's work. Returns whether the whole work is finished. If not,
    queues the sweep, so that `expire` does the other parts."""
    if work(step, sweep, AT_ONCE) > 0:
        return True
    step.state.sweeps.append(sweep)
    return False


def work(step: Step, sweep: Sweep, budget: int) -> int:
    """Does at most ``budget`` units of work of a sweep. Returns the unused part of the budget if
    the sweep is then complete, otherwise 0."""
    while budget > 0:
        cost = sweep.piece(step)
        if not cost:
            return budget
        budget -= cost
    return 0


def write_tombstones(step: Step, group_id: str, keys: Sequence[tuple[str, int]]) -> None:
    """Writes tombstones in runs, each of which fits in a batch."""
    room = step.state.config.max_record_bytes - HEADER_BYTES
    head = _TOMBSTONE_FIXED_BYTES + len(group_id.encode())
    first, size = 0, 0
    for i, (topic, _) in enumerate(keys):
        record = head + len(topic.encode())
        if size + record > room and i > first:
            step.records.append(OffsetTombstones(group_id, keys[first:i]))
            first, size = i, 0
        size += record
    step.records.append(OffsetTombstones(group_id, keys[first:]))


def cost_of(looked_at: int, tombstones: int) -> int:
    """Returns the cost of work that checked ``looked_at`` offsets and wrote ``tombstones``
    tombstones, in units of the budget of `expire`."""
    return 1 + looked_at // _LOOKS_PER_ITEM + tombstones // _TOMBSTONES_PER_ITEM


class OffsetsDropped:
    """Drops offsets of one group: for each topic, the offsets whose records in `__consumer_offsets`
    are before a given log offset.

    Pending offsets of open transactions are dropped too, so that a later marker does not apply
    them.
    """

    def __init__(self, group_id: str, topics: Iterable[tuple[str, int]]) -> None:
        self.group_id = group_id
        self.dropped = 0
        self._topics = list(topics)
        self._topics.reverse()
        self._topic, self._below = "", 0
        self._partitions: Sequence[int] = ()
        self._next = 0

    def piece(self, step: Step) -> int:
        if self._next >= len(self._partitions):
            if not self._topics:
                return 0
            self._topic, self._below = self._topics.pop()
            self._partitions = step.state.cache.to_delete(self.group_id, self._topic)
            self._next = 0
        looked_at = self._partitions[self._next : self._next + OFFSETS_PER_PIECE]
        self._next += OFFSETS_PER_PIECE
        found = step.state.cache.deletable(self.group_id, self._topic, looked_at, self._below)
        if found:
            write_tombstones(step, self.group_id, [(self._topic, each) for each in found])
            self.dropped += len(found)
        return cost_of(len(looked_at), len(found))

    def emit(self, step: Step) -> None:
        """Emits the event with the number of dropped offsets. The caller calls this method once, at
        the end."""
        if self.dropped:
            step.events.append(OffsetsExpired(self.group_id, self.dropped, Cause.DELETED))


class TopicsDeleted(Sweep):
    """Drops the committed offsets of deleted topics in all groups. ``topics`` has a log offset for
    each topic. A committed offset whose record is at or after this log offset belongs to a
    recreated topic, and is kept."""

    def __init__(
        self, cache: OffsetCache, topics: Mapping[str, int], ticket: Ticket | None
    ) -> None:
        self.ticket = ticket
        self._topics = topics
        self._groups = cache.groups_to_delete_from()
        self._groups.reverse()
        self._group: OffsetsDropped | None = None

    def piece(self, step: Step) -> int:
        if self._group is None:
            return self._next_group(step)
        cost = self._group.piece(step)
        if not cost:
            self._group.emit(step)
            self._group = None
        return cost or 1

    def _next_group(self, step: Step) -> int:
        if not self._groups:
            if self.ticket is not None:
                step.reply(self.ticket, NONE)
            return 0
        for _ in range(min(len(self._groups), _LOOKS_PER_ITEM)):
            group_id = self._groups.pop()
            there = step.state.cache.topics_to_delete(group_id)
            found = [(topic, below) for topic, below in self._topics.items() if topic in there]
            if found:
                self._group = OffsetsDropped(group_id, found)
                break
        return 1


class GroupDeleted(Sweep):
    """Deletes a group: its offsets first, then its record. The group is in the state DEAD from the
    beginning."""

    def __init__(self, step: Step, group: Group, ticket: Ticket) -> None:
        self.ticket = ticket
        self._group = group
        topics = [
            (topic, EVERY_LOG_OFFSET) for topic in step.state.cache.topics_to_delete(group.group_id)
        ]
        self._offsets = OffsetsDropped(group.group_id, topics)

    def piece(self, step: Step) -> int:
        cost = self._offsets.piece(step)
        if not cost:
            self._offsets.emit(step)
            forget(step, self._group, Cause.DELETED, "deleted")
            step.reply(self.ticket, NONE)
        return cost


def bury(step: Step, group: Group, cause: Cause, detail: str) -> None:
    """Moves a group without members to DEAD, and withdraws member ids with which no client has
    joined yet."""
    for timer in group.pending.values():
        timer.disarm()
    group.pending.clear()
    step.move(group, State.DEAD, cause, detail)


def forget(step: Step, group: Group, cause: Cause, detail: str) -> None:
    """Removes an EMPTY or DEAD group. Writes a tombstone if the log may contain the group's
    record."""
    if group.generation_id > 0 or group.record_offset != -1:
        step.records.append(GroupRun(group.group_id, None))
    if group.state is not State.DEAD:
        bury(step, group, cause, detail)
    step.events.append(GroupRemoved(group.group_id, cause))
    step.state.forget_expiring(group.group_id)
    del step.state.groups[group.group_id]
