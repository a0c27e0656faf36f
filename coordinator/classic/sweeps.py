"""Work over many offsets in bounded pieces: deleted groups and topics, and the retention check.

A group may have hundreds of thousands of offsets, and each tombstone costs about 10 us until it is
in the log. The step that begins such work does the first pieces; ``expire`` does the pieces that
remain in ``state.sweeps``. The state may change between two pieces, so each piece reads the state
again. After a crash between two pieces, the remaining offsets are not deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from coordinator.calls import Ticket
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.events import Cause, GroupRemoved, OffsetsExpired
from coordinator.expiring import condition_of, times_of_warnings, warn_of_expiry
from coordinator.step import Step, Sweep
from offsets.cache import OffsetCache
from offsets.expiry import ExpiryRule, rule_for
from offsets.runs import GroupRun, OffsetTombstones
from protocol.errors import NONE
from protocol.records.batch import HEADER_BYTES

AT_ONCE = 100
"""Items of work that are done in the step that begins the work."""
OFFSETS_PER_PIECE = 100
_LOOKS_PER_ITEM = 50
_TOMBSTONES_PER_ITEM = 4
"""An item costs about as much as a deadline, 40 us: it checks this many offsets, or writes this
many tombstones."""
EVERY_LOG_OFFSET = 1 << 62
_TOMBSTONE_FIXED_BYTES = 40
"""Maximum size of a tombstone record without its group id and topic."""


def begin(step: Step, sweep: Sweep) -> bool:
    """Do the first pieces of the work; return whether the work is finished. `expire` does the
    remaining pieces."""
    if work(step, sweep, AT_ONCE) > 0:
        return True
    step.state.sweeps.append(sweep)
    return False


def work(step: Step, sweep: Sweep, budget: int) -> int:
    """Do pieces that cost ``budget`` items in total; return the unused budget, 0 if the work may
    not be finished."""
    while budget > 0:
        cost = sweep.piece(step)
        if not cost:
            return budget
        budget -= cost
    return 0


def write_tombstones(step: Step, group_id: str, keys: Sequence[tuple[str, int]]) -> None:
    """Write tombstones in runs, each of which fits in a batch."""
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


def _cost(looked_at: int, tombstones: int) -> int:
    return 1 + looked_at // _LOOKS_PER_ITEM + tombstones // _TOMBSTONES_PER_ITEM


class _Dropping:
    """Drops the offsets of one group in some topics that were written before a log offset.

    Pending offsets of open transactions are dropped too, so that later markers apply no offsets.
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
        """Implements Sweep.piece."""
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
        return _cost(len(looked_at), len(found))

    def emit(self, step: Step) -> None:
        """Emit the number of dropped offsets; the caller calls it once, at the end."""
        if self.dropped:
            step.events.append(OffsetsExpired(self.group_id, self.dropped, Cause.DELETED))


class TopicsDeleted(Sweep):
    """Drops the offsets of deleted topics in every group that were written before a log offset."""

    def __init__(
        self, cache: OffsetCache, topics: Mapping[str, int], ticket: Ticket | None
    ) -> None:
        self.ticket = ticket
        self._topics = topics
        self._groups = cache.groups_to_delete_from()
        self._groups.reverse()
        self._group: _Dropping | None = None

    def piece(self, step: Step) -> int:
        """Implements Sweep.piece."""
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
                self._group = _Dropping(group_id, found)
                break
        return 1


class GroupDeleted(Sweep):
    """Deletes a group: its offsets first, then its record. The group is DEAD from the start."""

    def __init__(self, step: Step, group: Group, ticket: Ticket) -> None:
        self.ticket = ticket
        self._group = group
        topics = step.state.cache.topics_to_delete(group.group_id)
        self._offsets = _Dropping(group.group_id, [(each, EVERY_LOG_OFFSET) for each in topics])

    def piece(self, step: Step) -> int:
        """Implements Sweep.piece."""
        cost = self._offsets.piece(step)
        if not cost:
            self._offsets.emit(step)
            forget(step, self._group, Cause.DELETED, "deleted")
            step.reply(self.ticket, NONE)
        return cost


def bury(step: Step, group: Group, cause: Cause, detail: str) -> None:
    """Move a group without members to DEAD, and withdraw its pending member ids."""
    for timer in group.pending.values():
        timer.disarm()
    group.pending.clear()
    step.move(group, State.DEAD, cause, detail)


