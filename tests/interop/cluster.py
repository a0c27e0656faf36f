"""Sends requests to a cluster without a client library, for the tests of every client."""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests import waiting
from tests.raw_connection import RawConnection

Key = tuple[str, int]
LATEST = -1


@dataclass(frozen=True)
class Described:
    """A group as DescribeGroups returns it: its state, and the assigned partitions of each client
    id."""

    state: str
    held: dict[str, frozenset[Key]]

    def sizes(self) -> list[int]:
        return sorted(len(keys) for keys in self.held.values())


class Cluster:
    """Sends the requests of a test to the broker at `bootstrap`. Each request uses a new
    connection, so that the broker may restart between two requests."""

    def __init__(
        self, bootstrap: str, connect: Callable[[int], RawConnection] = RawConnection
    ) -> None:
        self.port = int(bootstrap.rpartition(":")[2])
        self._connect = connect

    def call(self, name: str, version: int, **value: Any) -> dict[str, Any]:
        with self._connect(self.port) as connection:
            return connection.call(name, version, **value)

    def create_topic(self, topic: str, partitions: int, **config: str) -> None:
        asked = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        made = self.call("CreateTopics", 4, topics=[asked], timeout_ms=20000)
        assert made["topics"][0]["error_code"] == 0, made
        self.until_partitions(topic, partitions)

    def grow_topic(self, topic: str, partitions: int) -> None:
        asked = {"name": topic, "count": partitions, "assignments": None}
        grown = self.call("CreatePartitions", 1, topics=[asked], timeout_ms=20000)
        assert grown["results"][0]["error_code"] == 0, grown

    def until_partitions(self, topic: str, partitions: int) -> None:
        """Waits until Metadata returns ``partitions`` partitions that have leaders. 0 means that
        the topic does not exist."""
        waiting.until(
            f"{topic} has {partitions} partitions", lambda: self._has_leaders(topic, partitions)
        )

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        [found] = self.call(
            "Metadata", 5, topics=[{"name": topic}], allow_auto_topic_creation=False
        )["topics"]
        leaders = [p["leader_id"] for p in found["partitions"]]
        return len(leaders) == partitions and min(leaders, default=0) >= 0

    def describe(self, group: str) -> Described:
        """Returns the state and the assignments of a group. Raises AssertionError if the
        coordinator is not available."""
        [found] = self.call("DescribeGroups", 4, groups=[group])["groups"]
        assert found["error_code"] == 0, found
        return Described(
            found["group_state"],
            {m["client_id"]: _assigned(m["member_assignment"]) for m in found["members"]},
        )

    def committed(self, group: str) -> dict[Key, int]:

        def fetch() -> list[dict[str, Any]] | None:
            found = self.call("OffsetFetch", 7, group_id=group, topics=None)
            return [found] if found["error_code"] == 0 else None

        [found] = waiting.until(f"the offsets of {group} are answered", fetch)
        return {
            (topic["name"], p["partition_index"]): p["committed_offset"]
            for topic in found["topics"]
            for p in topic["partitions"]
        }

    def end_offsets(self, topic: str, partitions: int) -> dict[Key, int]:
        asked = {
            "name": topic,
            "partitions": [{"partition_index": p, "timestamp": LATEST} for p in range(partitions)],
        }
        [found] = self.call("ListOffsets", 3, replica_id=-1, topics=[asked])["topics"]
        assert {p["error_code"] for p in found["partitions"]} == {0}, found
        return {(topic, p["partition_index"]): p["offset"] for p in found["partitions"]}


def _assigned(data: bytes) -> frozenset[Key]:
    """Returns the partitions in the bytes of a consumer assignment, which has a version, topics
    with partitions, and user data."""
    if not data:
        return frozenset()
    keys = []
    version, topics = struct.unpack_from(">hi", data)
    assert 0 <= version <= 3
    position = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, position)
        position += 2
        topic = data[position : position + length].decode()
        (count,) = struct.unpack_from(">i", data, position + length)
        position += length + 4
        keys += [(topic, p) for p in struct.unpack_from(f">{count}i", data, position)]
        position += 4 * count
    return frozenset(keys)


@dataclass(frozen=True)
class Sent:
    """A record that the broker has acknowledged."""

    value: str
    partition: int
    offset: int


class Feed:
    """Produces records with unique values, and stores partition and offset of each record.

    `send` distributes a number of records over the partitions. `flow` produces in a thread until
    `stop` is called.
    """

    _numbers = itertools.count()

    def __init__(self, bootstrap: str, topic: str, partitions: int, **config: object) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent: dict[str, Sent] = {}
        self.failed: list[str] = []
        self._turn = itertools.count()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **config})
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def _delivered(self, error, message) -> None:
        if error:
            self.failed.append(str(error))
        else:
            value = message.value().decode()
            self.sent[value] = Sent(value, message.partition(), message.offset())

    def send(self, records: int, within_s: float = 20.0) -> list[str]:
        """Produces ``records`` records, waits until all of them are acknowledged, and returns their
        values."""
        values = [f"record-{next(self._numbers)}" for _ in range(records)]
        for value in values:
            self._producer.produce(
                self.topic,
                value.encode(),
                partition=next(self._turn) % self.partitions,
                on_delivery=self._delivered,
            )
        left = self._producer.flush(within_s)
        assert (left, self.failed) == (0, []), "records were not acknowledged"
        return values

    def flow(self) -> Feed:
        """Starts a thread that produces a few records repeatedly. `with feed.flow():` stops the
        thread at the end of the block."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._flow, daemon=True)
        self._thread.start()
        return self

    def _flow(self) -> None:
        while not self._stopped.wait(0.02):
            self.send(self.partitions)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive()


def read_topic(bootstrap: str, topic: str, ends: dict[Key, int]) -> list[Sent]:
    """Reads all records of a topic before the offsets ``ends``, without a group."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        reader.assign([TopicPartition(t, p, 0) for (t, p), end in ends.items() if end])
        found: list[Sent] = []
        total = sum(ends.values())

        def read() -> bool:
            for message in reader.consume(1000, 0.2):
                if message.error():
                    raise KafkaException(message.error())
                found.append(Sent(message.value().decode(), message.partition(), message.offset()))
            return len(found) >= total

        waiting.until(f"{total} records of {topic} are read", read)
        return found
    finally:
        reader.close()
