"""Tests topics with older message formats: the stored records, and the records that each version of
Fetch returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import (
    INVALID_CONFIG,
    NONE,
    OFFSET_OUT_OF_RANGE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
from protocol.records import message_set
from protocol.records.batch import COMMIT, encode_batch
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record
from protocol.records.stored import iter_stored, stored_records
from tests.broker.config_calls import SET, alter
from tests.broker.topic_calls import create_topic, fetch, fetch_request, list_offset, produce
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire

NOON = 1_700_000_000_000
MAGICS = {"0.8.2": 0, "0.9.0": 0, "0.10.0-IV1": 1, "0.10.2": 1, "0.11.0-IV2": 2, "3.0-IV1": 2}
ANSWERED = {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 9: 2, 12: 2}
"""The highest magic that each version of Fetch may return."""


def sent_by(version: int, codec: int = 0) -> bytes:
    """Returns three records in the format in which a client of this Produce version sends them."""
    records = [Record(i, NOON + i, b"k", b"v%d" % i) for i in range(3)]
    if version >= 3:
        return encode_batch(records, compression=codec)
    return message_set.encode(records, 0 if version < 2 else 1, codec)


def read(
    wire: Wire, name: str, version: int = 12, offset: int = 0
) -> tuple[set[int], list[tuple[int, bytes | None]]]:
    """Sends one Fetch. Returns the magics of the entries, and the offset and value of each
    record."""
    answer = fetch(wire, name, offset, version)
    assert answer["error_code"] == NONE
    entries = [header for header, _ in iter_stored(answer["records"])]
    return {header.magic for header in entries}, [
        (record.offset, record.value)
        for header in entries
        for record in stored_records(answer["records"], header)
    ]


@pytest.mark.proves("clusters 25")
@pytest.mark.parametrize("produced", [0, 2, 3, 9])
@pytest.mark.parametrize("format_version", MAGICS)
def test_fetch_converts_stored_messages_to_the_format_of_its_version(
    wire: Wire, name: str, format_version: int, produced: int
) -> None:
    create_topic(wire, name, configs={"message.format.version": str(format_version)})
    expected = []
    for codec in (0, 1, 2, 3):
        answer = produce(wire, name, sent_by(produced, codec), version=produced)
        assert (answer["error_code"], answer["base_offset"]) == (NONE, 3 * codec)
        expected += [(3 * codec + i, b"v%d" % i) for i in range(3)]

    for version, latest in ANSWERED.items():
        magics, found = read(wire, name, version)
        assert magics == {min(latest, MAGICS[str(format_version)])}
        assert found == expected
        _, found = read(wire, name, version, offset=7)  # an offset within a wrapper message
        assert [entry for entry in found if entry[0] >= 7] == expected[7:]


def test_topic_with_several_formats_is_read_by_every_fetch_version(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    for format_version in ("0.9.0", "0.10.2", "3.0-IV1", "0.9.0"):
        assert alter(wire, name, ("message.format.version", SET, format_version)) == (NONE, None)
        produce(wire, name, sent_by(9, codec=1))

    assert read(wire, name)[0] == {0, 1, 2}
    for version in (1, 3, 12):
        assert [offset for offset, _ in read(wire, name, version)[1]] == list(range(12))


@pytest.mark.campaign
def test_messages_of_an_old_format_survive_kill_9(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers({"log.message.format.version": "0.10.2"})
    with Wire(broker.port) as wire:
        create_topic(wire, name)
        for codec in (0, 1, 2, 3):
            produce(wire, name, sent_by(2, codec), version=2)
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert produce(wire, name, sent_by(9))["base_offset"] == 12
        magics, found = read(wire, name)
        assert magics == {1}
        assert [offset for offset, _ in found] == list(range(15))
        assert list_offset(wire, name, NOON + 1)["offset"] == 1


def test_list_offsets_by_time_is_unsupported_for_formats_without_timestamp(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, configs={"message.format.version": "0.9.0"})
    produce(wire, name, sent_by(0), version=0)

    assert list_offset(wire, name, NOON)["error_code"] == UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert list_offset(wire, name, -1)["offset"] == 3
    assert list_offset(wire, name, -2)["offset"] == 0


def test_record_that_an_old_format_cannot_store_is_refused(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"message.format.version": "0.10.2"})
    record = Record(0, NOON, None, b"v")
    for refused in (
        encode_batch([record], producer_id=1, producer_epoch=0, base_sequence=0),
        encode_batch([record._replace(headers=[("h", b"x")])]),
    ):
        answer = produce(wire, name, refused)
        assert answer["error_code"] == UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert "message.format.version" in answer["error_message"]
    assert list_offset(wire, name, -1)["offset"] == 0


@pytest.mark.parametrize("version", ["", "0.7.0", "newest", "2", "0.10.x"])
def test_invalid_message_format_version_is_refused(wire: Wire, name: str, version: str) -> None:
    answer = create_topic(wire, name, configs={"message.format.version": version})
    assert answer["error_code"] == INVALID_CONFIG
    assert "message.format.version" in answer["error_message"]


def test_messages_of_an_old_format_get_the_log_append_time(wire: Wire, name: str) -> None:
    configs = {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"}
    create_topic(wire, name, configs=configs)
    answers = [produce(wire, name, sent_by(2, codec), version=2) for codec in (0, 1)]

    stored = fetch(wire, name)["records"]
    times = [
        record.timestamp
        for header, _ in iter_stored(stored)
        for record in stored_records(stored, header)
    ]
    assert times == [answer["log_append_time_ms"] for answer in answers for _ in range(3)]
    assert min(times) > NOON
    assert fetch(wire, name, 7)["error_code"] == OFFSET_OUT_OF_RANGE


@pytest.mark.campaign
def test_old_fetch_versions_skip_markers_and_empty_batches(
    brokers: Callable[..., Broker], name: str
) -> None:
    def hidden(at: int) -> bytes:
        """Returns a marker at offset ``at``, followed by an empty batch. They occupy nine offsets
        together."""
        marker = encode_end_transaction(
            COMMIT,
            base_offset=at,
            timestamp=NOON,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
        )
        return marker + encode_batch([], base_offset=at + 1, last_offset=at + 8)

    shown = [encode_batch([Record(offset, NOON, None, b"v")]) for offset in (0, 10)]
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name)
    broker.stop()
    (file,) = broker.partition_folder(name, 0).glob("*.log")
    file.write_bytes(shown[0] + hidden(1) + shown[1] + hidden(11))
    (broker.data / ".kafka_cleanshutdown").unlink()
    (broker.data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    broker.start()
    with Wire(broker.port) as wire:
        assert list_offset(wire, name, -1)["offset"] == 20
        for version in (0, 3):
            answer = fetch(wire, name, 1, version, partition_max_bytes=1)
            assert [record.offset for record in message_set.decode(answer["records"])] == [10]
            assert fetch(wire, name, 11, version, partition_max_bytes=1)["records"] == b""
        answer = fetch(wire, name, 1, partition_max_bytes=1)
        assert hidden(1).startswith(answer["records"])


def test_consecutive_down_converted_fetches_return_records_of_different_partitions(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, partitions=3)
    large = encode_batch([Record(i, NOON, None, bytes(100_000)) for i in range(9)])
    for partition in range(3):
        assert produce(wire, name, large, partition=partition)["error_code"] == NONE
    request = fetch_request(name)
    (topic,) = request["topics"]
    topic["partitions"] = [{**topic["partitions"][0], "partition": number} for number in (2, 0, 1)]

    def served() -> int:
        partitions = _partitions(wire, 2, request)
        assert [each["partition_index"] for each in partitions] == [2, 0, 1]
        (whole,) = [each for each in partitions if each["records"]]
        assert len(message_set.decode(whole["records"])) == 9
        return int(whole["partition_index"])

    seen: set[int] = set()
    until("each had its turn", lambda: seen.add(served()) or len(seen) == 3)
    assert all(each["records"] for each in _partitions(wire, 4, request))


def _partitions(wire: Wire, version: int, request: dict[str, Any]) -> list[dict[str, Any]]:
    (answered,) = wire.call("Fetch", version, request)["responses"]
    partitions: list[dict[str, Any]] = answered["partitions"]
    return partitions
