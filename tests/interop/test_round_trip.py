"""Apache Kafka opens the files of Muster and continues the logs, and then Muster opens them again.

A new Kafka creates the same topics and stops. Then Muster's partition directories replace those of
Kafka, except for `partition.metadata`. Kafka starts without its clean shutdown file, so that it
recovers each log.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from tests import java
from tests.brokers import KIND, Broker, KafkaBroker
from tests.interop.cluster import Cluster
from tests.log.cleaning_tools import SETTINGS, RandomLog, clean_log, committed
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="both brokers take part in any case"),
    pytest.mark.proves("kafka 3"),
]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OFFSETS = "__consumer_offsets"
OFFSETS_PARTITIONS = 3
# Topics, their partitions, and their settings in Muster.
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "codecs": (2, {"index.interval.bytes": "200"}),
    "cleaned": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "8000",
            "min.cleanable.dirty.ratio": "0.1",
            "index.interval.bytes": "200",
        },
    ),
    "as-of-0-9": (1, {"message.format.version": "0.9.0", "index.interval.bytes": "200"}),
    "as-of-0-10": (1, {"message.format.version": "0.10.2", "index.interval.bytes": "200"}),
}
TOPICS["as-of-0-10-cleaned"] = (1, {**TOPICS["as-of-0-10"][1], **TOPICS["cleaned"][1]})
WITH_TRANSACTIONS = "transactions"
"""A topic that is written before Muster starts. Its log was cleaned, and has markers, tombstones,
empty batches and delete horizons."""


PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Errors that a client may get while a broker starts."""
T = TypeVar("T")


class Read(NamedTuple):
    """A record that a client has read."""

    partition: int
    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class State(NamedTuple):
    """Everything that clients can read about the topics and groups of these tests."""

    records: dict[str, list[Read]]
    offsets: dict[str, dict[tuple[str, int], tuple[int, str]]]
    groups: dict[str, Any]


