"""The whole broker in a simulated world: its clients, its disk, its network, and all that fails.

One seed decides everything: which clients there are and what they do, how bytes arrive, how long
the disk takes, when the process is killed, loses its power, stands still. The broker is the real
one (process.py); everything around it is virtual, and a thousand seconds pass in seconds.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import structlog

from coordinator.events import Cause, Event, MemberLeft
from coordinator.shard import GroupShard
from protocol.now import Now
from tests.simulated_files import SimulatedFiles
from tests.simulation.clients import Admin, Member
from tests.simulation.whole.agenda import MS, Agenda, S
from tests.simulation.whole.bad_clients import Glutton, Hostile
from tests.simulation.whole.client import Client
from tests.simulation.whole.faults import Faults
from tests.simulation.whole.group_clients import GroupClient
from tests.simulation.whole.network import Network, Wire
from tests.simulation.whole.process import PORT, Process
from tests.simulation.whole.record_clients import (
    LEDGER,
    RECORD_PARTITIONS,
    STREAM,
    Consumer,
    Producer,
    Records,
)
from tests.simulation.whole.replies_on_the_wire import Replies
from tests.simulation.whole.shard_watch import ShardWatch, watching
from tests.simulation.whole.topic_clients import TopicAdmin, TopicLife


@contextmanager
def silent() -> Iterator[None]:
    """The broker's log lines go nowhere: there are too many."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


UNSEEN_NS = 300 * MS
"""So long a request may lie unread without the broker's knowing that it stood still."""
REST_S = 120
"""In calm so long at most until all groups are stable with all their members."""
_SILENT = (Cause.SESSION_EXPIRED, Cause.JOIN_TIMED_OUT, Cause.SYNC_TIMED_OUT)


