"""The assignor "sticky" of streams groups: balanced over members and processes, and sticky.

Each active task goes to its previous owner if this member is below its quota, then to a member that
had the task as a standby and is below its quota, then to the least loaded process. Standby tasks of
stateful subtopologies go to other processes: to the previous owners below their quota, then to the
least loaded process. The load of a process is its number of tasks per member; inside a process, the
member with the fewest tasks gets the task. The quota of the members that are not full is the number
of the tasks that full members do not have, divided by their number and rounded up.

Guarantees:

- Each task has exactly one active member. A member has at most ceil(tasks / members) active tasks.
- A process has a task at most once, active or standby. A task has fewer than
  ``num_standby_replicas`` standbys only if there are too few processes.
- An active task moves only from a member that left or is above its quota.

The steps, quotas and orders of tasks are Kafka's. Kafka iterates over members and processes in the
order of hash maps, which decides between equal loads; this module takes the first one in ascending
order. A task that several members had as a standby goes to the least loaded of those whose process
does not have the task; Kafka reads the first one's process only, and then forgets the others.

Source: Kafka 4.3.1 ``StickyTaskAssignor``, ``ProcessState``.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import lcm
from typing import Final, NamedTuple

from offsets.streams_records import TaskRoles

NAME: Final = "sticky"
_NOBODY: Final = -1


class TaskMember(NamedTuple):
    """A member that gets tasks."""

    process_id: str
    """The client process, which shares its state directory between its members."""
    previous: TaskRoles
    """The tasks of the member in the previous target."""


class SubtopologyTasks(NamedTuple):
    """The tasks of one subtopology."""

    tasks: int
    stateful: bool
    """A stateful subtopology has a changelog. Its tasks have standbys."""


def assign(
    members: Mapping[str, TaskMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    num_standby_replicas: int,
) -> dict[str, TaskRoles]:
    """Returns the target of each member, by member id."""
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, num_standby_replicas)
    assignment.assign_active()
    if num_standby_replicas > 0:
        assignment.assign_standby()
    return assignment.targets()


class _Quota:
    """The number of tasks up to which a member counts as not full."""

    __slots__ = ("members", "per_member", "tasks")

    def __init__(self, tasks: int, members: int) -> None:
        self.tasks = tasks
        self.members = members
        self.per_member = -(-tasks // members)

    def fill(self) -> int:
        """Notes that a member has reached the quota; returns the quota of the other members."""
        self.members -= 1
        self.tasks -= self.per_member
        self.per_member = -(-self.tasks // self.members) if self.members else 0
        return self.per_member


class _Assignment:
    """One computation. Members, processes and subtopologies are numbers in ascending order of their
    ids. Tasks are numbered by subtopology and partition."""

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
        """The process of each member."""
        self._members_of: list[list[int]] = [[] for _ in processes]
        for member, process in enumerate(self._process):
            self._members_of[process].append(member)
        self._ranges: dict[str, range] = {}
        """The tasks of each subtopology."""
        first = 0
        for subtopology_id in sorted(subtopologies):
            tasks = range(first, first + subtopologies[subtopology_id].tasks)
            self._ranges[subtopology_id] = tasks
            first = tasks.stop
        self._stateful = [
            tasks
            for subtopology_id, tasks in self._ranges.items()
            if subtopologies[subtopology_id].stateful
        ]
        self._replicas = num_standby_replicas
        self._counts = [0] * len(self._members)
        """The tasks of each member."""
        self._owners = [_NOBODY] * first
        """The active member of each task."""
        self._standbys: list[tuple[int, ...]] = [()] * first
        """The standby members of each task."""
        self._was_active = self._previous_owners()
        self._was_standby: dict[int, list[int]] | None = None
        standbys = num_standby_replicas * sum(map(len, self._stateful))
        self._active_quota = _Quota(first, len(self._members))
        self._quota = _Quota(first + standbys, len(self._members))

    def _previous_owners(self) -> list[int]:
        """Returns the previous active member of each task."""
        owners = [_NOBODY] * len(self._owners)
        for number, member in enumerate(self._members):
            for subtopology_id, partitions in member.previous.active.items():
                tasks = self._ranges.get(subtopology_id)
                if tasks is None:
                    continue
                first, number_of_tasks = tasks.start, len(tasks)
                for partition in partitions:
                    if partition < number_of_tasks:
                        owners[first + partition] = number
        return owners

    def _previous_standbys(self) -> dict[int, list[int]]:
        """Returns the previous standby members of each task that has any."""
        if self._was_standby is None:
            self._was_standby = defaultdict(list)
            for number, member in enumerate(self._members):
                for subtopology_id, partitions in member.previous.standby.items():
                    tasks = self._ranges.get(subtopology_id, range(0))
                    for partition in partitions:
                        if partition < len(tasks):
                            self._was_standby[tasks.start + partition].append(number)
        return self._was_standby

    def assign_active(self) -> None:
        """Gives each task an active member."""
        left = self._keep_active()
        if left:
            left = self._activate_standbys(left)
        if left:
            self._spread_active(sorted(left))

    def _keep_active(self) -> list[int]:
        """Leaves tasks with their owners below the quota; returns the other tasks."""
        owners, counts, was_active = self._owners, self._counts, self._was_active
        active_quota, quota = self._active_quota.per_member, self._quota.per_member
        left = []
        for task in _by_partition(self._ranges.values()):
            member = was_active[task]
            if member >= 0 and counts[member] < active_quota:
                owners[task] = member
                counts[member] = count = counts[member] + 1
                if count == active_quota:
                    active_quota = self._active_quota.fill()
                if count == quota:
                    quota = self._quota.fill()
            else:
                left.append(task)
        return left

    def _activate_standbys(self, tasks: Sequence[int]) -> list[int]:
        """Makes previous standbys active if they are below the quota; returns the other tasks."""
        was_standby = self._previous_standbys()
        if not was_standby:
            return list(tasks)
        sizes = self._sizes()
        left = []
        for task in tasks:
            candidates = was_standby.get(task)
            member = self._least_loaded(candidates, sizes) if candidates else _NOBODY
            if member >= 0 and self._counts[member] < self._active_quota.per_member:
                self._owners[task] = member
                if self._add(member, sizes) == self._active_quota.per_member:
                    self._active_quota.fill()
            else:
                left.append(task)
        return left

    def _spread_active(self, tasks: Sequence[int]) -> None:
        """Assigns each of these tasks to the process with the least load at that point."""
        sizes = self._sizes()
        capacities = [len(members) for members in self._members_of]
        order = _by_load(sizes, capacities, len(tasks))
        added = [0] * len(sizes)
        for process in order:
            added[process] += 1
        turns = []
        for members, number in zip(self._members_of, added, strict=True):
            counts = [self._counts[member] for member in members]
            turn = (
                _by_load(counts, [1] * len(members), number) if len(members) > 1 else [0] * number
            )
            turns.append(iter([members[place] for place in turn]))
        owners, counts, quota = self._owners, self._counts, self._quota.per_member
        for task, process in zip(tasks, order, strict=True):
            member = next(turns[process])
            owners[task] = member
            counts[member] = count = counts[member] + 1
            if count == quota:
                quota = self._quota.fill()

    def assign_standby(self) -> None:
        """Gives each stateful task its standbys, or as many as there are other processes."""
        left = self._keep_standbys()
        if left:
            self._spread_standbys(left)

    def _keep_standbys(self) -> list[tuple[int, int]]:
        """Leaves standbys with their members below the quota. Returns the other tasks, each with
        the number of its missing standbys.

        A member that was active for a task becomes its first standby.
        """
        process, was_active = self._process, self._was_active
        was_standby = self._previous_standbys()
        sizes = self._sizes()
        left = []
        for task in reversed(_by_partition(self._stateful)):
            holders = [process[self._owners[task]]]
            for missing in range(self._replicas, 0, -1):
                member = was_active[task]
                if member < 0 or process[member] in holders or self._is_full(member):
                    free = [m for m in was_standby.get(task, ()) if process[m] not in holders]
                    member = self._least_loaded(free, sizes) if free else _NOBODY
                    if member < 0 or self._is_full(member):
                        left.append((task, missing))
                        break
                self._standbys[task] += (member,)
                self._add(member, sizes)
                holders.append(process[member])
        return left

    def _spread_standbys(self, left: Sequence[tuple[int, int]]) -> None:
        """Assigns the missing standbys of each task to the processes with the least load that do
        not have the task."""
        width = len(self._members_of)
        unit = lcm(*{len(members) for members in self._members_of})
        steps = [unit // len(members) * width for members in self._members_of]
        loads = [size * steps[number] + number for number, size in enumerate(self._sizes())]
        """A heap of the loads of the processes, in multiples of 1 / (unit * width), each plus the
        number of the process; a task adds the process's step."""
        heapq.heapify(loads)
        inside = [
            [(self._counts[member], member) for member in members] for members in self._members_of
        ]
        for heap in inside:
            heapq.heapify(heap)
        for task, missing in sorted(left, reverse=True):
            members = (self._owners[task], *self._standbys[task])
            holders = [self._process[member] for member in members]
            passed = []
            enough = len(holders) + missing
            while len(holders) < enough and loads:
                process = loads[0] % width
                if process in holders:
                    passed.append(heapq.heappop(loads))
                    continue
                count, member = inside[process][0]
                heapq.heapreplace(inside[process], (count + 1, member))
                heapq.heapreplace(loads, loads[0] + steps[process])
                holders.append(process)
                self._standbys[task] += (member,)
            for load in passed:
                heapq.heappush(loads, load)

    def _least_loaded(self, candidates: Sequence[int], sizes: Sequence[int]) -> int:
        """Returns the first of these members, or a later one that has both a process with less load
        and fewer tasks. ``sizes`` has the number of tasks of each process."""
        found = candidates[0]
        for member in candidates[1:]:
            if self._counts[member] < self._counts[found]:
                here, there = self._process[member], self._process[found]
                capacity, other = len(self._members_of[here]), len(self._members_of[there])
                if sizes[here] * other < sizes[there] * capacity:
                    found = member
        return found

    def _is_full(self, member: int) -> bool:
        return self._counts[member] >= self._quota.per_member

    def _add(self, member: int, sizes: list[int]) -> int:
        """Counts one more task of a member and of its process; returns the member's number of
        tasks."""
        sizes[self._process[member]] += 1
        count = self._counts[member] = self._counts[member] + 1
        if count == self._quota.per_member:
            self._quota.fill()
        return count

    def _sizes(self) -> list[int]:
        """Returns the number of tasks of each process."""
        return [sum([self._counts[each] for each in members]) for members in self._members_of]

    def targets(self) -> dict[str, TaskRoles]:
        """Returns the tasks of each member, by member id."""
        active: list[dict[str, tuple[int, ...]]] = [{} for _ in self._members]
        standby: list[dict[str, tuple[int, ...]]] = [{} for _ in self._members]
        for subtopology_id, tasks in self._ranges.items():
            having = self._owners[tasks.start : tasks.stop]
            for member, partitions in _gathered(enumerate(having)).items():
                active[member][subtopology_id] = tuple(partitions)
            if self._replicas:
                kept = enumerate(self._standbys[tasks.start : tasks.stop])
                pairs = ((partition, member) for partition, members in kept for member in members)
                for member, partitions in _gathered(pairs).items():
                    standby[member][subtopology_id] = tuple(partitions)
        return {
            member_id: TaskRoles(active[number], standby[number])
            for number, member_id in enumerate(self._member_ids)
        }


