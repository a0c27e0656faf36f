"""The assignor "sticky" of streams groups: balanced over members and processes, and sticky.

An active task goes to the first of these candidates:

- its previous owner, if this member is below its quota;
- a member that had the task as a standby, if this member is below its quota;
- the least loaded process.

Standby tasks of stateful subtopologies go to other processes: first to the previous owners and
standbys that are below their quota, then to the least loaded process. The load of a process is its
number of tasks per member. Inside a process, the member with the fewest tasks gets the task. The
quota of a member is the number of the remaining tasks divided by the number of members that are not
full, rounded up.

Guarantees:

- Each task has exactly one active member. A member has at most ceil(tasks / members) active tasks.
- A process has a task at most once, active or standby. Each stateful task has
  ``num_standby_replicas`` standbys, or one in each other process if these are fewer.
- Each member keeps floor(tasks / members) of its previous active tasks, or all if they are fewer.
  After a member left a balanced target, only its active tasks move.
- The target of a new group does not change when it is computed again, if all processes have equally
  many members. Otherwise a standby may move, as in Kafka; active tasks do not move.

The steps, quotas and orders of tasks are Kafka's, with two differences. Kafka iterates over members
and processes in the order of hash maps, which decides between equal loads; this module uses
ascending order. If a task has several previous standbys, Kafka ignores all of them if the process
of the first one already has the task; this module ignores only the standbys whose own process has
the task.

Source: Kafka 4.3.1 ``StickyTaskAssignor``, ``ProcessState``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from coordinator.assignors.process_load import ProcessesByLoad, by_load
from offsets.streams_records import TaskRoles
from protocol.steps import at_once

NAME: Final = "sticky"
_NOBODY: Final = -1
_TASKS_PER_STEP: Final = 500

Item = TypeVar("Item")


class TaskMember(NamedTuple):
    """A member of a streams group, as input of the assignor."""

    process_id: str
    """The id of the client process. The members of one process share its state directory."""
    previous: TaskRoles


class SubtopologyTasks(NamedTuple):
    """The tasks of one subtopology."""

    tasks: int
    stateful: bool
    """True if the subtopology has a changelog. Only tasks of stateful subtopologies have standbys.
    """


def assign(
    members: Mapping[str, TaskMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    num_standby_replicas: int,
) -> dict[str, TaskRoles]:
    """Returns the target tasks of each member, by member id."""
    return at_once(assign_in_steps(members, subtopologies, num_standby_replicas))


def assign_in_steps(
    members: Mapping[str, TaskMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    num_standby_replicas: int,
) -> Generator[None, None, dict[str, TaskRoles]]:
    """Computes the same result as `assign`, and returns it at the end of the generator. The
    generator yields after every few hundred tasks, so that the caller can pause the work."""
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, num_standby_replicas)
    yield from assignment.read_previous()
    yield from assignment.assign_active()
    yield from assignment.assign_standby()
    return (yield from assignment.targets())


class _Quota:
    """The quota: the number of tasks at which a member counts as full. It is the number of the
    remaining tasks divided by the number of members that are not full, rounded up."""

    __slots__ = ("_members", "_tasks", "per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = -(-tasks // members)

    def fill(self) -> int:
        """Called when a member has all tasks of its quota. Returns the new quota of each remaining
        member, computed from the tasks that remain."""
        self._members -= 1
        self._tasks -= self.per_member
        self.per_member = -(-self._tasks // self._members) if self._members else 0
        return self.per_member


class _Assignment:
    """The computation of one assignment. Members and processes are represented by numbers, in
    ascending order of their ids. Tasks are represented by numbers, in ascending order of
    subtopology id and partition."""

    def __init__(
        self,
        members: Mapping[str, TaskMember],
        subtopologies: Mapping[str, SubtopologyTasks],
        num_standby_replicas: int,
    ) -> None:
        self._member_ids = sorted(members)
        self._members = [members[member_id] for member_id in self._member_ids]
        processes = sorted({member.process_id for member in self._members})
        numbers = {process_id: number for number, process_id in enumerate(processes)}
        self._process = [numbers[member.process_id] for member in self._members]
        self._members_of: list[list[int]] = [[] for _ in processes]
        for number, process in enumerate(self._process):
            self._members_of[process].append(number)
        self._ranges: dict[str, range] = {}
        end = 0
        for subtopology_id in sorted(subtopologies):
            tasks = range(end, end + subtopologies[subtopology_id].tasks)
            self._ranges[subtopology_id] = tasks
            end = tasks.stop
        self._stateful = [
            tasks for each, tasks in self._ranges.items() if subtopologies[each].stateful
        ]
        self._replicas = num_standby_replicas
        self._counts = [0] * len(self._members)
        self._sizes = [0] * len(processes)
        self._owners = [_NOBODY] * end
        self._standbys: list[Sequence[int]] = [()] * end
        self._was_active = [_NOBODY] * end
        self._was_standby: list[tuple[int, ...]] = [()] * end
        standbys = num_standby_replicas * sum(map(len, self._stateful))
        self._active_quota = _Quota(end, len(self._members))
        self._quota = _Quota(end + standbys, len(self._members))

    def read_previous(self) -> Iterator[None]:
        """Reads the previous active member and the previous standby members of each task."""
        read = 0
        for number, member in enumerate(self._members):
            for subtopology_id, partitions in member.previous.active.items():
                tasks = self._ranges.get(subtopology_id, range(0))
                first, count = tasks.start, len(tasks)
                for partition in partitions:
                    if partition < count:
                        self._was_active[first + partition] = number
                read += len(partitions)
            for subtopology_id, partitions in member.previous.standby.items():
                tasks = self._ranges.get(subtopology_id, range(0))
                first, count, added = tasks.start, len(tasks), (number,)
                for partition in partitions:
                    if partition < count:
                        self._was_standby[first + partition] += added
                read += len(partitions)
            if read >= _TASKS_PER_STEP:
                read = 0
                yield

    def assign_active(self) -> Iterator[None]:
        left: list[int] = []
        for tasks in _pieces(_by_partition(self._ranges.values())):
            left += self._keep_active(tasks)
            yield
        if any(member.previous.standby for member in self._members):
            movable, left = left, []
            for tasks in _pieces(movable):
                left += self._activate_standbys(tasks)
                yield
        left.sort()
        order = by_load(self._sizes, [len(members) for members in self._members_of], len(left))
        yield
        turns = self._turns(order)
        yield
        for placed in _pieces(list(zip(left, order, strict=True))):
            self._spread_active(placed, turns)
            yield

    def _keep_active(self, tasks: Iterable[int]) -> list[int]:
        """Assigns each task to its previous active member, if this member is not full. Returns the
        tasks that were not assigned."""
        owners, counts, was_active = self._owners, self._counts, self._was_active
        process, sizes = self._process, self._sizes
        active_quota, quota = self._active_quota.per_member, self._quota.per_member
        left = []
        for task in tasks:
            member = was_active[task]
            if member >= 0 and counts[member] < active_quota:
                owners[task] = member
                sizes[process[member]] += 1
                counts[member] = count = counts[member] + 1
                if count == active_quota:
                    active_quota = self._active_quota.fill()
                if count == quota:
                    quota = self._quota.fill()
            else:
                left.append(task)
        return left

    def _activate_standbys(self, tasks: Iterable[int]) -> list[int]:
        """Assigns each task to one of its previous standby members if this member is not full.
        Returns the tasks that were not assigned."""
        counts = self._counts
        left = []
        for task in tasks:
            member = self._least_loaded(self._was_standby[task], ())
            if member < 0 or counts[member] >= self._active_quota.per_member:
                left.append(task)
                continue
            self._owners[task] = member
            self._sizes[self._process[member]] += 1
            counts[member] = count = counts[member] + 1
            if count == self._active_quota.per_member:
                self._active_quota.fill()
            if count == self._quota.per_member:
                self._quota.fill()
        return left

    def _turns(self, order: Iterable[int]) -> list[Iterator[int]]:
        """Distributes the remaining tasks of each process to the members of the process, by load.
        ``order`` has the process of each remaining task. Returns an iterator for each process. Each
        value of the iterator is the member that gets the next remaining task of the process."""
        added = [0] * len(self._sizes)
        for process in order:
            added[process] += 1
        turns = []
        for members, number in zip(self._members_of, added, strict=True):
            counts = [self._counts[member] for member in members]
            places = by_load(counts, [1] * len(members), number)
            turns.append(iter([members[place] for place in places]))
        return turns

    def _spread_active(
        self, placed: Iterable[tuple[int, int]], turns: Sequence[Iterator[int]]
    ) -> None:
        """Assigns active tasks to members. ``placed`` contains pairs of a task and the process that
        must get it. The members of a process get the tasks of this process in turn."""
        owners, counts, quota = self._owners, self._counts, self._quota.per_member
        for task, process in placed:
            owners[task] = member = next(turns[process])
            self._sizes[process] += 1
            counts[member] = count = counts[member] + 1
            if count == quota:
                quota = self._quota.fill()

    def assign_standby(self) -> Iterator[None]:
        """Assigns ``num_standby_replicas`` standbys to each stateful task, on different processes.
        If the group has too few processes, each process that does not have the active task gets one
        standby."""
        if self._replicas < 1:
            return
        left: list[tuple[int, list[int]]] = []
        for tasks in _pieces(_by_partition(self._stateful)[::-1]):
            left += self._keep_standbys(tasks)
            yield
        if not left:
            return
        left.sort(key=itemgetter(0), reverse=True)
        processes = ProcessesByLoad(self._members_of, self._counts)
        for piece in _pieces(left):
            for task, holders in piece:
                members = processes.take(holders, self._replicas + 1 - len(holders))
                self._standbys[task] = [*self._standbys[task], *members]
            yield

    def _keep_standbys(self, tasks: Iterable[int]) -> list[tuple[int, list[int]]]:
        """Assigns standbys of each task to members that had the task before: first the member that
        had it as active task, then those that had it as standby. Members that have reached the
        quota are skipped. Returns the tasks that still lack standbys, each with the processes that
        have the task."""
        process, counts, sizes = self._process, self._counts, self._sizes
        quota = self._quota.per_member
        left = []
        for task in tasks:
            was_active, was_standby = self._was_active[task], self._was_standby[task]
            holders = [process[self._owners[task]]]
            members: list[int] = []
            while len(members) < self._replicas:
                member = was_active
                if member < 0 or counts[member] >= quota or process[member] in holders:
                    is_one = len(was_standby) == 1
                    member = was_standby[0] if is_one else self._least_loaded(was_standby, holders)
                    if member < 0 or counts[member] >= quota or process[member] in holders:
                        left.append((task, holders))
                        break
                members.append(member)
                holders.append(process[member])
                sizes[process[member]] += 1
                counts[member] = count = counts[member] + 1
                if count == quota:
                    quota = self._quota.fill()
            self._standbys[task] = members
        return left

    def _least_loaded(self, members: Iterable[int], holders: Sequence[int]) -> int:
        """Returns the member of ``members`` that should get a task. Skips members whose process is
        in ``holders``; returns -1 if all members are skipped. Chooses the first member at first. A
        later member replaces the chosen member if it has fewer tasks and its process has a lower
        load."""
        found = _NOBODY
        for member in members:
            process = self._process[member]
            if process in holders:
                continue
            if found < 0:
                found = member
            elif self._counts[member] < self._counts[found]:
                other = self._process[found]
                load = self._sizes[process] * len(self._members_of[other])
                if load < self._sizes[other] * len(self._members_of[process]):
                    found = member
        return found

    def targets(self) -> Generator[None, None, dict[str, TaskRoles]]:
        active: list[dict[str, tuple[int, ...]]] = [{} for _ in self._members]
        standby: list[dict[str, tuple[int, ...]]] = [{} for _ in self._members]
        for subtopology_id, tasks in self._ranges.items():
            owners = enumerate(self._owners[tasks.start : tasks.stop])
            for member, partitions in _gathered(owners).items():
                active[member][subtopology_id] = tuple(partitions)
            yield
            standbys = enumerate(self._standbys[tasks.start : tasks.stop])
            pairs = ((partition, each) for partition, members in standbys for each in members)
            for member, partitions in _gathered(pairs).items():
                standby[member][subtopology_id] = tuple(partitions)
            yield
        roles = map(TaskRoles, active, standby)
        return dict(zip(self._member_ids, roles, strict=True))


def _pieces(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), _TASKS_PER_STEP):
        yield items[first : first + _TASKS_PER_STEP]


def _gathered(pairs: Iterable[tuple[int, int]]) -> Mapping[int, list[int]]:
    """Groups the pairs by their second number. Returns the first numbers of the pairs, by second
    number."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for first, second in pairs:
        found[second].append(first)
    return found


def _by_partition(ranges: Iterable[range]) -> list[int]:
    """Returns the tasks of all ranges, ordered by partition, then by subtopology. Each range has
    the tasks of one subtopology."""
    given = list(ranges)
    if len({len(tasks) for tasks in given}) == 1:
        return list(chain.from_iterable(zip(*given, strict=True)))
    columns: list[list[int]] = []
    for tasks in given:
        columns += ([] for _ in range(len(tasks) - len(columns)))
        for column, task in zip(columns, tasks, strict=False):
            column.append(task)
    return list(chain.from_iterable(columns))