class World:
    """Everything there is, from one seed."""

    port = PORT

    def __init__(self, seed: int, groups: int = 10) -> None:
        self.seed = seed
        self.chance = chance = Random(seed)
        self.agenda = Agenda()
        self.network = Network(self.agenda, Random(chance.random()))
        self.files = SimulatedFiles()
        self.flushes = chance.random() < 0.5
        """The offsets topic flushes each record before it is acknowledged: power may fail."""
        self.partitions = chance.choice((1, 3, 7))
        self.wall_ahead_s = 0.0
        self.happened: Counter[str] = Counter()
        self.failure: Exception | None = None
        self.replies = Replies()
        self.watches = [ShardWatch(self, partition) for partition in range(self.partitions)]
        self.process: Process | None = None
        self.digest = hashlib.sha256()
        """Over all answers, in the order in which they were written."""
        self.settings = {
            "offsets.topic.num.partitions": str(self.partitions),
            "log.cleaner.enable": "false",
            "group.initial.rebalance.delay.ms": chance.choice(("0", "300", "3000")),
            "offset.metadata.max.bytes": "50",
            "offsets.retention.check.interval.ms": "7000",
        }
        if self.flushes:
            self.settings["log.flush.interval.messages"] = "1"
        self._watched: dict[GroupShard, ShardWatch] = {}
        self._excused_until_ns = 0
        self.disk_ns = 0
        """What each job for the disk takes more now."""
        self.calm = False
        """Nothing fails any more, and everybody behaves."""
        self.faults = Faults(self, self._fork())
        self.network.on_written = lambda wire, frame: self.guarded(self._written, wire, frame)
        self.topics_made = False
        self.records = [
            Records(self, topic, partition)
            for topic in (LEDGER, STREAM)
            for partition in range(RECORD_PARTITIONS)
        ]
        self.network.on_closed = lambda wire: self.guarded(self._closed, wire)
        self.group_clients = self._group_clients(groups)
        self.clients = [*self.group_clients, *self._other_clients()]
        self.by_name = {client.name: client for client in self.clients}
        self.by_host = {client.host: client for client in self.clients}
        for client in self.clients:
            client.think_after(int(chance.random() * 3 * S))
        self.faults.begin()

    def _group_clients(self, groups: int) -> list[GroupClient]:
        names = [f"group-{i}" if i % 4 else f"группа-{i}" for i in range(groups)]
        logics: list[Member | Admin] = [
            Admin("admin", self._fork(), names),
            Admin("simple consumer", self._fork(), names),
        ]
        for group_id in names:
            for i in range(self.chance.randint(1, 3)):
                logics.append(Member(f"{group_id}-{i}", group_id, self._fork()))
            for i in range(self.chance.randint(0, 2)):
                instance_id = f"{group_id}-static-{i}"
                logics.append(Member(instance_id, group_id, self._fork(), instance_id))
        return [
            GroupClient(self, logic, f"10.0.{number // 250}.{number % 250 + 1}", self._fork())
            for number, logic in enumerate(logics)
        ]

    def _other_clients(self) -> list[Client]:
        def place(number: int) -> tuple[str, Random]:
            return f"10.1.0.{number}", self._fork()

        clients: list[Client] = [
            TopicAdmin(self, "topics", *place(1)),
            TopicLife(self, "fleeting", *place(2)),
            Hostile(self, "hostile", *place(3)),
            Glutton(self, "glutton", *place(4)),
        ]
        for number, records in enumerate(self.records):
            name = f"{records.topic}-{records.partition}"
            place_of = 10 * (number + 1)
            clients += [
                Producer(self, f"once to {name}", *place(place_of), records, once=True),
                Producer(self, f"some to {name}", *place(place_of + 1), records, once=False),
                Consumer(self, f"reads {name}", *place(place_of + 2), records),
            ]
        return clients

    def _fork(self) -> Random:
        return Random(self.chance.random())

    @property
    def seconds(self) -> float:
        """How much time has passed."""
        return self.agenda.now_ns / S

    # -- life

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        until_ns = self.agenda.now_ns + int(seconds * S)
        self.agenda.at(until_ns, self._leave)
        with watching(self), silent():
            while self.agenda.now_ns < until_ns:
                if self.process is None:
                    self._start()
                self._live()
                if self.failure is not None:
                    raise self.failure

    def rest(self) -> None:
        """Nothing fails any more and everybody behaves: soon every group must come to rest."""
        self.calm = True
        self.disk_ns = 0
        self.files.capacity_bytes = 1 << 40
        self.files.heal()
        for client in self.clients:
            client.calm = True
        unrest = ["nothing was tried"]
        for _ in range(REST_S // 5):
            self.run(5)
            unrest = self._unrest()
            if not unrest:
                break
        assert not unrest, f"no rest after {REST_S} calm seconds: {unrest}"
        self._check_bounds()

    def _unrest(self) -> list[str]:
        if self.process is None or not self.process.serves:
            return ["no broker serves"]
        return [
            complaint
            for watch in self.watches
            for complaint in (watch.checkers.unrest() if watch.serves else ["a shard is loading"])
        ]

    def _check_bounds(self) -> None:
        """What is held in memory is for somebody who is there."""
        assert self.process is not None
        self._check_errors(self.process)
        broker = self.process.broker
        held = [hosted.partition.waiting for hosted in broker.groups.hosted_shards]
        assert max(held) < len(self.clients), f"replies held: {held}"
        there = {wire.transport for wire in self.network.wires}
        assert {connection._transport for connection in broker.server.connections} <= there
        assert len(broker.background.tasks) < 20, broker.background.tasks

    def fingerprint(self) -> str:
        """A digest of all answers so far, in order, and of every byte on the disk."""
        digest = self.digest.copy()
        for path in sorted(self.files.names):
            digest.update(path.encode())
            digest.update(self.files.names[path].data)
        return digest.hexdigest()

    def _start(self) -> None:
        self.process = Process(self, self._fork())
        self.process.loop.after_iteration = self._check
        self.process.loop.disk_ns = lambda: self.disk_ns

    def _live(self) -> None:
        """The process lives until it ends, is ended, or the world has seen enough."""
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
        """The process is gone: what it had open, held and owed goes with it."""
        self._check_errors(process)
        self.network.cut()
        process.bury()
        self.files.kill()
        self.replies.forget()
        self._watched.clear()
        for watch in self.watches:
            watch.serves = False
        self.process = None
        if process.loses_power:
            for watch in self.watches if not self.flushes else ():
                watch.look_at_disk_anew()
                watch.checkers.promises.forgo(watch.end(synced=True))
            for client in self.clients if not self.flushes else ():
                client.power_fails()
            for records in self.records:
                records.power_fails()
            self.files.lose_power(self.chance)

    def serves(self) -> None:
        """The broker has recovered its logs and listens."""
        for records in self.records:
            self.guarded(records.check)

    def _check_errors(self, process: Process) -> None:
        """Nothing has failed that nobody caught, and no bug of the broker's was caught."""
        assert not process.loop.errors, process.loop.errors
        caught = {name: n for name, n in process.broker.internal_errors.counts.items() if n}
        assert not caught, f"errors of the broker's own: {caught}"

    def end_process(self, power_fails: bool) -> None:
        """SIGKILL, or the power fails."""
        assert self.process is not None
        self.process.loses_power = power_fails
        self.process.kill()

    def _leave(self) -> None:
        if self.process is not None:
            self.process.loop.leave()

    def drops_offsets_later(self) -> bool:
        """Whether a shard that cannot write now has still to drop offsets of a deleted topic."""
        return self.process is not None and any(self.process.broker.groups.duties.gone.values())

    def excuse(self, ns: int) -> None:
        """The broker may be late for so long, and some seconds more."""
        now_ns = self.agenda.now_ns
        self._excused_until_ns = max(self._excused_until_ns, now_ns + ns + 5 * S)

    def excused(self, since_ns: int) -> bool:
        """Whether something has kept the broker from answering since then."""
        return self._excused_until_ns >= since_ns

    # -- what the checkers ask and hear

    def guarded(self, check: Callable[..., None], *args: Any) -> None:
        """Check without raising into the broker's code; the world ends when that fails."""
        try:
            check(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is ends the world
            if self.failure is None:
                self.failure = error
                self._leave()

    def watch_of(self, shard: GroupShard) -> ShardWatch | None:
        return self._watched.get(shard)

    def begin_watch(self, shard: GroupShard, now: Now) -> ShardWatch | None:
        """``shard`` has read its log; None if it is nobody's, such as a checker's own."""
        if self.process is None:
            return None
        for hosted in self.process.broker.groups.hosted_shards:
            if hosted.core is shard:
                watch = self.watches[hosted.index]
                self._watched[shard] = watch
                self.guarded(watch.begin, hosted, shard, now)
                return watch
        return None

    def forget_shard(self, shard: GroupShard) -> None:
        """``shard`` was unloaded."""
        self._watched.pop(shard).serves = False

    def told(self, events: Iterable[Event]) -> None:
        """Facts of the core: nobody is put out whose request lay unread (law 9)."""
        for event in events:
            if isinstance(event, MemberLeft) and event.cause in _SILENT:
                client = self.by_name.get(event.client_id)
                if isinstance(client, GroupClient) and client.logic.member_id == event.member_id:
                    self.happened["put out"] += 1
                    unread_ns = client.unread_ns(self.process.loop.now_ns)
                    assert unread_ns < UNSEEN_NS, (
                        f"{event.member_id} is out ({event.detail}), and its request has lain"
                        f" unread for {unread_ns / MS:.0f} ms"
                    )

    def _written(self, wire: Wire, frame: bytes) -> None:
        """The broker hands an answer to a transport."""
        client = self.by_host[wire.address[0]]
        self.digest.update(client.name.encode())
        self.digest.update(frame)
        client.written(frame)

    def _closed(self, wire: Wire) -> None:
        """The broker closes a connection: it stops, or the client has earned it."""
        client = self.by_host[wire.address[0]]
        assert self.process is not None
        assert client.may_be_closed or not self.process.serves, (
            f"the broker closes the connection of {client.name}, which did nothing wrong"
        )

    def _check(self) -> None:
        """After each iteration of the loop."""
        for watch in self.watches:
            if watch.touched:
                self.guarded(watch.check)
