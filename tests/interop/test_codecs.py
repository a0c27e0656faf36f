"""Each client can read the records that each other client has compressed."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests import java
from tests.brokers import Broker
from tests.interop.cluster import Cluster, read_topic
from tests.interop.group_members import JAVA_CLIENTS
from tests.interop.producers import produce

pytestmark = pytest.mark.interop
PARTITIONS = 2

# kafka-python needs packages for snappy and zstd that are compiled during installation.
COMPRESSED = [
    ("confluent", ("gzip", "snappy", "lz4", "zstd")),
    ("kafka-python", ("gzip", "lz4")),
    ("aiokafka", ("gzip", "snappy", "lz4", "zstd")),
    (JAVA_CLIENTS[0], ("zstd",)),
    ("java-0.10.2.2", ("lz4",)),
]


def _values(stem: str) -> list[str]:
    return [f"{stem}-{number}-" + "compressible " * 8 for number in range(40)]


def _by_kafka_python(bootstrap: str, topic: str, count: int) -> list[str]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20000
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, p) for p in range(PARTITIONS)])
        return [next(consumer).value.decode() for _ in range(count)]


async def _by_aiokafka(bootstrap: str, topic: str, count: int) -> list[str]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, p) for p in range(PARTITIONS)])
        async with asyncio.timeout(20):
            return [(await consumer.getone()).value.decode() for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.parametrize(
    ("client", "codecs"),
    COMPRESSED,
    ids=[java.test_id(client) or client for client, _ in COMPRESSED],
)
def test_every_python_client_reads_records_compressed_by_any_client(
    request: pytest.FixtureRequest, client: str, codecs: tuple[str, ...], name: str
) -> None:
    old = client == "java-0.10.2.2"
    broker: Broker = request.getfixturevalue("old_client_broker" if old else "broker")
    cluster = Cluster(broker.bootstrap)
    for codec in codecs:
        topic = f"{name}-{codec}"
        cluster.create_topic(topic, PARTITIONS)
        values = _values(codec)
        produce(client, broker.bootstrap, topic, values, codec)
        read = read_topic(broker.bootstrap, topic, cluster.end_offsets(topic, PARTITIONS))
        assert sorted(record.value for record in read) == sorted(values)
        count = len(values)
        if codec in ("gzip", "lz4"):
            assert sorted(_by_kafka_python(broker.bootstrap, topic, count)) == sorted(values)
        found = asyncio.run(_by_aiokafka(broker.bootstrap, topic, count))
        assert sorted(found) == sorted(values)


@pytest.mark.parametrize("release", [java.RELEASE, "0.10.2.2"])
def test_java_consumer_reads_all_codecs_that_its_version_supports(
    request: pytest.FixtureRequest, release: str, name: str
) -> None:
    old = release.startswith("0.")
    broker: Broker = request.getfixturevalue("old_client_broker" if old else "broker")
    # zstd came with KIP-110 in 2.1: an older consumer gets an error and reads no record.
    codecs = ("none", "gzip", "snappy", "lz4") + (() if old else ("zstd",))
    wanted = []
    for codec in codecs:
        Cluster(broker.bootstrap).create_topic(f"{name}-{codec}", PARTITIONS)
        produce("confluent", broker.bootstrap, f"{name}-{codec}", _values(codec), codec)
        wanted += _values(codec)
    main_class = (
        "kafka.tools.ConsoleConsumer"
        if old
        else ("org.apache.kafka.tools.consumer.ConsoleConsumer")
    )
    done = java.run(
        f"kafka-{release}",
        main_class,
        *(["--new-consumer", "--whitelist"] if old else ["--include"]),
        f"{name}-.*",
        "--bootstrap-server",
        broker.bootstrap,
        "--from-beginning",
        "--max-messages",
        str(len(wanted)),
        "--timeout-ms",
        "20000",
    )
    assert sorted(done.stdout.splitlines()) == sorted(wanted), done.stderr