def forget(step: Step, group: Group, cause: Cause, detail: str) -> None:
    """Remove an EMPTY or DEAD group, with a tombstone if the log may hold its record."""
    if group.generation_id > 0 or group.record_offset != -1:
        step.records.append(GroupRun(group.group_id, None))
    if group.state is not State.DEAD:
        bury(step, group, cause, detail)
    step.events.append(GroupRemoved(group.group_id, cause))
    for by_group in step.state.expiring.values():
        by_group.pop(group.group_id, None)
    del step.state.groups[group.group_id]


class Retention(Sweep):
    """The retention check of all groups."""

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = list(groups)
        self._groups.reverse()
        self._group: _GroupRetention | None = None

    def piece(self, step: Step) -> int:
        """Implements Sweep.piece."""
        if self._group is None:
            if not self._groups:
                return 0
            group = step.state.groups.get(self._groups.pop())
            if group is None or group.state is State.DEAD:
                return 1
            self._group = _GroupRetention(step, group)
        cost = self._group.piece(step)
        if self._group.done:
            self._group = None
        return cost


class _GroupRetention:
    """The retention check of one group: drops expired offsets and counts those that expire soon.

    A group with few offsets is checked in one piece. An EMPTY group without offsets is removed.
    """

    def __init__(self, step: Step, group: Group) -> None:
        self.done = False
        self._group = group
        self._topics = list(step.state.cache.topics(group.group_id))
        self._topics.reverse()
        self._topic = ""
        self._partitions: Sequence[int] = ()
        self._next = 0
        self._soon = dict.fromkeys(times_of_warnings(step.state.config), 0)
        """Number of offsets that may expire within each warning time."""
        self._soonest_ms = 0
        self._dropped = 0
        self._step: Step | None = None
        self._unreplayed = 0
        """Number of tombstones written in this step: the cache still holds the offsets that they
        delete."""

    def piece(self, step: Step) -> int:
        """Do the next piece and return its cost; ``done`` is true after the last piece."""
        group = self._group
        if step is not self._step:
            self._step, self._unreplayed = step, 0
        if step.state.groups.get(group.group_id) is not group or group.state is State.DEAD:
            self.done = True
            return 1
        rule = rule_for(condition_of(group))
        looked_at, before = 0, self._dropped
        while looked_at < OFFSETS_PER_PIECE and not self.done:
            if rule is not None and self._next < len(self._partitions):
                looked_at += self._look(step, rule, OFFSETS_PER_PIECE - looked_at)
            elif rule is not None and self._topics:
                self._next_topic(step, rule)
                looked_at += 1
            else:
                self._finish(step)
        return _cost(looked_at, self._dropped - before)

    def _next_topic(self, step: Step, rule: ExpiryRule) -> None:
        self._topic = self._topics.pop()
        self._next, self._partitions = 0, ()
        until_ms = step.now.wall_ms + max(self._soon, default=0)
        retention_ms = step.state.config.offsets_retention_ms
        cache, group_id = step.state.cache, self._group.group_id
        if cache.may_expire(group_id, self._topic, rule, retention_ms, until_ms):
            self._partitions = cache.partitions(group_id, self._topic)

    def _look(self, step: Step, rule: ExpiryRule, most: int) -> int:
        """Check at most ``most`` partitions of the topic; return the number checked."""
        looked_at = self._partitions[self._next : self._next + most]
        self._next += len(looked_at)
        topic, now_ms = self._topic, step.now.wall_ms
        retention_ms = step.state.config.offsets_retention_ms
        gone: list[tuple[str, int]] = []
        until_ms = now_ms + max(self._soon, default=0)
        for partition, at_ms in step.state.cache.due(
            self._group.group_id, topic, looked_at, rule, retention_ms, until_ms
        ):
            if at_ms <= now_ms:
                gone.append((topic, partition))
            else:
                self._soonest_ms = min(self._soonest_ms or at_ms, at_ms)
                for within_ms in self._soon:
                    self._soon[within_ms] += at_ms - now_ms <= within_ms
        if gone:
            write_tombstones(step, self._group.group_id, gone)
            self._dropped += len(gone)
            self._unreplayed += len(gone)
        return len(looked_at)

    def _finish(self, step: Step) -> None:
        """Emit the result, and remove an EMPTY group without offsets and pending member ids."""
        self.done = True
        group = self._group
        if self._dropped:
            step.events.append(OffsetsExpired(group.group_id, self._dropped, Cause.EXPIRED))
        warn_of_expiry(step, group, self._soon, self._soonest_ms)
        match group.state:
            case State.EMPTY:
                cache = step.state.cache
                left = cache.has_more_than(group.group_id, self._unreplayed)
                in_transactions = group.group_id in cache.pending.groups()
                if not left and not in_transactions and not group.pending:
                    forget(step, group, Cause.EXPIRED, "the group is empty and has no offsets")
            case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE | State.DEAD:
                pass
