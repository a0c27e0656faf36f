"""A cluster in a simulated world: machines with brokers, a ZooKeeper, a network, and clients.

One seed decides everything. Each process has its own loop. The process whose next turn is earliest
has the next turn, and outside events occur in between, so that no process sees the future.
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
"""The inter-broker versions: with 3.9 the controller writes the in-sync replicas, with 2.6 leaders
do."""
NOTHING_FAILS_S = 20
"""The seconds after the last fault for which the cluster may still be recovering."""
REST_S = 120
"""The longest time in seconds, without failures, until all replicas of all partitions are in sync.
"""


class ClusterWorld:
    """The cluster and its clients, from one seed."""

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
        """The digest of all responses to clients, in order."""
        self.calm = False
        """True if failures have ended and clients are correct."""
        self.hushed = False
        """True if clients have stopped sending requests."""
        self.machines = [
            BrokerMachine(self, node_id, self.fork()) for node_id in range(1, brokers + 1)
        ]
        self.by_id = {each.node_id: each for each in self.machines}
        self.clients: Sequence[ClusterClient] = ()
        self.by_host: dict[str, ClusterClient] = {}
        self.running: BrokerMachine | None = None
        """The machine whose process has the current turn, or had the last turn."""
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
        """Starts ``clients``, each after a random time."""
        self.clients = clients
        self.by_host = {client.host: client for client in clients}
        for client in clients:
            client.think_after(int((3 + self.chance.random()) * S))

    def fork(self) -> Random:
        """Returns a new random generator that the world's generator has seeded."""
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
        """Returns the virtual seconds since the start."""
        return self.agenda.now_ns / S

    # -- for subclasses

    def watched(self) -> AbstractContextManager[None]:
        """Returns a context in which the brokers run."""
        return nullcontext()

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        """Returns True if a broker is the leader of a partition in ZooKeeper and knows that it
        is."""
        raise NotImplementedError

    def looked_at(self, machine: BrokerMachine) -> None:
        """Called after each turn of a process."""

    def unrest(self) -> list[str]:
        """Returns the reasons why the world is not at rest yet."""
        return []

    def unequal(self) -> list[str]:
        """Returns the differences between logs; valid only when no client sends requests."""
        return []

    # -- life

    def run(self, seconds: float) -> None:
        """Advances virtual time by ``seconds``."""
        until_ns = self.agenda.now_ns + int(seconds * S)
        with self.watched(), silent():
            while self.agenda.now_ns < until_ns:
                self._step(until_ns)
                if self.failure is not None:
                    raise self.failure

    def _step(self, until_ns: int) -> None:
        """Runs the earliest of the next turns of processes and the next outside events."""
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
        """Checks that no error was unhandled, and that the broker caught no bug of its own."""
        broker = process.broker
        if process.died_of is not None:
            self.happened["gave up"] += 1
        assert not process.loop.errors, (machine.node_id, process.loop.errors)
        caught = {name: n for name, n in broker.internal_errors.counts.items() if n}
        assert not caught, f"errors of broker {machine.node_id}'s own: {caught}"

    def excuse(self, ns: int) -> None:
        """Allows late responses of brokers for ``ns`` and some additional time."""
        until_ns = self.agenda.now_ns + ns + NOTHING_FAILS_S * S
        self._excused_until_ns = max(self._excused_until_ns, until_ns)

    def excused(self, since_ns: int) -> bool:
        """Returns True if a fault since ``since_ns`` excuses late responses of brokers."""
        return self._excused_until_ns >= since_ns

    # -- hooks for the checkers

    def guarded(self, check: Callable[..., None], *args: Any) -> None:
        """Runs a check without raising into the broker's code; a failure ends the world."""
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
        """Ends the world."""
        for machine in self.machines:
            if machine.process is not None:
                machine.process.bury()

    # -- rest

    def calm_down(self) -> None:
        """Ends all failures and makes clients correct."""
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
        """Checks that each client is served and each replica is in sync within a bounded time, and
        that the logs are then equal."""
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
