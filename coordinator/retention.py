"""The retention check. It drops expired offsets, and removes groups that have neither members nor
offsets.

The rules are in offsets/expiry.py. A consumer or streams group counts as Stable while it has
members.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.classic.sweeps import OFFSETS_PER_PIECE, cost_of, forget, write_tombstones
from coordinator.events import Cause, OffsetsExpired
from coordinator.expiring import condition_of, times_of_warnings, warn_of_expiry
from coordinator.removal import remove
from coordinator.step import CommittingGroup, Step, Sweep
from offsets.expiry import ExpiryRule, rule_for


class Retention(Sweep):
    """The retention check of all groups."""

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = list(groups)
        self._groups.reverse()
        self._group: _GroupRetention | None = None

    def piece(self, step: Step) -> int:
        if self._group is None:
            if not self._groups:
                return 0
            group = step.state.group_with_offsets(self._groups.pop())
            if group is None or _is_dead(group):
                return 1
            self._group = _GroupRetention(step, group)
        cost = self._group.piece(step)
        if self._group.done:
            self._group = None
        return cost


class _GroupRetention:
    """The retention check of one group. It drops expired offsets and counts the offsets that expire
    soon.

    A group with few offsets is checked without a pause. An EMPTY group without offsets is removed.
    """

    def __init__(self, step: Step, group: Group | CommittingGroup) -> None:
        self.done = False
        self._group = group
        self._topics = list(step.state.cache.topics(group.group_id))
        self._topics.reverse()
        self._topic = ""
        self._partitions: Sequence[int] = ()
        self._next = 0
        self._soon = dict.fromkeys(times_of_warnings(step.state.config), 0)
        """By warning time, such as one day: the number of offsets that may expire in this time."""
        self._soonest_ms = 0
        self._dropped = 0
        self._step: Step | None = None
        self._unreplayed = 0
        """The number of tombstones that were written in the current step. The cache still has these
        offsets until the tombstones are replayed."""

    def piece(self, step: Step) -> int:
        """Checks the next offsets of the group, about `OFFSETS_PER_PIECE`. Returns the cost of this
        work. Sets ``done`` when all offsets are checked."""
        group = self._group
        if step is not self._step:
            self._step, self._unreplayed = step, 0
        if step.state.group_with_offsets(group.group_id) is not group or _is_dead(group):
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
        return cost_of(looked_at, self._dropped - before)

    def _next_topic(self, step: Step, rule: ExpiryRule) -> None:
        self._topic = self._topics.pop()
        self._next, self._partitions = 0, ()
        until_ms = step.now.wall_ms + max(self._soon, default=0)
        retention_ms = step.state.config.offsets_retention_ms
        cache, group_id = step.state.cache, self._group.group_id
        if cache.may_expire(group_id, self._topic, rule, retention_ms, until_ms):
            self._partitions = cache.partitions(group_id, self._topic)

    def _look(self, step: Step, rule: ExpiryRule, most: int) -> int:
        """Checks the next partitions of the current topic, at most ``most``. Returns the number of
        checked partitions."""
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
        """Emits the events of the check. Removes the group if it is EMPTY and has neither offsets
        nor pending member ids."""
        self.done = True
        group = self._group
        if self._dropped:
            step.events.append(OffsetsExpired(group.group_id, self._dropped, Cause.EXPIRED))
        warn_of_expiry(step, group, self._soon, self._soonest_ms)
        if not _is_removable(group):
            return
        cache = step.state.cache
        if cache.has_more_than(group.group_id, self._unreplayed):
            return
        if group.group_id in cache.pending.groups():
            return
        if isinstance(group, CommittingGroup):
            remove(step, group, Cause.EXPIRED)
        else:
            forget(step, group, Cause.EXPIRED, "the group is empty and has no offsets")


def _is_removable(group: Group | CommittingGroup) -> bool:
    if isinstance(group, CommittingGroup):
        return not group.members
    return group.state is State.EMPTY and not group.pending


def _is_dead(group: Group | CommittingGroup) -> bool:
    return isinstance(group, Group) and group.state is State.DEAD
