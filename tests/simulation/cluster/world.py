"""A simulated cluster: machines with brokers, a ZooKeeper, a network and clients. One seed
determines all events.

Each process has its own event loop. The process with the earliest next turn runs its turn. Events
outside the processes occur between turns, so that no process sees an event of its future.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulated_files import UNBOUNDED
from tests.simulation.cluster.fellow_loop import FellowLoop
from tests.simulation.cluster.internet import Internet
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.zookeeper import Server
from tests.simulation.whole.agenda import Agenda, S
from tests.simulation.whole.living import silent
from tests.simulation.whole.network import Wire
from tests.simulation.whole.process import Process

if TYPE_CHECKING:
    from tests.simulation.cluster.client import ClusterClient

BROKERS = (3, 3, 3, 4, 5)
VERSIONS = ("3.9-IV0", "3.9-IV0", "2.6-IV0")
"""The values of inter.broker.protocol.version from which a simulation chooses. With 3.9, the
controller writes the ISR to ZooKeeper; with 2.6, the leaders write it."""
NOTHING_FAILS_S = 20
"""The time in seconds that the cluster may need to recover after the last fault."""
REST_S = 120
"""The maximum time in seconds without faults until the ISR of each partition has all replicas."""


class ClusterWorld:
    """A simulated cluster with its clients, as the seed determines it."""

    kind = "simulated cluster"

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(seed)
        brokers = chance.choice(BROKERS)
        self.agenda = Agenda()
        self.internet = Internet(self.agenda, Random(chance.random()))
        self.zookeeper = Server(self.internet, Random(chance.random()))
        self.settings = self._settings()
        self.happened: Counter[str] = Counter()
        self.failure: Exception | None = None
        self.digest = hashlib.sha256()
        """A digest of all responses to clients, in order."""
        self.calm = False
        """True if no more faults occur and the clients send only correct requests."""
        self.hushed = False
        """True if clients that write records have stopped sending requests."""
        self.machines = [
            BrokerMachine(self, node_id, self.fork()) for node_id in range(1, brokers + 1)
        ]
        self.by_id = {each.node_id: each for each in self.machines}
        self.clients: Sequence[ClusterClient] = ()
        self.by_host: dict[str, ClusterClient] = {}
        self.running: BrokerMachine | None = None
        """The machine whose process runs the current turn, or ran the last turn."""
        self._excused_until_ns = 20 * S
        for each in self.machines:
            self.agenda.after(int(self.chance.random() * S), each.start)

    def _settings(self) -> dict[str, str]:
        copies = "3"
        return {
            "zookeeper.connect": "zookeeper:2181",
            "inter.broker.protocol.version": self.chance.choice(VERSIONS),
            "log.segment.bytes": self.chance.choice(("20000", "1000000")),
            "zookeeper.session.timeout.ms": "6000",
            "default.replication.factor": copies,
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            "replica.lag.time.max.ms": "5000",
            "controller.socket.timeout.ms": "3000",
            "request.timeout.ms": "3000",
            "replica.socket.timeout.ms": "3000",
            "controlled.shutdown.retry.backoff.ms": "500",
            "log.cleaner.enable": "false",
            "auto.create.topics.enable": "false",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
            "leader.imbalance.check.interval.seconds": "20",
        }

    def populate(self, clients: Sequence[ClusterClient]) -> None:
        """Starts each client after a random time."""
        self.clients = clients
        self.by_host = {client.host: client for client in clients}
        for client in clients:
            client.think_after(int((3 + self.chance.random()) * S))

    def fork(self) -> Random:
        """Returns a new random generator, seeded by the random generator of this simulation."""
        return Random(self.chance.random())

    def fingerprint(self) -> str:
        """Returns a digest of all responses, in order, and of all bytes on the disks."""
        digest = self.digest.copy()
        for machine in self.machines:
            for path in sorted(machine.files.names):
                digest.update(path.encode())
                digest.update(machine.files.names[path].data)
        return digest.hexdigest()

    @property
    def seconds(self) -> float:
        """Returns the virtual seconds since the start of the simulation."""
        return self.agenda.now_ns / S

    # -- for subclasses

    def watched(self) -> AbstractContextManager[None]:
        """Returns the context in which the brokers run. Subclasses use it to observe the
        brokers."""
        return nullcontext()

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        """Returns True if the broker ``node_id`` is the leader of a partition, according to
        ZooKeeper and to itself."""
        raise NotImplementedError

    def looked_at(self, machine: BrokerMachine) -> None:
        """Called after each turn of a process. Subclasses check the process."""

    def unrest(self) -> list[str]:
        """Returns the reasons why the cluster is not yet at rest."""
        return []

    def unequal(self) -> list[str]:
        """Returns the differences between the logs of replicas. The result is valid only while no
        client sends requests."""
        return []

    # -- life

    def run(self, seconds: float) -> None:
        until_ns = self.agenda.now_ns + int(seconds * S)
        with self.watched(), silent():
            while self.agenda.now_ns < until_ns:
                self._step(until_ns)
                if self.failure is not None:
                    raise self.failure

    def _step(self, until_ns: int) -> None:
        """Runs the next turn of a process, or the next event outside the processes, whichever is
        earlier."""
        due_ns, due = until_ns, None
        for machine in self.machines:
            if machine.process is not None:
                loop = machine.process.loop
                assert isinstance(loop, FellowLoop)
                wakes_ns = loop.wakes_ns()
                if wakes_ns is not None and wakes_ns < due_ns:
                    due_ns, due = wakes_ns, machine
        next_ns = self.agenda.next_ns
        if next_ns is not None and next_ns <= due_ns:
            self.agenda.run_until(next_ns)
            return
        self.agenda.run_until(due_ns)
        if due is not None:
            self.running = due
            due.turn()
            self.guarded(self.looked_at, due)

    def check_errors(self, machine: BrokerMachine, process: Process) -> None:
        """Asserts that a process had no unhandled exception and logged no bug."""
        broker = process.broker
        if process.died_of is not None:
            self.happened["gave up"] += 1
        assert not process.loop.errors, (machine.node_id, process.loop.errors)
        caught = {name: n for name, n in broker.internal_errors.counts.items() if n}
        assert not caught, f"errors of broker {machine.node_id}'s own: {caught}"

    def excuse(self, ns: int) -> None:
        """Permits late responses of brokers for the next ``ns`` nanoseconds, and for
        NOTHING_FAILS_S afterwards."""
        until_ns = self.agenda.now_ns + ns + NOTHING_FAILS_S * S
        self._excused_until_ns = max(self._excused_until_ns, until_ns)

    def excused(self, since_ns: int) -> bool:
        """Returns True if a fault was active at ``since_ns`` or later, so that brokers may respond
        late."""
        return self._excused_until_ns >= since_ns

    # -- hooks for the checkers

    def guarded(self, check: Callable[..., None], *args: Any) -> None:
        """Runs a check inside a call of the broker. If the check fails, stores its exception and
        ends the simulation; does not raise the exception into the broker."""
        try:
            check(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is ends the world
            if self.failure is None:
                self.failure = error

    def written(self, wire: Wire, frame: bytes) -> None:
        """Called when a broker passes a response to a transport."""
        client = self.by_host.get(wire.address[0])
        if client is not None:
            self.digest.update(client.name.encode())
            self.digest.update(frame)
            self.guarded(client.written, frame)

    def closed(self, wire: Wire) -> None:
        """Called when a broker closes a connection."""

    def end(self) -> None:
        for machine in self.machines:
            if machine.process is not None:
                machine.process.bury()

    # -- rest

    def calm_down(self) -> None:
        """Ends all faults. From now on the clients send only correct requests."""
        self.calm = True
        self.internet.mend_all()
        for machine in self.machines:
            machine.disk_ns = 0
            machine.files.heal()
            machine.files.capacity_bytes = UNBOUNDED
        for client in self.clients:
            client.calm = True
            if not client.sent:
                client.think_after(int(self.chance.random() * S))

    def rest(self) -> None:
        """Ends the simulation with the final checks. Within a bounded time each client must be
        served, and each replica must be in the ISR. Afterwards all replicas of a partition must
        have equal logs."""
        self.calm_down()
        self._until_none(self.unrest, 2)
        self.hushed = True
        self._until_none(self.unequal, 1)

    def _until_none(self, complaints: Callable[[], list[str]], every_s: int) -> None:
        found: list[str] = []
        for _ in range(REST_S // every_s):
            self.run(every_s)
            found = complaints()
            if not found:
                return
        raise AssertionError(f"no rest after {REST_S} calm seconds: {found}")