def read_all(bootstrap: str, topic: str, partitions: int, **settings: str) -> list[Read]:
    """Returns all records of a topic, ordered by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
            **settings,
        }
    )
    found: list[Read] = []
    ended = 0
    try:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])

        def read() -> bool:
            nonlocal ended
            for message in consumer.consume(1000, 0.1):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended += 1
                    continue
                found.append(
                    Read(
                        message.partition(),
                        message.offset(),
                        message.timestamp(),
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                    )
                )
            return ended >= partitions

        until(f"all of {topic} is read", read, tolerate=())
        return sorted(found, key=lambda record: record[:2])
    finally:
        consumer.close()


def state_of(broker: Broker, groups: list[str]) -> State:
    """Returns everything that clients can read from ``broker``, after it has loaded offsets and
    groups."""
    cluster = Cluster(broker.bootstrap)
    topics = {name: partitions for name, (partitions, _) in TOPICS.items()} | {WITH_TRANSACTIONS: 1}
    return State(
        {topic: read_all(broker.bootstrap, topic, count) for topic, count in topics.items()},
        {group: offsets_of(cluster, group) for group in groups},
        {
            group: until(f"{group} is described", lambda g=group: group_of(cluster, g))
            for group in groups
        },
    )


def offsets_of(cluster: Cluster, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    def fetched() -> list[dict[str, Any]] | None:
        found = cluster.call("OffsetFetch", 7, group_id=group, topics=None)
        return [found] if found["error_code"] == 0 else None

    [found] = until(f"the offsets of {group} are loaded", fetched) or [{}]
    return {
        (topic["name"], p["partition_index"]): (p["committed_offset"], p["metadata"])
        for topic in found["topics"]
        for p in topic["partitions"]
    }


def group_of(cluster: Cluster, group: str) -> dict[str, Any] | None:
    [found] = cluster.call("DescribeGroups", 4, groups=[group])["groups"]
    if found["error_code"]:
        return None
    del found["authorized_operations"]
    found["members"].sort(key=lambda member: member["member_id"])
    return found


def send(
    bootstrap: str, topic: str, codec: str, stem: str, count: int = 30, **settings: Any
) -> None:
    """Produces records with keys, and with some null values. The records have headers if the
    message format of the topic allows them."""
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, **settings}
    )
    old = topic.startswith("as-of")
    for number in range(count):
        producer.produce(
            topic,
            None if number % 10 == 9 else f"{stem}-{number}-".encode() + b"compressible " * 8,
            b"key-%d" % (number % 7),
            partition=number % TOPICS[topic][0] if topic in TOPICS else 0,
            headers=None if old else [("codec", codec.encode()), ("empty", b"")],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


def in_the_end(what: str, call: Callable[[], T]) -> T:
    """Repeats a call of a client while its error is transient. Returns the result.

    Errors are transient shortly after a start, when the broker creates internal topics and finds
    coordinators.
    """
    answers: list[T] = []

    def tried() -> bool:
        try:
            answers.append(call())
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.retriable() or error.code() in PASSING:
                raise
            pytest.fail(f"{what}: {error!r}")
        return True

    until(what, tried, within_s=90, tolerate=KafkaException)
    return answers[0]


def commit(bootstrap: str, group: str, offsets: dict[tuple[str, int], int], metadata: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(t, p, offset, metadata) for (t, p), offset in offsets.items()]
    done = in_the_end(
        f"the commit of {group} is taken",
        lambda: consumer.commit(offsets=places, asynchronous=False),
    )
    assert [place.error for place in done if place.error is not None] == []
    consumer.close()


def join_two_members(cluster: Cluster, group: str) -> None:
    """Forms a Stable group of two static members whose sessions outlast the test."""
    join = {
        "group_id": group,
        "session_timeout_ms": 600_000,
        "rebalance_timeout_ms": 600_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0"}],
    }
    with ThreadPoolExecutor(2) as pool:
        first = cluster.call("JoinGroup", 5, **join, member_id="", group_instance_id="one")
        second = pool.submit(
            cluster.call, "JoinGroup", 5, **join, member_id="", group_instance_id="two"
        )
        until("the second waits", lambda: is_preparing(cluster, group))
        first = cluster.call(
            "JoinGroup", 5, **join, member_id=first["member_id"], group_instance_id="one"
        )
        joined = {"one": first, "two": second.result(20)}
    leader = next(name for name, each in joined.items() if each["leader"] == each["member_id"])
    for name in sorted(joined, key=lambda name: name != leader):
        answer = cluster.call(
            "SyncGroup",
            3,
            group_id=group,
            generation_id=joined[name]["generation_id"],
            member_id=joined[name]["member_id"],
            group_instance_id=name,
            assignments=[
                {"member_id": each["member_id"], "assignment": f"for {each_name}".encode()}
                for each_name, each in joined.items()
            ]
            if name == leader
            else [],
        )
        assert (answer["error_code"], answer["assignment"]) == (0, f"for {name}".encode())


def is_preparing(cluster: Cluster, group: str) -> bool:
    found = group_of(cluster, group)
    return found is not None and found["group_state"] == "PreparingRebalance"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Broker, KafkaBroker]]:
    """Yields Muster and Kafka, not started and with empty directories. Kills both at the end."""
    settings = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}
    muster = Broker(tmp_path / "muster", {**settings, "log.cleaner.backoff.ms": "50"})
    kafka = KafkaBroker(
        tmp_path / "kafka",
        {
            **settings,
            "log.cleaner.enable": "false",
            "transaction.state.log.num.partitions": "1",
            "group.coordinator.append.linger.ms": "0",
        },
    )
    yield muster, kafka
    muster.kill()
    kafka.kill()


def cleaned_with_transactions(folder: Path) -> set[int]:
    """Writes a log with transactions, and cleans it several times. Returns the offsets of the
    committed records."""
    config = LogConfig(**{**SETTINGS, "segment_bytes": 20_000})  # type: ignore[arg-type]
    log = PartitionLog.open(OsFileSystem(), str(folder), WITH_TRANSACTIONS, 0, config)
    writer = RandomLog(log, random.Random(5), keys=60)
    first_dirty = 0
    for _ in range(3):
        writer.append(120)
        writer.end_all()
        log.roll()
        first_dirty = clean_log(log, first_dirty, writer.now_ms).end_offset
    writer.append(20)
    writer.end_all()
    log.close()
    return {record.offset for record in committed(log)}


def fill(muster: Broker) -> None:
    """Creates topics with each codec and each message format, and groups with and without members.
    One of the topics is cleaned."""
    cluster = Cluster(muster.bootstrap)
    for topic, (partitions, settings) in TOPICS.items():
        cluster.create_topic(topic, partitions, **settings)
    for codec in CODECS:
        for topic in TOPICS:
            if codec == "zstd" and topic.startswith("as-of"):
                continue
            send(muster.bootstrap, topic, codec, codec)
        for turn in range(6):
            stem = f"{codec}-{turn}"
            send(muster.bootstrap, "cleaned", codec, stem, **{"enable.idempotence": True})
    for turn in range(10):
        send(muster.bootstrap, "as-of-0-10-cleaned", "gzip" if turn % 3 else "none", f"{turn}")
    for number in range(20):
        offsets = {("codecs", 0): number, ("codecs", 1): 2 * number, ("cleaned", 0): 7}
        commit(muster.bootstrap, f"group-{number % 5}", offsets, f"commit {number}")
    join_two_members(cluster, "stable")
    commit(muster.bootstrap, "deleted", {("codecs", 0): 1}, "")
    deleted = cluster.call("DeleteGroups", 1, groups_names=["deleted"])
    assert deleted["results"][0]["error_code"] == 0
    for topic in ("cleaned", "as-of-0-10-cleaned"):
        until(f"most of {topic} is gone", lambda t=topic: has_lost_half(muster, t))


def has_lost_half(broker: Broker, topic: str) -> bool:
    records = read_all(broker.bootstrap, topic, 1)
    return len(records) < records[-1].offset / 2


def make_topics(kafka: KafkaBroker) -> None:
    """Starts Kafka, creates the same topics as on Muster, and stops Kafka."""
    kafka.start()
    cluster = Cluster(kafka.bootstrap)
    for topic, (partitions, _) in TOPICS.items():
        cluster.create_topic(topic, partitions)
    cluster.create_topic(WITH_TRANSACTIONS, 1)
    commit(kafka.bootstrap, "first", {("codecs", 0): 0}, "")
    kafka.stop()


def replace(ours: Path, theirs: Path) -> list[Path]:
    """Replaces the partitions of Kafka by those of Muster. Returns the new segments.

    Deletes the clean shutdown file, so that Kafka checks all segments at its start.
    """
    for folder in theirs.iterdir():
        source = ours / folder.name
        if not folder.is_dir() or not source.is_dir():
            continue
        for file in folder.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in source.iterdir():
            if file.name != "partition.metadata":
                shutil.copy(file, folder)
    # Without it Muster would report records that its cleaner removed as lost, until Kafka's cleaner
    # has run. It does not exist before the first cleaning.
    if (ours / "cleaner-offset-checkpoint").exists():
        shutil.copy(ours / "cleaner-offset-checkpoint", theirs)
    (theirs / ".kafka_cleanshutdown").unlink()
    return [f for f in sorted(theirs.glob("*/*.log")) if (ours / f.parent.name).is_dir()]


def go_on(kafka: KafkaBroker) -> None:
    """On Kafka: produces more records, commits more offsets of each kind, and runs transactions."""
    bootstrap = kafka.bootstrap
    for codec in CODECS:
        send(bootstrap, "codecs", codec, f"kafka-{codec}")
        send(bootstrap, "cleaned", codec, f"kafka-{codec}", **{"enable.idempotence": True})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    in_the_end("Kafka has a producer id for it", lambda: producer.init_transactions(5))
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(WITH_TRANSACTIONS, f"{end.__name__}-{number}", f"key-{number}")
        in_the_end(f"Kafka ends it: {end.__name__}", lambda end=end: end(5))
    commit(bootstrap, "group-1", {("codecs", 0): 40, ("as-of-0-9", 0): 3}, "by Kafka")
    commit(bootstrap, "group-of-kafka", {("codecs", 1): 33}, "by Kafka")
    join_two_members(Cluster(bootstrap), "stable-in-kafka")


def test_kafka_opens_logs_of_muster_and_muster_opens_logs_of_kafka(
    both: tuple[Broker, KafkaBroker],
) -> None:
    muster, kafka = both
    ended_well = cleaned_with_transactions(muster.partition_folder(WITH_TRANSACTIONS, 0))
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make_topics, kafka)
        muster.start()
        fill(muster)
        muster.stop()
        muster.settings["log.cleaner.enable"] = "false"  # records that are read now stay unchanged
        muster.start()
        groups = [f"group-{number}" for number in range(5)] + ["stable"]
        ours = state_of(muster, groups)
        muster.stop()
        made.result()
    assert ours.groups["stable"]["group_state"] == "Stable"

    segments = replace(muster.data, kafka.data)
    assert_dumped(segments)
    kafka.start()
    assert_same(state_of(kafka, groups), ours)
    assert offsets_of(Cluster(kafka.bootstrap), "deleted") == {}
    seen = read_all(kafka.bootstrap, WITH_TRANSACTIONS, 1, **{"isolation.level": "read_committed"})
    assert {record.offset for record in seen} == ended_well
    assert len(seen) < len(ours.records[WITH_TRANSACTIONS]), "some are of aborted transactions"
    go_on(kafka)
    groups += ["group-of-kafka", "stable-in-kafka"]
    theirs = state_of(kafka, groups)
    assert len(theirs.records["codecs"]) == 2 * len(ours.records["codecs"])
    kafka.stop()

    back = Broker(kafka.data, muster.settings).start()
    try:
        assert_same(state_of(back, groups), theirs)
        send(back.bootstrap, "codecs", "lz4", "and on")
        commit(back.bootstrap, "group-of-kafka", {("codecs", 1): 34}, "by Muster")
    finally:
        assert back.stop() == 0


def assert_dumped(segments: list[Path]) -> None:
    """Checks that DumpLogSegments reads each segment completely."""
    done = java.run(
        java.KAFKA_NEW,
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--files",
        ",".join(map(str, segments)),
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "isvalid: false" not in done.stdout
    read_to = {
        file: int(position) + int(size)
        for file, lines in re.findall(
            r"^Dumping (\S+)\n((?:(?!^Dumping).*\n?)*)", done.stdout, re.M
        )
        for position, size in re.findall(r" position: (\d+) .*?[sS]ize: (\d+)", lines)[-1:]
    }
    assert read_to == {str(f): f.stat().st_size for f in segments if f.stat().st_size}


def assert_same(found: State, wanted: State) -> None:
    for topic, records in wanted.records.items():
        assert found.records[topic] == records, topic
    assert found.offsets == wanted.offsets
    assert found.groups == wanted.groups
