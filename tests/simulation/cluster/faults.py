"""Faults of a simulated cluster: processes, power, links, ZooKeeper sessions, the controller, and
disks.

A fault happens every few seconds. Its kind and its target are random. A machine restarts its
process when the process is dead.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from protocol.znodes import cluster
from tests.simulated_files import UNBOUNDED
from tests.simulation.cluster.zookeeper import HOST
from tests.simulation.whole.agenda import MS, S

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import BrokerMachine
    from tests.simulation.cluster.world import ClusterWorld
    from tests.simulation.whole.process import Process

EVERY_S = (1, 2, 4, 8)
FAULTS_WORTH = {
    "kill": 5,
    "power": 4,
    "stop": 4,
    "kill the controller": 3,
    "pause": 6,
    "long pause": 5,
    "cut between brokers": 6,
    "cut from ZooKeeper": 6,
    "slow link": 5,
    "connection to ZooKeeper lost": 6,
    "no controller": 4,
    "late words": 4,
    "slow disk": 4,
    "full disk": 3,
    "alone": 3,
}
"""The relative frequency of each kind of fault."""


class ClusterFaults:
    """The faults of one simulated cluster. `begin` schedules the first fault."""

    def __init__(self, world: ClusterWorld, chance: Random, first_s: float = 5) -> None:
        self.world = world
        self.chance = chance
        self.worth = FAULTS_WORTH
        self._first_ns = int(first_s * S)
        self._deeds: dict[str, Callable[[BrokerMachine], None]] = {
            "kill": lambda machine: machine.kill(),
            "power": lambda machine: machine.kill(power_fails=True),
            "stop": self._stop,
            "kill the controller": lambda _: self._kill_controller(),
            "pause": lambda machine: self._pause(machine, (50, 400, 2_000)),
            "long pause": lambda machine: self._pause(machine, (7_000, 9_000, 15_000)),
            "cut between brokers": self._cut_between,
            "cut from ZooKeeper": lambda machine: self._cut(machine.host, HOST),
            "slow link": self._slow_link,
            "connection to ZooKeeper lost": self._break_off,
            "no controller": lambda _: self._no_controller(),
            "late words": self._late_words,
            "slow disk": self._slow_disk,
            "full disk": self._full_disk,
            "alone": self._alone,
        }
        assert set(self._deeds) == set(FAULTS_WORTH)

    def begin(self) -> None:
        self.world.agenda.after(self._first_ns, self._next)

    def _next(self) -> None:
        if self.world.calm:
            return
        self.world.agenda.after(self.chance.choice(EVERY_S) * S, self._next)
        [name] = self.chance.choices(list(self.worth), list(self.worth.values()))
        machine = self.chance.choice(self.world.machines)
        if machine.process is not None:
            self.do(name, machine)

    def do(self, name: str, machine: BrokerMachine) -> None:
        """Causes the fault ``name`` at a machine whose process is alive."""
        self.world.happened[name] += 1
        self.world.excuse(20 * S)
        self._deeds[name](machine)

    def _stop(self, machine: BrokerMachine) -> None:
        assert machine.process is not None
        machine.process.ask_to_stop()

    def controller(self) -> BrokerMachine | None:
        node = self.world.zookeeper.ensemble.nodes.get(cluster.CONTROLLER)
        node_id = -1 if node is None else cluster.decode_controller(node.data or b"")
        machine = self.world.by_id.get(node_id)
        return None if machine is None or machine.process is None else machine

    def _kill_controller(self) -> None:
        machine = self.controller()
        if machine is not None:
            machine.kill()

    def _pause(self, machine: BrokerMachine, lengths_ms: tuple[int, ...]) -> None:
        """Suspends the process. A long pause exceeds the ZooKeeper session timeout of the
        process."""
        assert machine.process is not None
        ns = self.chance.choice(lengths_ms) * MS
        machine.process.loop.stand_still(ns)
        self.world.excuse(ns)

    def _cut(self, one: str, other: str, seconds: int = 0) -> None:
        seconds = seconds or self.chance.choice((1, 4, 8, 15))
        self.world.excuse(seconds * S)
        self.world.internet.cut(one, other)
        self.world.agenda.after(seconds * S, self.world.internet.mend, one, other)

    def _cut_between(self, machine: BrokerMachine) -> None:
        """Cuts the link between the broker of ``machine`` and another broker. Both brokers can
        still reach ZooKeeper and clients."""
        others = [each for each in self.world.machines if each is not machine]
        self._cut(machine.host, self.chance.choice(others).host)

    def _alone(self, machine: BrokerMachine) -> None:
        """Cuts the links between a broker and all other brokers, and sometimes its link to
        ZooKeeper."""
        seconds = self.chance.choice((1, 4, 8, 15))
        hosts = [each.host for each in self.world.machines if each is not machine]
        for host in hosts + [HOST] * self.chance.randint(0, 1):
            self._cut(machine.host, host, seconds)

    def _slow_link(self, machine: BrokerMachine) -> None:
        """Delays all data on a link for a limited time."""
        hosts = [each.host for each in self.world.machines if each is not machine]
        other = self.chance.choice([*hosts, HOST])
        ns = self.chance.choice((20, 300, 2_000)) * MS
        self.world.internet.delay(machine.host, other, ns)
        seconds = self.chance.choice((3, 10))
        self.world.excuse(seconds * S)
        self.world.agenda.after(seconds * S, self.world.internet.delay, machine.host, other, 0)

    def _break_off(self, machine: BrokerMachine) -> None:
        """Breaks the connection to ZooKeeper for a short time. A request in flight may have been
        executed or lost."""
        if machine.session is not None:
            machine.session.break_off()

    def _no_controller(self) -> None:
        """Deletes the node `/controller`, as an operator can."""
        self.world.zookeeper.delete(cluster.CONTROLLER)

    def _late_words(self, machine: BrokerMachine) -> None:
        """Makes requests of a controller arrive after another controller was elected.

        Stops the broker of ``machine``, so that the controller sends requests to the other brokers.
        One of them does not get its request for 11 s, because the link from the controller is cut.
        The controller is suspended in this time, and loses its session.
        """
        old = self.controller()
        others = [each for each in self.world.machines if each not in (machine, old)]
        if old is None or old is machine or old.process is None:
            return
        self.world.internet.cut(old.host, others[0].host)
        self.world.agenda.after(11 * S, self.world.internet.mend, old.host, others[0].host)
        self.world.agenda.after(400 * MS, self._stand_still, old, old.process)
        self._stop(machine)

    def _stand_still(self, machine: BrokerMachine, process: Process) -> None:
        if machine.process is process:
            process.loop.stand_still(12 * S)
            self.world.excuse(12 * S)

    def _slow_disk(self, machine: BrokerMachine) -> None:
        machine.disk_ns = self.chance.choice((30, 300)) * MS
        self.world.excuse(10 * S)
        self.world.agenda.after(self.chance.choice((1, 5)) * S, self._disk_is_fast, machine)

    def _full_disk(self, machine: BrokerMachine) -> None:
        """Leaves little or no free space on the disk for a limited time."""
        files = machine.files
        files.capacity_bytes += self.chance.choice((0, 50, 3_000)) - files.room(0)
        seconds = self.chance.choice((1, 3, 10))
        self.world.excuse(seconds * S)
        self.world.agenda.after(seconds * S, self._disk_has_room, machine)

    def _disk_has_room(self, machine: BrokerMachine) -> None:
        machine.files.capacity_bytes = UNBOUNDED

    def _disk_is_fast(self, machine: BrokerMachine) -> None:
        machine.disk_ns = 0
