"""The simulation of a whole broker with groups, topics and records, and with all kinds of
faults."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from random import Random

from coordinator.events import Cause, Event, MemberLeft
from coordinator.shard import GroupShard
from protocol.now import Now
from tests.simulation.clients import Admin, Member
from tests.simulation.whole.agenda import MS
from tests.simulation.whole.bad_clients import Glutton, Hostile
from tests.simulation.whole.client import Client
from tests.simulation.whole.group_clients import GroupClient
from tests.simulation.whole.living import LivingWorld
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

UNSEEN_NS = 300 * MS
"""After the broker's process was suspended, the broker notices the suspension within this time in
ns. Until then it may leave requests unread."""
REST_S = 120
"""After the last fault, all groups must be stable with all their members within this time in
seconds."""
_SILENT = (Cause.SESSION_EXPIRED, Cause.JOIN_TIMED_OUT, Cause.SYNC_TIMED_OUT)


class World(LivingWorld):
    """One simulated broker and its clients. A seed determines all random choices."""

    def __init__(self, seed: int, groups: int = 10) -> None:
        super().__init__(seed)
        chance = self.chance
        self.flushes = chance.random() < 0.5
        """True if each record of __consumer_offsets is fsynced before its acknowledgement. Only
        then may the machine lose power."""
        self.partitions = chance.choice((1, 3, 7))
        self.replies = Replies()
        self.watches = [ShardWatch(self, partition) for partition in range(self.partitions)]
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
        self.topics_made = False
        self.records = [
            Records(self, topic, partition)
            for topic in (LEDGER, STREAM)
            for partition in range(RECORD_PARTITIONS)
        ]
        self.group_clients = self._group_clients(groups)
        self.by_name = {client.name: client for client in self.group_clients}
        self.populate([*self.group_clients, *self._other_clients()])

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

    # -- hooks of the world

    def watched(self) -> AbstractContextManager[None]:
        return watching(self)

    def looked_at(self) -> None:
        for watch in self.watches:
            if watch.touched:
                self.guarded(watch.check)

    def serves(self) -> None:
        for records in self.records:
            self.guarded(records.check)

    def process_is_gone(self) -> None:
        self.replies.forget()
        self._watched.clear()
        for watch in self.watches:
            watch.serves = False

    def power_fails(self) -> None:
        for watch in self.watches if not self.flushes else ():
            watch.look_at_disk_anew()
            watch.checkers.promises.forgo(watch.end(synced=True))
        for client in self.clients if not self.flushes else ():
            client.power_fails()
        for records in self.records:
            records.power_fails()

    # -- rest

    def rest(self) -> None:
        """Ends all faults. Asserts that within a bounded time each group is stable with all its
        members."""
        self.calm_down()
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
        """Asserts that parked replies, connections and background tasks are bounded by the number
        of clients."""
        assert self.process is not None
        self._check_errors(self.process)
        broker = self.process.broker
        held = [hosted.partition.waiting for hosted in broker.groups.hosted_shards]
        assert max(held) < len(self.clients), f"replies held: {held}"
        there = {wire.transport for wire in self.network.wires}
        assert {connection._transport for connection in broker.server.connections} <= there
        assert len(broker.background.tasks) < 20, broker.background.tasks

    def drops_offsets_later(self) -> bool:
        """Returns True if a shard must still delete offsets of a deleted topic, because the shard
        could not write when the topic was deleted."""
        return self.process is not None and any(self.process.broker.groups.duties.gone.values())

    # -- hooks for the checkers

    def watch_of(self, shard: GroupShard) -> ShardWatch | None:
        return self._watched.get(shard)

    def begin_watch(self, shard: GroupShard, now: Now) -> ShardWatch | None:
        """Starts to watch ``shard``. The caller calls this method when the shard has read its log.
        Returns None if ``shard`` is not a shard of the broker process that runs now."""
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
        self._watched.pop(shard).serves = False

    def told(self, events: Iterable[Event]) -> None:
        """Asserts that the core has not removed a member because of the broker's own delay: while
        the broker has left a request of the member unread for `UNSEEN_NS` or longer, the session of
        the member must not expire."""
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
