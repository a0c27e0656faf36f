"""Loads of clients on a cluster during failures, and the guarantees that are checked afterwards.

| load | activity | guarantee |
|---|---|---|
| `Plain` | a producer with acks=all | each acknowledged record exists |
| `Idempotent` | an idempotent producer | each acknowledged record exists once, in order |
| `Transactional` | transactions of three records | all or no records of each exist, each once |
| `Group` | two members read and commit | all records are read; no commit is lost or lowered |

Each load works in its own threads until `end` is called. Two kinds of wrong responses are not
faults, but a repeated request must return the correct offsets:

- A replaced coordinator returns the offsets that it knows until it learns of its replacement. Such
  a coordinator is a Kafka broker that was paused, or any broker while ZooKeeper is unavailable.
- A Kafka broker that loses a coordinator may report that no offset is committed. It checks whether
  it is the coordinator, and then looks up the group; in between, it may have unloaded the group.
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
"""Client settings for brokers that may be paused. A paused broker sends no responses and closes no
connections."""


class Load(Work):
    """Clients that use a cluster, and the faults that they have found. The topic has the name of
    the load."""

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__()
        self.cluster = cluster
        self.done = 0
        """The number of operations that succeeded."""

    def until_goes_on(self) -> None:
        """Waits until five more operations have succeeded."""
        wanted = self.done + 5

        def more() -> bool:
            self.raise_broken()
            return self.done >= wanted

        waiting.until(f"{self.name} goes on", more, WITHIN_S, tolerate=())

    @abstractmethod
    def check(self) -> None: ...


class Plain(Load):
    name = "plain"
    _settings: Mapping[str, object] = {"enable.idempotence": False}

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__(cluster)
        self.acknowledged: list[tuple[int, str]] = []
        """Partition and value of each acknowledged record, in the order of the acknowledgements."""
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
    name = "idempotent"
    _settings = ONE_IN_FLIGHT

    def check(self) -> None:
        assert self._read() == sorted(
            self.acknowledged, key=lambda record: (record[0], int(record[1]))
        )


class Transactional(Load):
    """A transactional producer. The value of each record is the number of its transaction.

    The producer commits no offsets, because send_offsets_to_transaction of librdkafka 2.16 never
    returns after the group's coordinator was absent from the metadata for a while.
    """

    name = "transactional"

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__(cluster)
        self.committed: set[int] = set()
        self.unknown: set[int] = set()
        """The numbers of the transactions whose outcome is unknown."""
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
        """Aborts a failed transaction. Returns False if the abort fails, so that a new producer is
        needed."""
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
        """Ends the load. No transaction stays open."""
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
    def __init__(self, cause: KafkaException) -> None:
        super().__init__(cause)
        self.cause = cause


class Group(Load):
    """Two members of one group, dynamic or static, that read the records of the load `Plain`."""

    def __init__(self, cluster: ZooKeeperCluster, source: Plain, *, static: bool) -> None:
        super().__init__(cluster)
        self.name = "static group" if static else "group"
        self.is_static = static
        self.values: set[tuple[int, str]] = set()
        self.assigned = Counter[int]()
        """The number of assignments that each member has received."""
        self._source = source
        self._with_kafka = any(kind != MUSTER for kind in cluster.kinds.values())
        self._settings = {
            **CLIENT,
            "bootstrap.servers": cluster.bootstrap,
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,  # a client that believes its session expired is fenced
            "heartbeat.interval.ms": 1000,
            "partition.assignment.strategy": "range",
        }
        self._committed = dict.fromkeys(range(PARTITIONS), -1)
        """For each partition, the highest committed offset that an OffsetFetch has returned."""
        self._told_all: set[tuple[int, int]] = set()
        """All pairs of partition and committed offset that an OffsetFetch has returned."""
        self._watcher = Consumer(self._settings)
        self._members: dict[int, Consumer] = {}
        self._locks = {number: threading.Lock() for number in (1, 2)}

    def start(self) -> None:
        """Starts two members, and a client that fetches the committed offsets repeatedly."""
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
        """Stops a member, and starts it again with the same name before its session expires."""
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
            return  # the present owner of the partition retries the commit with its next records

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
        wanted = set(self._source.acknowledged)
        waiting.until(f"{self.name} has read all", lambda: wanted <= self.values, WITHIN_S)

    def _kept(self) -> set[tuple[int, int]]:
        """Returns partition and offset of each commit of the group that is in the offsets topic."""
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
