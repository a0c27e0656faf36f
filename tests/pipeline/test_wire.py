"""Spark's own Kafka connector against a running broker, and the wire and the files side by side."""

from __future__ import annotations

import itertools
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from pipeline.contract import BATCHES, EVENTS
from pipeline.errors import PipelineError
from pipeline.session import OFFSETS_BY_CONSUMER
from pipeline.spark_open import open_source
from pipeline.spark_source import ClusterSource
from tests.brokers import KIND, Broker, free_port
from tests.interop.cluster import Cluster

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 40
MIDDLE = 100
"""The record from which one reader starts by its timestamp."""


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Three partitions of records in every codec, some with headers, a second apart in time."""
    name = "wire-of-spark"
    # Their times are long past, and must not be what retention goes by.
    Cluster(broker.bootstrap).create_topic(name, 3, **{"retention.ms": "-1"})
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
        for i in range(number * PER_CODEC, (number + 1) * PER_CODEC):
            producer.produce(
                name,
                value=f"value-{i}",
                key=f"key-{i}",
                partition=i % 3,
                timestamp=_time_of(i),
                headers=[("codec", codec), ("null", None)] if i % 2 else [],
            )
        assert producer.flush(30) == 0
    return name


def _time_of(record: int) -> int:
    return 1_767_268_800_000 + 1000 * record


@pytest.fixture(scope="module")
def committed(broker: Broker, topic: str) -> dict[tuple[str, int], tuple[int, str]]:
    """What real consumers committed: (group, partition) to offset and metadata."""
    found = {}
    for group in ("first", "second", "third"):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        for offset in (5, 3, 11):
            places = [
                TopicPartition(topic, p, offset + p, metadata=f"{group} at {offset}")
                for p in range(3)
            ]
            consumer.commit(offsets=places, asynchronous=False)
            found.update({(group, p.partition): (p.offset, p.metadata) for p in places})
        consumer.close()
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "members",
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    member.subscribe([topic])
    deadline = time.monotonic() + 60
    while member.poll(1.0) is None:
        assert time.monotonic() < deadline, "the member gets no record"
    member.close()
    return found


@pytest.fixture(scope="module")
def source(
    spark: SparkSession, broker: Broker, committed: dict[tuple[str, int], tuple[int, str]]
) -> ClusterSource:
    return open_source(spark, broker.bootstrap)


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(
        tuple(row) for row in frame.select("partition", "offset", "key", "value").collect()
    )


@pytest.fixture(params=["by the consumer", "by the Admin"])
def either_way(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """The connector has two ways to ask for offsets; ordinary topics are read by both."""
    spark.conf.set(OFFSETS_BY_CONSUMER, str(request.param == "by the consumer").lower())
    yield
    spark.conf.set(OFFSETS_BY_CONSUMER, "true")


@pytest.mark.usefixtures("either_way")
def test_a_batch_query_reads_every_record_of_a_topic(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    rows = reader.option("subscribe", topic).option("includeHeaders", "true").load().collect()
    found = {int(row.value.decode().removeprefix("value-")): row for row in rows}
    assert sorted(found) == list(range(len(CODECS) * PER_CODEC))
    for number, row in found.items():
        assert row.key == f"key-{number}".encode()
        assert row.partition == number % 3
        assert round(row.timestamp.timestamp() * 1000) == _time_of(number)
        codec = CODECS[number // PER_CODEC]
        headers = [("codec", codec.encode()), ("null", None)] if number % 2 else None
        assert (row.headers and [tuple(header) for header in row.headers]) == headers
    for partition in range(3):
        offsets = sorted(row.offset for row in rows if row.partition == partition)
        assert offsets == list(range(len(offsets)))


@pytest.mark.usefixtures("either_way")
def test_a_batch_query_starts_at_a_timestamp(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("startingTimestamp", str(_time_of(MIDDLE))).option("subscribe", topic)
    values = {row.value.decode() for row in reader.load().collect()}
    assert values == {f"value-{i}" for i in range(MIDDLE, len(CODECS) * PER_CODEC)}


@pytest.mark.usefixtures("either_way")
def test_structured_streaming_reads_all_then_what_comes(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = f"wire-of-stream-{uuid.uuid4().hex[:8]}"
    Cluster(broker.bootstrap).create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    seen: list[str] = []

    def take(frame: DataFrame, _: int) -> None:
        seen.extend(row.value.decode() for row in frame.collect())

    for first in (0, 50):
        for i in range(first, first + 50):
            producer.produce(topic, value=str(i), partition=i % 2)
        assert producer.flush(30) == 0
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "30")
            .load()
        )
        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert sorted(map(int, seen)) == list(range(first + 50))


def test_what_clients_committed_comes_over_the_wire(
    source: ClusterSource, topic: str, committed: dict[tuple[str, int], tuple[int, str]]
) -> None:
    events = source.events()
    assert events.schema == EVENTS
    last = {}
    rows = events.where(events.topic == topic).collect()
    for row in sorted(rows, key=lambda row: (row.log_partition, row.log_offset)):
        assert row.kind == "commit"
        last[row.group_id, row.partition] = (row.committed_offset, row.metadata)
    # librdkafka ends the metadata of a commit with a NUL character
    assert {k: (o, m.rstrip("\0")) for k, (o, m) in last.items() if k[0] != "members"} == committed


def test_the_files_of_the_same_broker_give_the_same_rows(
    spark: SparkSession, source: ClusterSource, broker: Broker, tmp_path: Path
) -> None:
    live = open_source(spark, str(broker.data))
    if KIND == "muster":
        assert source.cluster_id == live.cluster_id is not None
    order = ["log_partition", "log_offset"]
    now = open_source(spark, broker.bootstrap)  # other tests' consumers have joined groups since
    wire, files = (s.events().orderBy(*order).collect() for s in (now, live))
    assert len(wire) >= 30
    assert files == wire
    copied = shutil.copytree(broker.data, tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    assert open_source(spark, str(copied)).events().orderBy(*order).collect() == wire


def test_batches_join_offsets_and_time_on_both_ways(
    spark: SparkSession, source: ClusterSource, broker: Broker, topic: str
) -> None:
    wire = source.batches([topic])
    files = open_source(spark, str(broker.data)).batches([topic])
    assert wire is not None
    assert files is not None
    for frame in (wire, files):
        assert frame.schema.names == BATCHES.names
        rows = frame.orderBy("partition", "base_offset").collect()
        for partition in range(3):
            own = [row for row in rows if row.partition == partition]
            assert own[0].base_offset == 0
            for before, after in itertools.pairwise(own):
                assert after.base_offset == before.last_offset + 1
            assert [round(row.first_at.timestamp() * 1000) for row in own] == [
                _time_of(3 * row.base_offset + partition) for row in own
            ]
            assert [round(row.max_at.timestamp() * 1000) for row in own] == [
                _time_of(3 * row.last_offset + partition) for row in own
            ]


def test_clear_words_for_what_is_no_source(
    spark: SparkSession, source: ClusterSource, tmp_path: Path
) -> None:
    port = free_port()
    with pytest.raises(PipelineError, match=f"no broker answers at 127.0.0.1:{port}"):
        open_source(spark, f"127.0.0.1:{port}")
    with pytest.raises(PipelineError, match="does not exist"):
        open_source(spark, str(tmp_path / "absent"))
    with pytest.raises(PipelineError, match="has no partition of __consumer_offsets"):
        open_source(spark, str(tmp_path))
    with pytest.raises(PipelineError, match="has no topic nowhere"):
        source.batches(["nowhere"])
    with pytest.raises(PipelineError, match="write kafka://HOST:PORT"):
        open_source(spark, "kafka://here")
