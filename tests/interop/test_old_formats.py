"""Clients and tools of old and new versions read and write logs in the old message formats."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from protocol.records.message_set import encode
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests import java
from tests.broker.topic_calls import produce as produce_raw
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster
from tests.interop.producers import produce
from tests.wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka 4 has no message.format.version"),
]
FORMATS = {"0.9.0": 0, "0.10.2": 1, "3.0-IV1": 2}
CODECS = ("none", "gzip", "snappy", "lz4")
# librdkafka then sends Produce v0 or v1 with magic 0, and Fetch v0 or v1. (Topics need long names,
# because librdkafka reserves too little memory to parse a short Metadata v0.)
AS_OF_0_8 = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
AS_OF_0_9 = {"api.version.request": False, "broker.version.fallback": "0.9.0.1"}
KAFKA_300_KB = 300_000


def values_of(stem: str) -> list[str]:
    return [f"{stem}-{number}-" + "compressible " * 8 for number in range(30)]


def topic_of(cluster: Cluster, name: str, version: str, **configs: str) -> str:
    topic = f"{name}-stored-as-{version}-does"
    cluster.create_topic(topic, 1, **{"message.format.version": version, **configs})
    return topic


def send(broker: Broker, topic: str, values: list[str], codec: str, **settings: Any) -> None:
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
            **settings,
        }
    )
    for value in values:
        producer.produce(
            topic,
            value.encode(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert not failed


def read(broker: Broker, topic: str, count: int, **settings: Any) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "check.crcs": True, **settings}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(count, timeout=20)
        assert all(message.error() is None for message in messages)
        return [message.value().decode() for message in messages]
    finally:
        consumer.close()


def read_by_java(broker: Broker, release: str, name: str, count: int) -> list[str]:
    old = release == java.KAFKA_OLD
    done = java.run(
        release,
        "kafka.tools.ConsoleConsumer"
        if old
        else "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(["--new-consumer", "--whitelist"] if old else ["--include"]),
        f"{name}-.*",
        "--bootstrap-server", broker.bootstrap, "--from-beginning", "--max-messages", str(count),
        "--timeout-ms", "20000",
    )  # fmt: skip
    assert "ERROR" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def magics_of(broker: Broker, topic: str) -> set[int]:
    files = sorted(broker.partition_folder(topic, 0).glob("*.log"))
    return {header.magic for file in files for header, _ in iter_stored(file.read_bytes())}


def test_every_client_reads_every_format_written_by_every_client(broker: Broker, name: str) -> None:
    cluster = Cluster(broker.bootstrap)
    everything = []
    for version, magic in FORMATS.items():
        topic = topic_of(cluster, name, version)
        wanted = []
        for codec in CODECS:
            for age, settings in (("8", AS_OF_0_8), ("9", AS_OF_0_9), ("now", {})):
                sent = values_of(f"{codec}-{age}")
                send(broker, topic, sent, codec, **settings)
                wanted += sent
        sent = values_of("java")
        produce("java-0.10.2.2", broker.bootstrap, topic, sent, "lz4")
        wanted += sent
        assert magics_of(broker, topic) == {magic}
        for settings in (AS_OF_0_8, AS_OF_0_9, {}):
            assert read(broker, topic, len(wanted), **settings) == wanted
        everything += wanted

    for release in (java.KAFKA_OLD, java.KAFKA_NEW):
        assert sorted(read_by_java(broker, release, name, len(everything))) == sorted(everything)


def test_java_client_reads_lz4_frames_of_300_kb_that_the_broker_compressed(
    broker: Broker, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    values = [f"{number:06d}" * 50 for number in range(1000)]
    assert sum(map(len, values)) == KAFKA_300_KB
    for version in FORMATS:
        topic = topic_of(cluster, name, version, **{"compression.type": "lz4"})
        records = [Record(i, 1, None, value.encode()) for i, value in enumerate(values)]
        with Wire(broker.port) as wire:
            answer = produce_raw(wire, topic, encode(records, 1), version=2)
        assert answer["error_code"] == 0
        (file,) = broker.partition_folder(topic, 0).glob("*.log")
        assert [header.compression for header, _ in iter_stored(file.read_bytes())] == [3]
        assert read(broker, topic, len(values)) == values

    for release in (java.KAFKA_OLD, java.KAFKA_NEW):
        found = read_by_java(broker, release, name, 3 * len(values))
        assert sorted(found) == sorted(3 * values)


@pytest.mark.parametrize(
    "release", [java.KAFKA_OLD, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, java.KAFKA_NEW]
)
def test_kafka_dump_log_reads_segments_with_old_message_formats(
    broker: Broker, name: str, release: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    files = []
    for version in ("0.9.0", "0.10.2"):
        topic = topic_of(cluster, name, version, **{"index.interval.bytes": "100"})
        for codec in CODECS:
            send(broker, topic, values_of(codec), codec, **AS_OF_0_9)
        files += broker.partition_folder(topic, 0).glob("*.log")
    done = java.run(
        release,
        "org.apache.kafka.tools.DumpLogSegments"
        if release == java.KAFKA_NEW
        else "kafka.tools.DumpLogSegments",
        "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, files)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    offsets = [int(found) for found in re.findall(r"\boffset: (\d+)", done.stdout)]
    assert set(offsets) == set(range(4 * 30))
    assert offsets.count(0) >= 2, "of both files"
    assert set(re.findall(r"payload: (\S+)", done.stdout)) == {
        value.split()[0] for codec in CODECS for value in values_of(codec)
    }
