"""Computes the target assignment of a streams group when it is due: a small target in the step in
which it is due, a large target in a sweep of the shard.

While a sweep computes the target, the group stays ASSIGNING, and its members keep their previous
target. A heartbeat then has the status ASSIGNMENT_DELAYED, as during the assignment interval.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from coordinator.consumer.events import TargetComputed
from coordinator.step import WHOLE_STEP, Step, Sweep
from coordinator.streams.changes import StreamsChanges
from coordinator.streams.computed_target import (
    ComputedTarget,
    bytes_at_most,
    bytes_of_records,
    compute_in_steps,
    count_tasks,
    most_tasks,
)
from coordinator.streams.group import StreamsGroup, StreamsMember
from coordinator.streams.topology import ConfiguredTopology, configure
from offsets.streams_records import StreamsGroupRun
from protocol.records.batch import HEADER_BYTES
from protocol.steps import at_once

ASSIGNOR: Final = "sticky"
AT_ONCE: Final = 2_000
"""The size from which on a group is large. The size is the number of members and of active and
standby tasks. A sweep computes the target of a large group in several steps."""
PIECE_COST: Final = 50
"""The cost of one step of a target computation, in units of the budget of `GroupShard.expire`. A
step takes 0.5 ms on average. Some steps take 1 ms in a group with 10,000 tasks, and 6 ms with
50,000 tasks."""
_BEGINNINGS: Final = 3
"""The maximum number of times that the computation of a group's target begins. It begins again if
the group's epoch changes before its end. The last computation always continues to its end, so a
group whose epoch often changes gets a target too."""


def is_large(step: Step, changes: StreamsChanges, configured: ConfiguredTopology) -> bool:
    tasks = most_tasks(configured, _standby(step, changes.group))
    members = len(changes.members)
    if tasks + members >= AT_ONCE:
        return True
    return sum(map(count_tasks, changes.targets.values())) + members >= AT_ONCE


def may_exceed_a_batch(step: Step, changes: StreamsChanges, configured: ConfiguredTopology) -> bool:
    """Returns whether the records of a large target may not fit in a batch."""
    group = changes.group
    size = bytes_at_most(group.group_id, changes.members, configured, _standby(step, group))
    return size > _room(step)


def compute_target(step: Step, changes: StreamsChanges, configured: ConfiguredTopology) -> None:
    """Computes the target assignment of the group's epoch, and emits the event of the
    computation."""
    standby = _standby(step, changes.group)
    steps = compute_in_steps(changes.members, changes.targets, configured, standby)
    _set(step, changes, at_once(steps), changes.epoch.epoch)


def compute_in_sweep(step: Step, group: StreamsGroup) -> None:
    """Begins a sweep that computes the group's target, unless such a sweep exists. The sweep is put
    before the other sweeps of the shard, because these may take seconds."""
    sweeps = step.state.sweeps
    if not any(isinstance(each, TargetSweep) and each.group is group for each in sweeps):
        sweeps.appendleft(TargetSweep(group))


class TargetSweep(Sweep):
    """The computation of a large target assignment in slices.

    If the group's epoch changes during the computation, the computation begins again, but at most
    `_BEGINNINGS` times. After that, it continues in spite of a change, so that its target may
    belong to an older epoch. The target never contains members that were removed during the
    computation. The sweep ends without a result if all members have left, or if another step has
    already computed the target.
    """

    def __init__(self, group: StreamsGroup) -> None:
        self.group = group
        self._begun = 0
        self._epoch = 0
        """The epoch of the group when the computation began."""
        self._members: dict[str, StreamsMember] = {}
        """The members of the group when the computation began."""
        self._steps: Generator[None, None, ComputedTarget] | None = None
        self._computed: ComputedTarget | None = None
        """The computed target; None until the computation has ended. Its records are written in a
        separate step after the last step of the computation, because one step for both would block
        the event loop for too long."""

    def piece(self, step: Step) -> int:
        group = self.group
        if not self._is_wanted():
            return 0
        steps = self._steps
        if steps is None or (group.epoch.epoch != self._epoch and self._begun < _BEGINNINGS):
            steps = self._steps = self._begin(step)
        if self._computed is not None:
            self._end(step, self._computed)
            return 0
        try:
            next(steps)
        except StopIteration as done:
            self._computed = done.value
            return WHOLE_STEP
        return PIECE_COST

    def _is_wanted(self) -> bool:
        group = self.group
        if not group.members or group.topology is None or group.is_delayed:
            return False
        target_epoch = group.target_epoch.epoch
        is_newer = self._steps is not None and target_epoch >= self._epoch
        return not is_newer and group.epoch.epoch > target_epoch

    def _begin(self, step: Step) -> Generator[None, None, ComputedTarget]:
        group, topology = self.group, self.group.topology
        assert topology is not None
        self._begun += 1
        self._computed = None
        self._epoch, self._members = group.epoch.epoch, dict(group.members)
        configured = group.configured or configure(topology, step.state.topics)
        metadata = {member_id: each.metadata for member_id, each in self._members.items()}
        before = dict(group.targets)
        return compute_in_steps(metadata, before, configured, _standby(step, group))

    def _end(self, step: Step, computed: ComputedTarget) -> None:
        group, known = self.group, self.group.members
        there = {name for name, each in self._members.items() if known.get(name) is each}
        computed = ComputedTarget(
            {name: target for name, target in computed.targets.items() if name in there},
            [record for record in computed.records if record.member_id in there],
            computed.moved,
        )
        if bytes_of_records(group.group_id, computed.records) > _room(step):
            return  # the next heartbeat is refused
        changes = StreamsChanges(group)
        _set(step, changes, computed, self._epoch)
        group.changed_ms = step.now.mono_ms
        step.records.append(StreamsGroupRun(group.group_id, changes.records, step.now.wall_ms))


def _set(step: Step, changes: StreamsChanges, computed: ComputedTarget, epoch: int) -> None:
    changes.set_target(computed, epoch, step.now.wall_ms)
    group_id, members, changed = (
        changes.group.group_id,
        len(computed.targets),
        len(computed.records),
    )
    step.events.append(TargetComputed(group_id, epoch, ASSIGNOR, members, changed, computed.moved))


def _room(step: Step) -> int:
    return step.state.config.max_record_bytes - HEADER_BYTES


def _standby(step: Step, group: StreamsGroup) -> int:
    return step.state.config.of_streams_group(group.group_id).num_standby_replicas
