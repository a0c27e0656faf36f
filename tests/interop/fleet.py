"""Eight groups of real consumers. Six of the groups have a problem that a verdict must report.

Each group is a situation that operators know. `EXPECTED` contains its verdict. All consumers run in
this process. confluent-kafka sends heartbeats from its own threads, so that a consumer with a
hanging application thread looks alive to the broker, as in production.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.brokers import Broker
from tests.commits import commit
from tests.interop.cluster import Cluster, Feed
from tests.waiting import until

EXPECTED = {
    "accounts": "OK",  # reads and commits
    "batch": "OK",  # reads all records and leaves
    "billing": "STALLED",  # polls once; then its thread hangs, and heartbeats continue
    "fraud": "BLOCKED",  # one member hangs, another joined: the rebalance waits for the first
    "mail": "FLAPPING",  # joins and leaves repeatedly with one client id
    "parcels": "STUCK_RECORD",  # rereads one record, and reads the other partitions
    "reports": "ABANDONED",  # has left; new records arrive
    "restored": "OUT_OF_RANGE",  # its offset is above the log end offset
}
TOPICS = {
    "ledger": 2, "nightly": 1, "orders": 3, "payments": 2, "letters": 2, "shipments": 3, "sales": 1,
    "archive": 1,
}  # fmt: skip
TOPIC_OF = {
    "accounts": "ledger", "batch": "nightly", "billing": "orders", "fraud": "payments",
    "mail": "letters", "parcels": "shipments", "reports": "sales", "restored": "archive",
}  # fmt: skip
FLOWING = ("ledger", "orders", "payments", "letters", "shipments", "sales")
"""The topics to which records are produced continuously."""
POISON = 1
"""The partition of topic shipments with a record that the application cannot process."""


class Fleet:
    """The eight groups of this module. `start` causes the problems of six groups, and threads keep
    these problems from ending."""

    def __init__(self, broker: Broker, stack: ExitStack) -> None:
        self.bootstrap = broker.bootstrap
        self.ended = threading.Event()
        self._stack = stack
        self._began: list[threading.Event] = []

    def start(self) -> None:
        """Starts the groups, and waits until each group has read its records."""
        cluster = Cluster(self.bootstrap)
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions)
            feed = Feed(self.bootstrap, topic, partitions)
            feed.send(4 * partitions)
            if topic in FLOWING:
                self._stack.enter_context(feed.flow())
        self._stack.callback(self.ended.set)
        for group, work in {
            "accounts": self._reads,
            "batch": self._reads_once,
            "billing": self._hangs,
            "fraud": self._hangs_while_another_joins,
            "mail": self._comes_and_goes,
            "parcels": self._goes_round_one_record,
            "reports": self._reads_once,
        }.items():
            self._run(group, work)
        for began in self._began:
            until("the fleet's groups run", began.is_set)
        with self._consumer("restored") as outside:
            commit(outside, {("archive", 0): 60_000})

    def _run(self, group: str, work: Callable[[str, threading.Event], None]) -> None:
        began = threading.Event()
        thread = threading.Thread(target=work, args=(group, began), name=group)
        thread.start()
        self._began.append(began)
        self._stack.callback(thread.join, 30)
        self._stack.callback(self.ended.set)

    @contextmanager
    def _consumer(self, group: str, client: str = "") -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "client.id": client or f"{group}-1",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def _reading(self, consumer: Consumer, group: str) -> list[TopicPartition]:
        """Polls until records have been read, and commits. Returns the partitions that the consumer
        owns."""
        consumer.subscribe([TOPIC_OF[group]])
        while not self.ended.is_set():
            if consumer.consume(100, 0.2):
                _commit(consumer)
                break
        return list(consumer.assignment())

    def _reads(self, group: str, began: threading.Event) -> None:
        with self._consumer(group) as consumer:
            self._reading(consumer, group)
            began.set()
            while not self.ended.is_set():
                if consumer.consume(500, 0.2):
                    _commit(consumer)

    def _reads_once(self, group: str, began: threading.Event) -> None:
        with self._consumer(group) as consumer:
            self._reading(consumer, group)
        began.set()

    def _hangs(self, group: str, began: threading.Event) -> None:
        with self._consumer(group) as consumer:
            self._reading(consumer, group)
            began.set()
            self.ended.wait()

    def _hangs_while_another_joins(self, group: str, began: threading.Event) -> None:
        with self._consumer(group) as hanging, self._consumer(group, f"{group}-2") as coming:
            self._reading(hanging, group)
            coming.subscribe([TOPIC_OF[group]])
            began.set()
            while not self.ended.is_set():
                coming.poll(0.2)

    def _comes_and_goes(self, group: str, began: threading.Event) -> None:
        times = 0
        while not self.ended.is_set():
            with self._consumer(group) as consumer:
                self._reading(consumer, group)
            times += 1
            if times == 4:
                began.set()

    def _goes_round_one_record(self, group: str, began: threading.Event) -> None:
        with self._consumer(group) as consumer:
            owned = self._reading(consumer, group)
            consumer.pause([each for each in owned if each.partition == POISON])
            began.set()
            while not self.ended.is_set():
                if consumer.consume(500, 0.2):
                    _commit(consumer)


def _commit(consumer: Consumer) -> None:
    """Commits the positions of a consumer. Ignores the error if a rebalance has revoked the
    partitions."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in (
            KafkaError._NO_OFFSET,
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.UNKNOWN_MEMBER_ID,
        ):
            raise


@contextmanager
def fleet(broker: Broker) -> Iterator[Fleet]:
    """Starts a `Fleet` on a broker and yields it. Stops it at the end of the block."""
    with ExitStack() as stack:
        made = Fleet(broker, stack)
        made.start()
        yield made
