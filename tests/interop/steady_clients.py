"""Clients that keep working while brokers restart, each in its own thread, and checks of their
results.

The clients are an idempotent producer with acks=all, a group member that commits its positions, an
observer of the committed offsets of this group, and a transactional producer that also commits
offsets of another group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests import java, waiting
from tests.interop.committed_readers import seen
from tests.interop.transactional_producers import ClientError, Transactional, producers
from tests.interop.work import ONE_IN_FLIGHT, Work

ORDERS, PAYMENTS = "orders", "payments"
GROUP, BILLING = "readers", "billing"
PARTITIONS = 3
IN_A_TRANSACTION = 6
WITHIN_S = 60.0
NOTHING = -1001
"""The value of librdkafka for "no committed offset"."""


class Steady(Work):
    """A client that repeats an operation until `end` is called, and is then closed."""

    def end(self) -> None:
        """Ends the work. Raises the exception of a failed operation."""
        super().end()
        self._close()

    def _close(self) -> None: ...


class Writer(Steady):
    """Produces distinct values, numbered within each partition. All records must be
    acknowledged."""

    name = "writer"

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.acknowledged: dict[int, list[str]] = defaultdict(list)
        self.sent = 0
        self.refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "acks": "all",
                **ONE_IN_FLIGHT,
            }
        )

    def _piece(self) -> None:
        self._producer.produce(
            ORDERS,
            b"order-%d" % self.sent,
            partition=self.sent % PARTITIONS,
            on_delivery=self._delivered,
        )
        self.sent += 1
        self._producer.poll(0)

    def _close(self) -> None:
        assert self._producer.flush(WITHIN_S) == 0, "records wait for their acknowledgement"
        assert self.refused == []

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            self.acknowledged[partition].append(value.decode())
        else:
            self.refused.append(str(error))


class Reader(Steady):
    """The only member of a group. Reads and commits the records of `Writer`."""

    name = "reader"

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.read: dict[int, list[tuple[int, str]]] = defaultdict(list)
        """The offset and value of each record, by partition, in the order in which they were read.
        """
        self.commits = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([ORDERS])

    def _piece(self) -> None:
        messages = self._consumer.consume(200, 0.2)
        for message in messages:
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is None:
                assert partition is not None
                assert offset is not None
                assert isinstance(value, bytes)
                self.read[partition].append((offset, value.decode()))
        if messages:
            try:
                self._consumer.commit(asynchronous=False)
                self.commits += 1
            except KafkaException:
                pass  # the coordinator moves: the next commit has these offsets too

    def _close(self) -> None:
        self._consumer.close()


class Observer(Steady):
    """Fetches the committed offsets of a group. These offsets must never decrease.

    There is one exception: a Kafka broker that is no longer the coordinator may report for a moment
    that no offset is committed (cluster_loads.py).
    """

    name = "observer"

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__()
        self.committed: dict[int, int] = {}
        self.asked = 0
        self.group = group
        self._places = [TopicPartition(ORDERS, partition) for partition in range(PARTITIONS)]
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
        )

    def _piece(self) -> None:
        try:
            found = self._consumer.committed(self._places, 5)
        except KafkaException:
            return  # the coordinator moves
        for each in found:
            before = self.committed.get(each.partition, NOTHING)
            if each.offset == NOTHING != before:
                return  # not counted as a step: the repeated request must return the offset
            assert each.offset >= before, f"{each} was at {before}"
            self.committed[each.partition] = each.offset
        self.asked += 1

    def _close(self) -> None:
        self._consumer.close()


class Payer(Steady):
    """Runs transactions that write to all partitions and commit an offset of a group. Aborts every
    fourth transaction.

    It uses Java's producer. The producer of librdkafka waits forever if the group coordinator was
    absent from the metadata for a moment, also with Kafka.
    """

    name = "payer"

    def __init__(self, producer: Transactional) -> None:
        super().__init__()
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.offset = 0
        self._producer = producer
        self._number = 0
        producer.init()

    def _piece(self) -> None:
        number, self._number = self._number, self._number + 1
        if self._done(number) and number % 4:
            self._until_told(self._producer.commit)
            self.committed.append(number)
            self.offset = number + 1
        else:
            self._until_told(self._producer.abort)
            self.aborted.append(number)

    def _done(self, number: int) -> bool:
        producer = self._producer
        producer.begin()
        try:
            for index in range(IN_A_TRANSACTION):
                producer.send(PAYMENTS, index % PARTITIONS, f"payment-{number}-{index}")
            producer.offset(BILLING, ORDERS, 0, number + 1)
        except ClientError:
            return False
        return True

    def _until_told(self, end: Callable[[], None]) -> None:
        """Ends a transaction: calls ``end``, and calls it again while it times out, as Kafka's
        documentation requires."""
        for _ in range(5):
            try:
                end()
            except ClientError as error:
                if not str(error).startswith("TimeoutException"):
                    raise
            else:
                return
        raise AssertionError("the end of a transaction is not answered")


class SteadyClients:
    """The clients that run during a test: a `Writer`, a `Reader`, a `Payer` and two `Observer`
    clients. `stop` compares their results with the records and offsets of the cluster."""

    def __init__(self, bootstrap: str, producer: Transactional) -> None:
        self.writer, self.reader, self.payer = Writer(bootstrap), Reader(bootstrap), Payer(producer)
        self.observers = [Observer(bootstrap, GROUP), Observer(bootstrap, BILLING)]
        self._all: list[Steady] = [self.writer, self.payer, self.reader, *self.observers]

    def start(self) -> None:
        for each in self._all:
            each.start()

    def until_served(self) -> None:
        """Waits until each client has completed some more operations."""
        before = self._steps()

        def all_go_on() -> bool:
            for each in self._all:
                each.raise_broken()
            now = self._steps()
            stuck = {name: mark for name, mark in now.items() if mark <= before[name] + 3}
            assert not stuck, f"{stuck}, which were {before}"
            return True

        waiting.until("all clients go on", all_go_on, WITHIN_S)

    def _steps(self) -> dict[str, int]:
        assert self.writer.refused == []
        return {
            "records acknowledged": sum(map(len, self.writer.acknowledged.values())),
            "commits": self.reader.commits,
            "transactions": len(self.payer.committed),
            **{f"answers about {each.group}": each.asked for each in self.observers},
        }

    def stop(self, bootstrap: str) -> None:
        """Stops all clients. Checks that no record is lost or duplicated, and that the reader has
        read all records. ``bootstrap`` has addresses of running brokers."""
        self.writer.end()
        self.payer.end()
        waiting.until("the group has read all", self._all_read, WITHIN_S)
        self.reader.end()
        for observer in self.observers:
            observer.end()
        self._check_orders(bootstrap)
        self._check_payments(bootstrap)

    def _all_read(self) -> bool:
        self.reader.raise_broken()
        read = sum(len({offset for offset, _ in each}) for each in self.reader.read.values())
        acknowledged = sum(map(len, self.writer.acknowledged.values()))
        assert read >= acknowledged, f"{read} records are read, {acknowledged} are acknowledged"
        return True

    def _check_orders(self, bootstrap: str) -> None:
        acknowledged = self.writer.acknowledged
        assert sum(map(len, acknowledged.values())) == self.writer.sent
        for partition in range(PARTITIONS):
            there = seen(bootstrap, ORDERS, partition)
            assert there == acknowledged[partition], f"{ORDERS}-{partition}"
            read = dict(self.reader.read[partition])
            assert [read[offset] for offset in sorted(read)] == there
            for (before, _), (after, _) in zip(
                self.reader.read[partition], self.reader.read[partition][1:], strict=False
            ):
                assert after <= before + 1, f"{ORDERS}-{partition}: {after} follows {before}"

    def _check_payments(self, bootstrap: str) -> None:
        assert self.payer.aborted
        for partition in range(PARTITIONS):
            expected = [
                f"payment-{number}-{index}"
                for number in self.payer.committed
                for index in range(IN_A_TRANSACTION)
                if index % PARTITIONS == partition
            ]
            assert seen(bootstrap, PAYMENTS, partition) == expected
        assert self.observers[1].committed[0] <= self.payer.offset


@contextmanager
def steady_clients(bootstrap: str) -> Iterator[SteadyClients]:
    """Starts all clients. Yields them when each has completed some operations."""
    with producers(java.KAFKA_NEW, bootstrap) as make:
        clients = SteadyClients(bootstrap, make("payer"))
        clients.start()
        clients.until_served()
        yield clients
