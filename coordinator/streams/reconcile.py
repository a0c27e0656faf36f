"""Reconciliation of a streams group: one step of a member from its current tasks towards its
target.

A member gets an active task when no process has the task as an active task, and the member's own
process has it in no other role. A member gets a standby or warm-up task when its own process has
the task in no role, because the state directories belong to a process.

Source: KIP-1071; Kafka 4.3.1 ``CurrentAssignmentBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from coordinator.streams.states import MemberState, Role, Task
from offsets.streams_records import StreamsCurrentAssignment, TaskEpochs, TaskRoles, Tasks


class Towards(NamedTuple):
    """The input of one member's reconciliation: the epoch and tasks of its target, its process, and
    a function that finds the processes that currently have a task."""

    epoch: int
    target: TaskRoles
    process_id: str
    processes: Callable[[Role, Task], Collection[str]]
    """A function that returns the ids of the processes that currently have a given task in a given
    role, as an assigned or as a revoking task."""


class _Difference(NamedTuple):
    """The difference between the assigned tasks and the target tasks of one role."""

    kept: Tasks
    revoked: Tasks
    given: Tasks
    waits: bool
    """True if the target has tasks that the member can't get yet."""


def reconcile(
    current: StreamsCurrentAssignment, towards: Towards, owned: TaskRoles | None
) -> StreamsCurrentAssignment:
    """Returns the member's assignment after one step. If the assignment does not change, returns
    the same object.

    ``owned`` are the tasks that the member's request lists. If it is None, the member may still own
    all tasks that were assigned to it.
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch == towards.epoch:
                return current
            return _next(current, current.epoch, towards, owned)
        case MemberState.UNREVOKED:
            if owned is None or _owns_any(owned, _revoking(current)):
                return current
            return _next(current, current.epoch + 1, towards, owned)
        case MemberState.UNRELEASED:
            return _next(current, current.epoch, towards, owned)
        case _:
            return _next(current, towards.epoch, towards, owned)


def must_rejoin(current: StreamsCurrentAssignment, owned: TaskRoles | None) -> bool:
    """Returns True if the member must rejoin, because its stored state is unknown and its heartbeat
    has not confirmed that it owns no task."""
    known = current.state in (MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED)
    return not known and owned != TaskRoles()


def _next(
    current: StreamsCurrentAssignment,
    unrevoked_epoch: int,
    towards: Towards,
    owned: TaskRoles | None,
) -> StreamsCurrentAssignment:
    """Returns the assignment of a member after its next step. Call this only if the member has
    confirmed all earlier revocations. ``unrevoked_epoch`` is the member's epoch if it must give up
    tasks in this step."""
    own, processes, target = towards.process_id, towards.processes, towards.target

    def process_has(task: Task, *roles: Role) -> bool:
        return any(own in processes(role, task) for role in roles)

    def is_held_active(task: Task) -> bool:
        held = bool(processes(Role.ACTIVE, task))
        return held or process_has(task, Role.STANDBY, Role.WARMUP)

    def is_held(task: Task) -> bool:
        return process_has(task, Role.ACTIVE, Role.STANDBY, Role.WARMUP)

    active = _difference(current.active, target.active, is_held_active)
    standby = _difference(current.standby, target.standby, is_held)
    warmup = _difference(current.warmup, target.warmup, is_held)
    revoked = TaskRoles(active.revoked, standby.revoked, warmup.revoked)
    kept = {
        name: {partition: current.active[name][partition] for partition in partitions}
        for name, partitions in active.kept.items()
    }
    has_revoked = revoked != TaskRoles()
    if has_revoked and (owned is None or _owns_any(owned, revoked)):
        return _changed(
            current,
            StreamsCurrentAssignment(
                unrevoked_epoch,
                current.epoch,
                MemberState.UNREVOKED.value,
                kept,
                standby.kept,
                warmup.kept,
                {
                    name: {partition: current.active[name][partition] for partition in partitions}
                    for name, partitions in active.revoked.items()
                },
                standby.revoked,
                warmup.revoked,
            ),
        )
    waits = active.waits or standby.waits or warmup.waits
    return _changed(
        current,
        StreamsCurrentAssignment(
            towards.epoch,
            current.epoch,
            (MemberState.UNRELEASED if waits else MemberState.STABLE).value,
            _with_given(kept, active.given, towards.epoch),
            _merged(standby.kept, standby.given),
            _merged(warmup.kept, warmup.given),
        ),
    )


def _difference(
    assigned: Mapping[str, Collection[int]], target: Tasks, is_held: Callable[[Task], bool]
) -> _Difference:
    kept: dict[str, tuple[int, ...]] = {}
    revoked: dict[str, tuple[int, ...]] = {}
    given: dict[str, tuple[int, ...]] = {}
    waits = False
    for name in sorted({*assigned, *target}):
        before, wanted = assigned.get(name, ()), target.get(name, ())
        missing = [partition for partition in wanted if partition not in before]
        free = tuple(partition for partition in missing if not is_held((name, partition)))
        waits = waits or len(free) < len(missing)
        for tasks, partitions in (
            (kept, tuple(partition for partition in before if partition in wanted)),
            (revoked, tuple(partition for partition in before if partition not in wanted)),
            (given, free),
        ):
            if partitions:
                tasks[name] = partitions
    return _Difference(kept, revoked, given, waits)


def _with_given(kept: TaskEpochs, given: Tasks, epoch: int) -> TaskEpochs:
    return {
        name: dict(
            sorted({**kept.get(name, {}), **dict.fromkeys(given.get(name, ()), epoch)}.items())
        )
        for name in sorted({*kept, *given})
    }


def _merged(kept: Tasks, given: Tasks) -> Tasks:
    return {
        name: tuple(sorted((*kept.get(name, ()), *given.get(name, ()))))
        for name in sorted({*kept, *given})
    }


def _revoking(current: StreamsCurrentAssignment) -> TaskRoles:
    active = {name: tuple(epochs) for name, epochs in current.revoking_active.items()}
    return TaskRoles(active, current.revoking_standby, current.revoking_warmup)


def _owns_any(owned: TaskRoles, tasks: TaskRoles) -> bool:
    """Returns whether ``owned`` contains one of ``tasks`` in the same role."""
    return any(
        partition in listed.get(name, ())
        for listed, wanted in (
            (owned.active, tasks.active),
            (owned.standby, tasks.standby),
            (owned.warmup, tasks.warmup),
        )
        for name, partitions in wanted.items()
        for partition in partitions
    )


def _changed(
    current: StreamsCurrentAssignment, after: StreamsCurrentAssignment
) -> StreamsCurrentAssignment:
    """Returns the object ``current`` if ``after`` has equal values, otherwise ``after``."""
    return current if after == current else after