def _gathered(pairs: Iterable[tuple[int, int]]) -> Mapping[int, list[int]]:
    """Returns the first numbers of the pairs, by the second number."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for first, second in pairs:
        found[second].append(first)
    return found


def _by_partition(ranges: Iterable[range]) -> list[int]:
    """Returns the tasks of these ranges, ordered by partition, then by subtopology."""
    columns: list[list[int]] = []
    for tasks in ranges:
        columns += ([] for _ in range(len(tasks) - len(columns)))
        for column, task in zip(columns, tasks, strict=False):
            column.append(task)
    return list(chain.from_iterable(columns))


def _by_load(sizes: Sequence[int], capacities: Sequence[int], number: int) -> list[int]:
    """Returns the places that get the next ``number`` tasks: each task goes to the first place with
    the smallest quotient of size and capacity, and increases its size.

    The quotient is at most that of the sums when a place is selected, which bounds the candidates.
    """
    unit, width = lcm(*set(capacities)), len(sizes)
    highest = unit * (sum(sizes) + number) // sum(capacities)
    candidates = []
    for place, (size, capacity) in enumerate(zip(sizes, capacities, strict=True)):
        step = unit // capacity
        candidates.append(range(size * step * width + place, (highest + 1) * width, step * width))
    return [key % width for key in sorted(chain.from_iterable(candidates))[:number]]
