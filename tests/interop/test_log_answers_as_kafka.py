"""Responses about a log (offsets, leader epochs, producers, sizes, rejected records) equal those of
Kafka.

Both brokers receive the same requests for an empty log, a filled log, and a log whose first records
are deleted. Only error messages may differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import NONE
from protocol.records.batch import encode_batch, iter_batches
from protocol.records.section import Record
from tests.broker.config_calls import SET, alter
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce
from tests.brokers import KIND, Broker, KafkaBroker, running
from tests.waiting import until
from tests.wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
NOW = int(time.time() * 1000) - 60_000
TIMES = (-1, -2, -3, -4, -5, 0, NOW + 1, NOW + 3)
TOLD = ("error_code", "timestamp", "offset", "leader_epoch")
THREE = [Record(i, NOW + i, b"k", b"v") for i in range(3)]
LATE = [record._replace(timestamp=NOW + 3_600_000) for record in THREE]
KEYLESS = [THREE[0], THREE[1]._replace(key=None), THREE[2]._replace(key=None)]
OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Yields Muster and Apache Kafka 4.3.1."""
    folder = tmp_path_factory.mktemp("answers")
    settings = {"offsets.topic.num.partitions": "1"}
    muster, kafka = Broker(folder / "muster", settings), KafkaBroker(folder / "kafka", settings)
    with running(muster, kafka):
        yield muster, kafka


def create_led(wire: Wire, topic: str, **fields: Any) -> None:
    """Creates a topic and waits until its first partition is served."""
    assert create_topic(wire, topic, **fields)["error_code"] == NONE
    until("it is served", lambda: list_offset(wire, topic, -1)["error_code"] == NONE)


def epoch_ends(wire: Wire, topic: str) -> list[tuple[int, int, int]]:
    """Returns OffsetForLeaderEpoch responses for known and unknown leader epochs, from requests
    with and without a current leader epoch."""
    asked = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        for partition, current, epoch in [
            *((0, -1, epoch) for epoch in (-1, 0, 1, 5)), (0, 0, 0), (0, 7, 0), (3, -1, 0),
        ]
    ]  # fmt: skip
    ends = []
    for partition in asked:
        topics = [{"topic": topic, "partitions": [partition]}]
        answer = wire.call("OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": topics})
        (found,) = answer["topics"][0]["partitions"]
        ends.append((found["error_code"], found["leader_epoch"], found["end_offset"]))
    return ends


def offsets_told(wire: Wire, topic: str) -> list[list[int]]:
    """Returns the ListOffsets responses for all special timestamps and for some other
    timestamps."""
    return [[list_offset(wire, topic, at)[name] for name in TOLD] for at in TIMES]


def size_told(wire: Wire, topic: str) -> Any:
    """Returns the DescribeLogDirs response for the partition."""
    asked = [{"topic": topic, "partitions": [0]}, {"topic": "nowhere", "partitions": [0]}]
    (directory,) = wire.call("DescribeLogDirs", 4, {"topics": asked})["results"]
    topics = [(topic["name"], topic["partitions"]) for topic in directory["topics"]]
    return directory["error_code"], topics


def delete_records(wire: Wire, topic: str, offset: int) -> None:
    partition = {"partition_index": 0, "offset": offset}
    topics = [{"name": topic, "partitions": [partition]}]
    answer = wire.call("DeleteRecords", 2, {"topics": topics, "timeout_ms": 10_000})
    assert answer["topics"][0]["partitions"][0]["error_code"] == NONE


def test_offsets_epoch_ends_and_size_of_a_log_equal_those_of_kafka_from_creation_to_deletion(
    both: tuple[Wire, Wire],
) -> None:
    muster, kafka = both
    for wire in both:
        create_led(wire, "life")

    def alike() -> None:
        for told in (epoch_ends, offsets_told, size_told):
            assert told(muster, "life") == told(kafka, "life"), told.__name__

    alike()
    for wire in both:
        for record in THREE:
            batch = encode_batch([record._replace(offset=0)])
            assert produce(wire, "life", batch)["base_offset"] == record.offset
    alike()
    for start in (2, -1):
        for wire in both:
            delete_records(wire, "life", start)
        alike()


