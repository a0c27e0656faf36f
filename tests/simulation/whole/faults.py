"""Faults of a simulation with one broker: process, power, disk, clock and connections.

A random fault occurs about every ten seconds. Each fault excuses certain effects. For example, a
suspended broker may respond late, and a broker with a full disk may fail to start.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulated_files import UNBOUNDED
from tests.simulation.whole.agenda import MS, S

if TYPE_CHECKING:
    from tests.simulation.whole.living import LivingWorld

EVERY_S = (2, 5, 10, 20, 30)
FAULTS_WORTH = {
    "kill": 6,
    "power": 6,
    "stop": 3,
    "pause": 8,
    "slow disk": 6,
    "full disk": 4,
    "failing writes": 4,
    "failing fsync": 2,
    "wall clock jumps": 3,
    "storm": 3,
}
"""The relative frequency of each kind of fault."""


class Faults:
    """The faults of one simulation. `begin` schedules the first fault."""

    def __init__(self, world: LivingWorld, chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.worth = FAULTS_WORTH
        self.disk_until_ns = 0
        """The time in ns until which the disk has a fault, or until which an earlier disk fault may
        have consequences."""
        self._deeds: dict[str, Callable[[], None]] = {
            "kill": lambda: self.world.end_process(power_fails=False),
            "power": lambda: self.world.end_process(power_fails=True),
            "stop": self.stop,
            "pause": self.pause,
            "slow disk": self.slow_disk,
            "full disk": self.full_disk,
            "failing writes": self.failing_writes,
            "failing fsync": self.failing_fsync,
            "wall clock jumps": self.wall_clock_jumps,
            "storm": self.storm,
        }
        assert set(self._deeds) == set(FAULTS_WORTH)

    def begin(self) -> None:
        self.world.agenda.after(self.chance.choice(EVERY_S) * S, self._next)

    def _next(self) -> None:
        if self.world.calm:
            return
        self.begin()
        [name] = self.chance.choices(list(self.worth), list(self.worth.values()))
        if self.world.process is not None:
            self.world.happened[name] += 1
            self._deeds[name]()

    @property
    def disk_in_trouble(self) -> bool:
        """Returns True if a disk fault may be the cause of a failure."""
        return self.world.agenda.now_ns < self.disk_until_ns

    def stop(self) -> None:
        assert self.world.process is not None
        self.world.process.ask_to_stop()

    def pause(self) -> None:
        """Suspends the process, as SIGSTOP or a closed laptop does."""
        assert self.world.process is not None
        loop = self.world.process.loop
        loop.stand_still(self.chance.choice((50, 150, 400, 3_000, 12_000, 40_000)) * MS)
        self.world.excuse(loop.now_ns - self.world.agenda.now_ns)  # the process may be late already

    def _trouble(self, seconds: float, until: Callable[[], None]) -> None:
        """Schedules the end of a disk fault: calls ``until`` after ``seconds``. The checkers accept
        effects of the fault on the broker until 15 s after its end."""
        over_ns = self.world.agenda.now_ns + int(seconds * S)
        self.disk_until_ns = max(self.disk_until_ns, over_ns + 15 * S)
        self.world.agenda.at(over_ns, until)

    def slow_disk(self) -> None:
        """Slows down all disk operations for a limited time."""
        seconds = self.chance.choice((1, 4, 10))
        slow_ns = self.chance.choice((30, 300, 1_500)) * MS
        self.world.disk_ns = slow_ns
        self.world.excuse(seconds * S + 20 * slow_ns)
        self.world.agenda.after(seconds * S, self._disk_is_fast)

    def _disk_is_fast(self) -> None:
        self.world.disk_ns = 0

    def full_disk(self) -> None:
        """Leaves little or no free space on the disk for a limited time."""
        files = self.world.files
        used = files.capacity_bytes - files.room(0)
        files.capacity_bytes = used + self.chance.choice((0, 0, 50, 3_000))
        self._trouble(self.chance.choice((0.5, 3, 12)), self._disk_has_room)

    def _disk_has_room(self) -> None:
        self.world.files.capacity_bytes = UNBOUNDED

    def failing_writes(self) -> None:
        """Makes some writes fail. Each failing write stores a part of its bytes."""
        suffix = self.chance.choice((".log", ".log", ""))
        self.world.files.fail(
            "write",
            suffix,
            count=self.chance.randint(1, 4),
            partial_bytes=self.chance.choice((0, 1, 70)),
        )
        self._trouble(self.chance.choice((1, 6)), self.world.files.heal)

    def failing_fsync(self) -> None:
        """Makes one fsync fail. The broker must then exit."""
        self.world.files.fail("fsync", ".log", count=1, code=errno.EIO)
        self._trouble(self.chance.choice((1, 6)), self.world.files.heal)

    def wall_clock_jumps(self) -> None:
        self.world.wall_ahead_s += self.chance.choice((-3_600, -5, 5, 30))

    def storm(self) -> None:
        """Breaks many connections at once, as a restarted network switch does."""
        for client in self.world.clients:
            if self.chance.random() < 0.5:
                client.drop_connection()
                client.think_after(self.chance.randint(0, 2_000) * MS)
