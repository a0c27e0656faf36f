"""Selects the processes with the lowest load, and inside a process the member with the fewest
tasks. Of candidates with equal loads, the candidate with the lowest number comes first.

The load of a process is its number of tasks divided by its number of members. To compare loads
exactly, each load is multiplied by the least common multiple of the numbers of members, so that it
is an integer. The integer that is stored for a process is load * number of processes + number of
the process.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain
from math import lcm


def by_load(sizes: Sequence[int], capacities: Sequence[int], number: int) -> list[int]:
    """Assigns ``number`` tasks to processes. Returns the index of a process for each task, in the
    order of the assignments.

    ``sizes`` has the number of tasks of each process, and ``capacities`` its capacity. The load of
    a process is its size divided by its capacity. Each task goes to the process with the lowest
    load (the first of several such processes), whose size then grows by 1.

    A process whose load exceeds (sum of sizes + number) / sum of capacities gets no task. Because
    of this limit, only a few more candidates than ``number`` are sorted.
    """
    unit, width = lcm(*set(capacities)), len(sizes)
    highest = unit * (sum(sizes) + number) // sum(capacities)
    loads = []
    for place, (size, capacity) in enumerate(zip(sizes, capacities, strict=True)):
        step = unit // capacity * width
        loads.append(range(size * step + place, (highest + 1) * width, step))
    return [load % width for load in sorted(chain.from_iterable(loads))[:number]]


class ProcessesByLoad:
    """The processes of a streams group ordered by load, and the members of each process ordered by
    their number of tasks."""

    def __init__(self, members_of: Sequence[Sequence[int]], counts: Sequence[int]) -> None:
        unit = lcm(*{len(members) for members in members_of})
        self._width = len(members_of)
        self._steps = [unit // len(members) * self._width for members in members_of]
        """For each process, the number by which its load grows when it gets one task."""
        sizes = [sum([counts[member] for member in members]) for members in members_of]
        self._loads = [
            size * step + process
            for process, (size, step) in enumerate(zip(sizes, self._steps, strict=True))
        ]
        """A heap with one integer for each process. The integer contains the load and the index of
        the process: load * (number of processes) + index."""
        self._members = [[(counts[member], member) for member in members] for members in members_of]
        heapq.heapify(self._loads)
        for heap in self._members:
            heapq.heapify(heap)

    def take(self, holders: list[int], number: int) -> list[int]:
        """Adds one task to each of ``number`` processes: the least loaded processes that are not in
        ``holders``. If there are fewer such processes, each of them gets one task. Appends these
        processes to ``holders``, and returns one member of each."""
        members = []
        passed = []
        while number and self._loads:
            process = self._loads[0] % self._width
            if process in holders:
                passed.append(heapq.heappop(self._loads))
                continue
            heapq.heapreplace(self._loads, self._loads[0] + self._steps[process])
            holders.append(process)
            count, member = self._members[process][0]
            heapq.heapreplace(self._members[process], (count + 1, member))
            members.append(member)
            number -= 1
        for load in passed:
            heapq.heappush(self._loads, load)
        return members
