"""What clients do to a cluster while it is harmed, and what must be true of it afterwards.

| load | what it does | what must hold |
|---|---|---|
| `Plain` | a producer with acks=all | each acknowledged record is there |
| `Idempotent` | the same with enable.idempotence | each is there once, in its order |
| `Transactional` | three records, committed or aborted | all or nothing of each, once |
| `Group` | two members read and commit | all is read; commits are kept, and never go back |

Each works in threads of its own until it is ended. A coordinator that has been replaced still tells
the offsets that it knew until it hears of that: a Kafka that was paused, and any broker while
ZooKeeper is away. What it says then is not held against the cluster. Nor is a Kafka's word that
nothing is committed: one that gives a coordinator away looks whether it still is one, and then for
the group that it has just forgotten. Who asks again must hear the truth.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from offsets.partitioner import partition_for
from offsets.record_values import offset_key_head
from tests import waiting
from tests.interop.committed_readers import messages, seen
from tests.interop.work import ONE_IN_FLIGHT, Work
from tests.interop.zookeeper_cluster import MUSTER, ZooKeeperCluster

OFFSETS = "__consumer_offsets"
PARTITIONS = 3
WITHIN_S = 120.0
CLIENT = {
    "log_level": 0,
    "socket.timeout.ms": 6000,
    "topic.metadata.refresh.interval.ms": 5000,
    "reconnect.backoff.max.ms": 1000,
}
"""A broker that is paused answers nothing, and closes no connection either."""


class Load(Work):
    """What clients do, and what they have found; the name is that of the topic too."""

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__()
        self.cluster = cluster
        self.done = 0
        """How many pieces were successful."""

    def until_goes_on(self) -> None:
        """Waits for a few more pieces than there are now."""
        wanted = self.done + 5

        def more() -> bool:
            self.raise_broken()
            return self.done >= wanted

        waiting.until(f"{self.name} goes on", more, WITHIN_S, tolerate=())

    @abstractmethod
    def check(self) -> None:
        """What must be true once it has ended."""


class Plain(Load):
    """See the module."""

    name = "plain"
    _settings: Mapping[str, object] = {"enable.idempotence": False}

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__(cluster)
        self.acknowledged: list[tuple[int, str]] = []
        """Partition and value, in the order of their answers."""
        self._next = 0
        self._producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                **self._settings,
                "request.timeout.ms": 5000,
            }
        )

    def _piece(self) -> None:
        for _ in range(10):
            partition = self._next % PARTITIONS
            self._producer.produce(
                self.name, b"%d" % self._next, partition=partition, on_delivery=self._delivered
            )
            self._next += 1
        assert self._producer.flush(WITHIN_S) == 0, f"{self.name}: records wait for their answers"
        self.done += 1

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, f"{self.name}: {error}"
        self.acknowledged.append((message.partition() or 0, (message.value() or b"").decode()))

    def _read(self) -> list[tuple[int, str]]:
        return [
            (partition, value)
            for partition in range(PARTITIONS)
            for value in seen(self.cluster.bootstrap, self.name, partition, committed=False)
        ]

    def check(self) -> None:
        assert set(self.acknowledged) <= set(self._read())


class Idempotent(Plain):
    """See the module."""

    name = "idempotent"
    _settings = ONE_IN_FLIGHT

    def check(self) -> None:
        assert self._read() == sorted(
            self.acknowledged, key=lambda record: (record[0], int(record[1]))
        )


class Transactional(Load):
    """See the module. Each transaction has a number, which is the value of its records.

    It commits no offsets: librdkafka 2.16 asks nobody any more, and never returns, once the
    coordinator of their group has left the metadata and come back.
    """

    name = "transactional"

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__(cluster)
        self.committed: set[int] = set()
        self.unknown: set[int] = set()
        """Of which nobody has said whether they are committed."""
        self._next = 0
        self._producer: Producer | None = None

    def _piece(self) -> None:
        if self._producer is None:
            self._producer = self._fresh()
        number, self._next = self._next, self._next + 1
        asked = False
        try:
            self._producer.begin_transaction()
            for partition in range(PARTITIONS):
                self._producer.produce(self.name, b"%d" % number, partition=partition)
            if number % 4 == 3:
                self._producer.flush(WITHIN_S)
                self._until_answered(self._producer.abort_transaction)
            else:
                asked = True
                self._until_answered(self._producer.commit_transaction)
                self.committed.add(number)
            self.done += 1
        except KafkaException as error:
            if not self._gave_up(self._producer, error) and asked:
                self.unknown.add(number)

    def _fresh(self) -> Producer:
        producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": self.cluster.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 30_000,
            }
        )
        self._until_answered(producer.init_transactions)
        return producer

    def _until_answered(self, ask: Callable[[float], Any]) -> None:
        """Asks again while the answer is that one may."""

        def answered() -> bool:
            try:
                ask(20)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise _Final(error) from error
                raise
            return True

        try:
            waiting.until(f"{self.name} is answered", answered, WITHIN_S, KafkaException)
        except _Final as error:
            raise error.cause from None

    def _gave_up(self, producer: Producer, error: KafkaException) -> bool:
        """Aborts what has failed; False where that can't be, and another producer must come."""
        if error.args[0].txn_requires_abort():
            try:
                self._until_answered(producer.abort_transaction)
            except KafkaException:
                pass
            else:
                return True
        self._producer = None
        return False

    def end(self) -> None:
        """Leaves no transaction open."""
        super().end()
        self._producer = self._fresh()

    def check(self) -> None:
        there = Counter(
            int(value)
            for partition in range(PARTITIONS)
            for value in seen(self.cluster.bootstrap, self.name, partition)
        )
        assert set(there.values()) == {PARTITIONS}, "a transaction is there in part, or twice"
        assert self.committed <= there.keys()
        assert there.keys() <= self.committed | self.unknown


