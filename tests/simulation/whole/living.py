"""The base class of simulations with one whole broker, which is started, killed and restarted.

One seed determines all events: the requests of clients, the arrival of bytes, the speed of the
disk, kills, power failures and suspensions. The broker is the real broker (process.py). All else is
virtual, so that a thousand virtual seconds take seconds. Each subclass has its own clients and
checks.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from random import Random
from typing import TYPE_CHECKING, Any

import structlog

from tests.simulated_files import UNBOUNDED, SimulatedFiles
from tests.simulation.whole.agenda import MS, Agenda, S
from tests.simulation.whole.faults import Faults
from tests.simulation.whole.network import Network, Wire
from tests.simulation.whole.process import PORT, Process

if TYPE_CHECKING:
    from tests.simulation.whole.client import Client


def _drop(*_: object) -> str:
    raise structlog.DropEvent


@contextmanager
def silent() -> Iterator[None]:
    """Drops the log lines of the broker in the block, because they are too many."""
    before = structlog.get_config()
    only_critical = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=only_critical, processors=[_drop])
    try:
        yield
    finally:
        structlog.configure(**before)


class LivingWorld:
    """A simulated broker. Subclasses add clients and checks."""

    port = PORT
    kind = "simulated broker"

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(seed)
        self.agenda = Agenda()
        self.network = Network(self.agenda, Random(chance.random()))
        self.files = SimulatedFiles()
        self.settings: dict[str, str] = {}
        """Settings with which each broker process is started."""
        self.wall_ahead_s = 0.0
        self.happened: Counter[str] = Counter()
        self.failure: Exception | None = None
        self.process: Process | None = None
        self.digest = hashlib.sha256()
        """A digest of all responses, in the order in which the broker wrote them."""
        self._excused_until_ns = 0
        self.disk_ns = 0
        """The extra time in ns that each disk operation currently takes."""
        self.calm = False
        """True if no more faults occur and the clients send only correct requests."""
        self.faults = Faults(self, self._fork())
        self.network.on_written = lambda wire, frame: self.guarded(self._written, wire, frame)
        self.network.on_closed = lambda wire: self.guarded(self._closed, wire)
        self.clients: Sequence[Client] = ()
        self.by_host: dict[str, Client] = {}

    def populate(self, clients: Sequence[Client]) -> None:
        """Starts the faults and each client, each after a random time."""
        self.clients = clients
        self.by_host = {client.host: client for client in clients}
        for client in clients:
            client.think_after(int(self.chance.random() * 3 * S))
        self.faults.begin()

    def _fork(self) -> Random:
        return Random(self.chance.random())

    @property
    def seconds(self) -> float:
        return self.agenda.now_ns / S

    # -- for subclasses

    def watched(self) -> AbstractContextManager[None]:
        """Returns the context in which the broker runs. Subclasses use it to observe or patch the
        broker."""
        return nullcontext()

    def serves(self) -> None:
        """Called when the broker has recovered its logs and listens."""

    def looked_at(self) -> None:
        """Called after each iteration of the broker's event loop."""

    def process_is_gone(self) -> None:
        """Called when the process is dead. Responses that it had not yet sent are lost."""

    def power_fails(self) -> None:
        """Called before a power failure removes unflushed data from the disk."""

    def rest(self) -> None:
        """Ends all faults. Asserts that the broker returns to rest within a bounded time: for
        example, that each group becomes stable."""

    # -- processes of the broker

    def run(self, seconds: float) -> None:
        until_ns = self.agenda.now_ns + int(seconds * S)
        self.agenda.at(until_ns, self._leave)
        with self.watched(), silent():
            while self.agenda.now_ns < until_ns:
                if self.process is None:
                    self._start()
                self._live()
                if self.failure is not None:
                    raise self.failure

    def end(self) -> None:
        if self.process is not None:
            self.process.bury()

    def calm_down(self) -> None:
        """Ends all faults. From now on the clients send only correct requests."""
        self.calm = True
        self.disk_ns = 0
        self.files.capacity_bytes = UNBOUNDED
        self.files.heal()
        for client in self.clients:
            client.calm = True

    def fingerprint(self) -> str:
        """Returns a digest of all responses, in order, and of all bytes on the disk."""
        digest = self.digest.copy()
        for path in sorted(self.files.names):
            digest.update(path.encode())
            digest.update(self.files.names[path].data)
        return digest.hexdigest()

    def _start(self) -> None:
        self.process = Process(self, self._fork())
        self.process.loop.after_iteration = self.looked_at
        self.process.loop.disk_ns = lambda: self.disk_ns

    def _live(self) -> None:
        """Runs the process until it ends, it is killed, or the simulation ends."""
        process = self.process
        assert process is not None
        process.run()
        if self.failure is not None or not (process.ended or process.killed):
            return
        if process.died_of is not None:
            self.happened["gave up"] += 1
            assert self.faults.disk_in_trouble, f"the broker ended: {process.died_of}"
        self._after_life(process)
        downtime_ns = self.chance.choice((50, 500, 4_000)) * MS
        self.excuse(downtime_ns)
        self.agenda.run_until(self.agenda.now_ns + downtime_ns)

    def _after_life(self, process: Process) -> None:
        self._check_errors(process)
        self.network.cut()
        process.bury()
        self.files.kill()
        self.process_is_gone()
        self.process = None
        if process.loses_power:
            self.power_fails()
            self.files.lose_power(self.chance)

    def _check_errors(self, process: Process) -> None:
        """Asserts that the process had no unhandled exception and logged no bug."""
        assert not process.loop.errors, process.loop.errors
        caught = {name: n for name, n in process.broker.internal_errors.counts.items() if n}
        assert not caught, f"errors of the broker's own: {caught}"

    def end_process(self, power_fails: bool) -> None:
        """Kills the process with SIGKILL, or cuts the power of the machine."""
        assert self.process is not None
        self.process.loses_power = power_fails
        self.process.kill()

    def _leave(self) -> None:
        if self.process is not None:
            self.process.loop.leave()

    def excuse(self, ns: int) -> None:
        """For ``ns`` nanoseconds and 5 more seconds from now, a late response of the broker is not
        a failure."""
        now_ns = self.agenda.now_ns
        self._excused_until_ns = max(self._excused_until_ns, now_ns + ns + 5 * S)

    def excused(self, since_ns: int) -> bool:
        """Returns True if the broker may respond late to a request that was sent at ``since_ns``,
        because a fault delayed the broker at that time or later."""
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
                self._leave()

    def _written(self, wire: Wire, frame: bytes) -> None:
        """Called when the broker passes a response to a transport."""
        client = self.by_host[wire.address[0]]
        self.digest.update(client.name.encode())
        self.digest.update(frame)
        client.written(frame)

    def _closed(self, wire: Wire) -> None:
        """Called when the broker closes a client's connection. Asserts that the client did
        something wrong, or that the broker is stopping."""
        client = self.by_host[wire.address[0]]
        assert self.process is not None
        assert client.may_be_closed or not self.process.serves, (
            f"the broker closes the connection of {client.name}, which did nothing wrong"
        )
