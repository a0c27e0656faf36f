"""Chooses processes, and members of a process, by their load.

Equal loads are ordered by number. Loads are integers, so that they compare exactly: multiples of
one divided by the least common multiple of the capacities. A load is stored together with the
number of its place, load * places + place.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain
from math import lcm


def by_load(sizes: Sequence[int], capacities: Sequence[int], number: int) -> list[int]:
    """Returns the places that get the next ``number`` tasks.

    Each task goes to the first place with the smallest load, the quotient of size and capacity, and
    increases its size. That load is at most the quotient of the sums, so that only a few more
    candidates than ``number`` are sorted.
    """
    unit, width = lcm(*set(capacities)), len(sizes)
    highest = unit * (sum(sizes) + number) // sum(capacities)
    loads = []
    for place, (size, capacity) in enumerate(zip(sizes, capacities, strict=True)):
        step = unit // capacity * width
        loads.append(range(size * step + place, (highest + 1) * width, step))
    return [load % width for load in sorted(chain.from_iterable(loads))[:number]]


class ProcessesByLoad:
    """The processes ordered by load, and the members of each process ordered by their tasks."""

    def __init__(self, members_of: Sequence[Sequence[int]], counts: Sequence[int]) -> None:
        unit = lcm(*{len(members) for members in members_of})
        self._width = len(members_of)
        self._steps = [unit // len(members) * self._width for members in members_of]
        """The load that one task adds to each process."""
        sizes = [sum([counts[member] for member in members]) for members in members_of]
        self._loads = [
            size * step + process
            for process, (size, step) in enumerate(zip(sizes, self._steps, strict=True))
        ]
        """A heap of loads. A load is a multiple of the number of processes; the remainder is the
        number of the process."""
        self._members = [[(counts[member], member) for member in members] for members in members_of]
        heapq.heapify(self._loads)
        for heap in self._members:
            heapq.heapify(heap)

    def take(self, holders: list[int], number: int) -> list[int]:
        """Returns members of the ``number`` least loaded processes outside ``holders``, or of all
        such processes, adds a task to each of these members, and the processes to ``holders``."""
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
