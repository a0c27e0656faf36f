"""Tests ListOffsets in every version and with every special timestamp. The responses equal those of
Kafka without tiered storage."""

from __future__ import annotations

import pytest

from protocol.errors import (
    INVALID_REQUEST,
    NONE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from tests.broker.topic_calls import create_topic, list_offset, produce
from tests.wire import Wire, batch

VERSIONS = range(1, 12)
SPECIAL = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""By special timestamp: the first version of ListOffsets that supports it."""


@pytest.fixture
def filled(wire: Wire, name: str) -> str:
    """Creates a topic with records at 1000, 3000, 2000 and 4000 ms, each in its own batch. Returns
    the name of the topic."""
    create_topic(wire, name)
    for timestamp in (1000, 3000, 2000, 4000):
        produce(wire, name, batch(b"v", timestamp=timestamp))
    return name


def found(answer: dict[str, int]) -> tuple[int, int, int]:
    return answer["error_code"], answer["timestamp"], answer["offset"]


@pytest.mark.parametrize("version", VERSIONS)
def test_latest_and_earliest_offsets_are_log_end_and_log_start_offset(
    wire: Wire, filled: str, version: int
) -> None:
    latest = list_offset(wire, filled, -1, version)
    earliest = list_offset(wire, filled, -2, version)

    assert found(latest) == (NONE, -1, 4)
    assert found(earliest) == (NONE, -1, 0)
    epoch = 0 if version >= 4 else -1
    assert latest["leader_epoch"] == earliest["leader_epoch"] == epoch


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        pytest.param(0, (1000, 0), id="before all"),
        pytest.param(1000, (1000, 0), id="exactly"),
        pytest.param(1001, (3000, 1), id="between"),
        pytest.param(3500, (4000, 3), id="the last"),
        pytest.param(4001, (-1, -1), id="after all"),
    ],
)
def test_list_offsets_finds_the_first_record_at_or_after_a_timestamp(
    wire: Wire, filled: str, version: int, timestamp: int, expected: tuple[int, int]
) -> None:
    assert found(list_offset(wire, filled, timestamp, version)) == (NONE, *expected)


@pytest.mark.parametrize("version", [7, 9, 11])
def test_list_offsets_max_timestamp_finds_the_largest_timestamp(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    assert found(list_offset(wire, name, -3, version)) == (NONE, -1, -1)
    for timestamp in (1000, 5000, 2000):
        produce(wire, name, batch(b"v", timestamp=timestamp))

    assert found(list_offset(wire, name, -3, version)) == (NONE, 5000, 1)


def test_list_offsets_of_tiered_storage_finds_only_the_earliest_local_offset(
    wire: Wire, filled: str
) -> None:
    assert found(list_offset(wire, filled, -4, 11)) == (NONE, -1, 0)
    assert found(list_offset(wire, filled, -5, 11)) == (NONE, -1, -1)
    assert found(list_offset(wire, filled, -6, 11)) == (NONE, -1, -1)


@pytest.mark.parametrize("timestamp", [-3, -4, -5, -6, -7])
def test_list_offsets_refuses_special_timestamps_in_older_versions(
    wire: Wire, filled: str, timestamp: int
) -> None:
    first = SPECIAL.get(timestamp, 12)

    error_code = list_offset(wire, filled, timestamp, first - 1)["error_code"]

    assert error_code == UNSUPPORTED_VERSION


def test_list_offsets_v0_returns_segment_base_offsets_in_descending_order(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, configs={"segment.bytes": "100"})
    for _ in range(3):
        produce(wire, name, batch(b"x" * 30))

    answer = list_offset(wire, name, -1, 0, max_num_offsets=10)
    bounded = list_offset(wire, name, -1, 0, max_num_offsets=2)
    earliest = list_offset(wire, name, -2, 0, max_num_offsets=10)

    assert answer["old_style_offsets"] == [3, 2, 1, 0]
    assert bounded["old_style_offsets"] == [3, 2]
    assert earliest["old_style_offsets"] == [0]


@pytest.mark.parametrize("version", range(12))
def test_list_offsets_of_unknown_topic_or_partition_is_an_error(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)

    for topic, partition in ((f"{name}-not", 0), (name, 1)):
        answer = list_offset(wire, topic, -1, version, partition)
        assert answer["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
        assert answer["offset"] == -1


@pytest.mark.parametrize("version", [4, 11])
def test_list_offsets_with_an_unknown_leader_epoch_is_an_error(
    wire: Wire, filled: str, version: int
) -> None:
    answer = list_offset(wire, filled, -1, version, current_leader_epoch=9)

    assert answer["error_code"] == UNKNOWN_LEADER_EPOCH


def test_list_offsets_refuses_a_duplicate_partition(wire: Wire, filled: str) -> None:
    wanted = {"partition_index": 0, "timestamp": -1}
    topics = [{"name": filled, "partitions": [wanted, wanted]}]

    answer = wire.call("ListOffsets", 5, {"replica_id": -1, "topics": topics})

    codes = [p["error_code"] for p in answer["topics"][0]["partitions"]]
    assert codes == [INVALID_REQUEST, INVALID_REQUEST]
