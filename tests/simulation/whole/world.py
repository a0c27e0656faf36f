"""The whole broker in a simulated world: its clients, its disk, its network, and all that fails.

One seed decides everything: which clients there are and what they do, how bytes arrive, how long
the disk takes, when the process is killed, loses its power, stands still. The broker is the real
one (process.py); everything around it is virtual, and a thousand seconds pass in seconds.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from coordinator.calls import Now
from coordinator.events import Event
from coordinator.shard import GroupShard
from tests.simulated_files import SimulatedFiles
from tests.simulation.clients import Admin, Member
from tests.simulation.whole.agenda import Agenda, S
from tests.simulation.whole.client import Client
from tests.simulation.whole.group_clients import GroupClient, reply_in
from tests.simulation.whole.network import Network, Wire
from tests.simulation.whole.process import PORT, Process
from tests.simulation.whole.replies_on_the_wire import Replies
from tests.simulation.whole.shard_watch import ShardWatch, watching
from tests.simulation.whole.topic_clients import TopicAdmin

_CORRELATION = struct.Struct(">i")


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
        self.failure: AssertionError | None = None
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
        self._excused_ns = 0
        self.network.on_written = lambda wire, frame: self.guarded(self._written, wire, frame)
        self.topics_made = False
        self.group_clients = self._group_clients(groups)
        self.clients: list[Client] = [
            TopicAdmin(self, "topics", "10.1.0.1", self._fork()),
            *self.group_clients,
        ]
        self.by_host = {client.host: client for client in self.clients}
        for client in self.clients:
            client.think_after(int(chance.random() * 3 * S))

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
        with watching(self):
            while self.agenda.now_ns < until_ns:
                self._live()

    def _live(self) -> None:
        process = self.process
        if process is None:
            process = self.process = Process(self, self._fork())
            process.loop.after_iteration = self._check
        process.run()
        assert process.died_of is None, f"the broker ended: {process.died_of}"
        if self.failure is not None:
            raise self.failure

    def _leave(self) -> None:
        if self.process is not None:
            self.process.loop.leave()

    # -- what the checkers ask and hear

    def guarded(self, check: Callable[..., None], *args: Any) -> None:
        """Check without raising into the broker's code; the world ends when it fails."""
        try:
            check(*args)
        except AssertionError as error:
            if self.failure is None:
                self.failure = error
                self._leave()

    def watch_of(self, shard: GroupShard) -> ShardWatch | None:
        return self._watched.get(shard)

    def begin_watch(self, shard: GroupShard, now: Now) -> ShardWatch | None:
        """``shard`` has read its log; None if it is nobody's, such as a checker's own."""
        assert self.process is not None
        for hosted in self.process.broker.runtime.hosted_shards:
            if hosted.core is shard:
                watch = self.watches[hosted.partition]
                self._watched[shard] = watch
                self.guarded(watch.begin, shard, now)
                return watch
        return None

    def forget_shard(self, shard: GroupShard) -> None:
        del self._watched[shard]

    def told(self, watch: ShardWatch, events: Iterable[Event]) -> None:
        """Facts of the core."""

    def excused(self, since_ns: int) -> bool:
        """Whether something has kept the broker from answering since then."""
        return self._excused_ns >= since_ns

    def _written(self, wire: Wire, frame: bytes) -> None:
        """The broker hands an answer to a transport."""
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        client = self.by_host[wire.address[0]]
        self.digest.update(client.name.encode())
        self.digest.update(frame)
        self.replies.leaves((client.name, correlation_id), lambda: reply_in(client.sent[0], frame))

    def _check(self) -> None:
        """After each iteration of the loop."""
        for watch in self.watches:
            if watch.touched:
                self.guarded(watch.check)