class _Final(Exception):
    """An error that another try does not mend."""

    def __init__(self, cause: KafkaException) -> None:
        super().__init__(cause)
        self.cause = cause


class Group(Load):
    """See the module: members of one group, dynamic or static, that read what `Plain` writes."""

    def __init__(self, cluster: ZooKeeperCluster, source: Plain, *, static: bool) -> None:
        super().__init__(cluster)
        self.name = "static group" if static else "group"
        self.is_static = static
        self.values: set[tuple[int, str]] = set()
        self.assigned = Counter[int]()
        """How often each member was given partitions."""
        self._source = source
        self._with_kafka = any(kind != MUSTER for kind in cluster.kinds.values())
        self._settings = {
            **CLIENT,
            "bootstrap.servers": cluster.bootstrap,
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,  # a client that takes its own for over is fenced
            "heartbeat.interval.ms": 1000,
            "partition.assignment.strategy": "range",
        }
        self._committed = dict.fromkeys(range(PARTITIONS), -1)
        """The highest that was told of each partition's committed offset."""
        self._told_all: set[tuple[int, int]] = set()
        """Each partition and offset that was told."""
        self._watcher = Consumer(self._settings)
        self._members: dict[int, Consumer] = {}
        self._locks = {number: threading.Lock() for number in (1, 2)}

    def start(self) -> None:
        """Begins: two members, and one who asks what is committed."""
        for number in (1, 2):
            self._join(number)
            self._begin(lambda number=number: self._read(number))  # type: ignore[misc]
        super().start()

    def _join(self, number: int) -> None:
        own = {"group.instance.id": f"member-{number}"} if self.is_static else {}
        member = Consumer({**self._settings, **own})
        member.subscribe([self._source.name], on_assign=lambda *_: self.assigned.update([number]))
        self._members[number] = member

    def come_back(self, number: int) -> None:
        """A member goes, and comes back under its name before its session is over."""
        with self._locks[number]:
            self._members[number].close()
            self._join(number)

    def _read(self, number: int) -> None:
        with self._locks[number]:
            self._read_by(self._members[number])

    def _read_by(self, member: Consumer) -> None:
        try:
            read = [each for each in member.consume(200, 0.2) if each.error() is None]
            for each in read:
                self.values.add((each.partition() or 0, (each.value() or b"").decode()))
            if not read:
                return
            for each in member.commit(asynchronous=False) or ():
                if each.error is None:
                    self._told(each)
        except KafkaException:
            return  # it is tried again with what is read next, by who has the partition then

    def _told(self, position: TopicPartition) -> None:
        known = self._committed[position.partition]
        self._committed[position.partition] = max(known, position.offset)
        if position.offset >= 0:
            self._told_all.add((position.partition, position.offset))

    def _piece(self) -> None:
        before = dict(self._committed)
        is_new = not self.cluster.stale
        asked = [TopicPartition(self._source.name, each) for each in range(PARTITIONS)]
        try:
            found = self._watcher.committed(asked, 10)
        except KafkaException:
            return  # the coordinator moves
        for each in found:
            assert each.error is None, each
            known = before[each.partition]
            if each.offset < 0 <= known and self._with_kafka:
                return
            went_back = f"{self.name}: {each}, and it was {known} before"
            assert max(each.offset, -1) >= known or not is_new, went_back
            self._told(each)
        self.done += 1

    def until_all_read(self) -> None:
        """Waits until all that was acknowledged is read."""
        wanted = set(self._source.acknowledged)
        waiting.until(f"{self.name} has read all", lambda: wanted <= self.values, WITHIN_S)

    def _kept(self) -> set[tuple[int, int]]:
        """Each partition and offset of the group's commits in the log."""
        head = offset_key_head(self.name, self._source.name)
        count = int(self.cluster.settings["offsets.topic.num.partitions"])
        index = partition_for(self.name, count)
        kept = set()
        for each in messages(self.cluster.bootstrap, OFFSETS, index, committed=False):
            key, value = each.key() or b"", each.value()
            if key[:-4] == head and value is not None:
                kept.add((int.from_bytes(key[-4:], "big"), int.from_bytes(value[2:10], "big")))
        return kept

    def check(self) -> None:
        assert set(self._source.acknowledged) <= self.values
        lost = self._told_all - self._kept()
        assert not lost, f"{self.name}: commits that were told are not in the log: {sorted(lost)}"
        for each in (*self._members.values(), self._watcher):
            each.close()