def producers_of(wire: Wire) -> list[Any]:
    """Returns the DescribeProducers responses for two existing partitions, an unknown partition and
    an unknown topic."""
    topics = [
        {"name": "producers", "partition_indexes": [0, 1, 2]},
        {"name": "nowhere", "partition_indexes": [0]},
    ]
    answer = wire.call("DescribeProducers", 0, {"topics": topics})
    partitions = [partition for topic in answer["topics"] for partition in topic["partitions"]]
    return [(found["error_code"], found["active_producers"]) for found in partitions]


def test_describe_producers_response_equals_that_of_kafka(both: tuple[Wire, Wire]) -> None:
    for wire in both:
        create_led(wire, "producers", partitions=2)

    def sent(wire: Wire, epoch: int, sequence: int) -> tuple[int, int]:
        batch = encode_batch(THREE, producer_id=4711, producer_epoch=epoch, base_sequence=sequence)
        answer = produce(wire, "producers", batch)
        return answer["error_code"], answer["base_offset"]

    muster, kafka = both
    for epoch, sequence in ((2, 0), (2, 0), (2, 7), (1, 3), (2, 3)):
        assert sent(muster, epoch, sequence) == sent(kafka, epoch, sequence), (epoch, sequence)
    assert producers_of(muster) == producers_of(kafka)


@pytest.mark.parametrize("version", [7, 8, 9])
@pytest.mark.parametrize(
    ("topic", "configs", "records"),
    [
        ("compacted", {"cleanup.policy": "compact"}, KEYLESS),
        ("before", {"message.timestamp.before.max.ms": "10"}, THREE),
        ("after", {"message.timestamp.after.max.ms": "10"}, LATE),
        ("large", {"max.message.bytes": "50"}, THREE),
    ],
)
def test_produce_response_names_the_same_rejected_records_as_that_of_kafka(
    both: tuple[Wire, Wire],
    topic: str,
    configs: dict[str, str],
    records: list[Record],
    version: int,
) -> None:
    answers = []
    for wire in both:
        name = f"{topic}-{version}"
        create_led(wire, name, configs=configs)
        answer = produce(wire, name, encode_batch(records), version=version)
        blamed = [error["batch_index"] for error in answer.get("record_errors", ())]
        fields = ("error_code", "base_offset", "log_start_offset", "log_append_time_ms")
        answers.append((blamed, *(answer[field] for field in fields), list_offset(wire, name, -1)))
    assert answers[0] == answers[1]
    assert answers[0][1] != NONE


def test_offsets_topic_settings_apply_to_coordinator_writes_as_in_kafka(
    both: tuple[Wire, Wire],
) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 200}
    topics = [{"name": "life-of-offsets", "partitions": [partition]}]
    commit = {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics,
    }  # fmt: skip
    written = []
    for wire in both:
        create_led(wire, "life-of-offsets")

        def committed(wire: Wire = wire) -> bool:
            wire.call("FindCoordinator", 3, {"key": "g", "key_type": 0})
            answer = wire.call("OffsetCommit", 7, commit)
            return answer["topics"][0]["partitions"][0]["error_code"] == NONE

        until("a commit is taken", committed)
        changed = {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}
        alter(wire, OFFSETS, *((name, SET, value) for name, value in changed.items()))

        def forms(wire: Wire = wire) -> list[tuple[int, int]]:
            data = fetch(wire, OFFSETS)["records"]
            return [(header.compression, header.timestamp_type) for header, _ in iter_batches(data)]

        until("the settings hold", lambda: committed() and forms()[-1] != (0, 0))
        written.append(forms()[-1])
    assert written == [(1, 1)] * 2


@pytest.mark.parametrize("compression_type", ["producer", "zstd"])
def test_fetch_response_of_a_zstd_topic_equals_kafkas_in_every_version(
    both: tuple[Wire, Wire], compression_type: str
) -> None:
    topic = f"zstd-{compression_type}"
    for wire in both:
        create_led(wire, topic, configs={"compression.type": compression_type})
        produce(wire, topic, encode_batch(THREE))
        produce(wire, topic, encode_batch(THREE, compression=4))

    def answer(wire: Wire, version: int, offset: int) -> Any:
        found = fetch(wire, topic, offset, version)
        batches = [
            (header.base_offset, header.compression)
            for header, _ in iter_batches(found["records"] or b"")
        ]
        return found["error_code"], found["high_watermark"], batches

    for version in range(4, 13):
        for offset in (0, 3, 6, 7):
            ours, kafkas = (answer(wire, version, offset) for wire in both)
            assert ours == kafkas, (version, offset)
