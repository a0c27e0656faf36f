"""Selects the processes with the lowest load, and inside a process the member with the fewest
tasks. Candidates with equal loads are ordered by number.

The load of a process is its number of tasks divided by its number of members. Loads are compared
exactly, as integers: each is multiplied by the least common multiple of the numbers of members. The
integer that is stored for a process is load * number of processes + number of the process.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain
from math import lcm


def by_load(sizes: Sequence[int], capacities: Sequence[int], number: int) -> list[int]:
    """Returns the indices into ``sizes`` that get the next ``number`` tasks, in order.

    The load of index i is ``sizes[i] / capacities[i]``. Each task goes to the first index with the
    lowest load, and increases its size by 1. No index gets a load above (sum of sizes + number) /
    sum of capacities, so only a few more candidates than ``number`` are sorted.
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
        """For each process, the amount by which one task increases its load."""
        sizes = [sum([counts[member] for member in members]) for members in members_of]
        self._loads = [
            size * step + process
            for process, (size, step) in enumerate(zip(sizes, self._steps, strict=True))
        ]
        """A heap with one integer per process: load * processes + process."""
        self._members = [[(counts[member], member) for member in members] for members in members_of]
        heapq.heapify(self._loads)
        for heap in self._members:
            heapq.heapify(heap)

    def take(self, holders: list[int], number: int) -> list[int]:
        """Adds one task to each of the ``number`` least loaded processes that are not in
        ``holders``. If fewer processes are not in ``holders``, adds one task to each of these.
        Returns one member of each process that got a task. Appends the processes that got a task to
        ``holders``."""
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
