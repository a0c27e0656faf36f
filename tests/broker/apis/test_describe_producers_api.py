"""Tests that DescribeProducers returns the open transaction of each producer of a partition. The
tests also pass on Apache Kafka 4.3.1 (BROKER=kafka)."""

from __future__ import annotations

from typing import Any

from protocol.errors import INVALID_TOPIC_EXCEPTION, NONE, UNKNOWN_TOPIC_OR_PARTITION
from tests.broker.transactional_calls import added, begin, create_led, end, send
from tests.waiting import until
from tests.wire import Wire


def described(wire: Wire, topic: str, *partitions: int) -> list[dict[str, Any]]:
    asked = {"topics": [{"name": topic, "partition_indexes": list(partitions)}]}
    found: list[dict[str, Any]] = wire.call("DescribeProducers", 0, asked)["topics"][0][
        "partitions"
    ]
    return found


def only(wire: Wire, topic: str) -> dict[str, Any]:
    """Returns the only producer of partition 0. Fails if the partition has another number of
    producers."""
    (partition,) = described(wire, topic, 0)
    (producer,) = partition["active_producers"]
    found: dict[str, Any] = producer
    return found


def test_describe_producers_returns_start_offset_and_coordinator_epoch(
    wire: Wire, name: str
) -> None:
    create_led(wire, name)
    pid, epoch = begin(wire, name)
    for number, committed in enumerate((True, False)):
        added(wire, name, (pid, epoch), [(name, [0])])
        start = send(wire, name, (pid, epoch), name, 0, 0, 11, b"a", b"b")["base_offset"]
        opened = only(wire, name)
        assert (opened["producer_id"], opened["producer_epoch"]) == (pid, epoch)
        assert opened["current_txn_start_offset"] == start == 3 * number
        assert opened["last_sequence"] == 1
        assert (opened["coordinator_epoch"] == -1) == (number == 0)

        code, (_, epoch) = end(wire, name, (pid, epoch), committed)
        assert code == NONE
        until("the marker is there", lambda: only(wire, name)["current_txn_start_offset"] == -1)
        ended = only(wire, name)
        assert ended["producer_epoch"] == epoch  # the marker has the next epoch
        assert ended["last_sequence"] == -1
        assert ended["coordinator_epoch"] >= 0


def test_describe_producers_returns_an_error_for_each_unknown_partition(
    wire: Wire, name: str
) -> None:
    create_led(wire, name)

    there, missing = described(wire, name, 0, 7)
    (bad,) = described(wire, "a/b", 0)

    assert (there["error_code"], there["active_producers"]) == (NONE, [])
    assert missing["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    assert bad["error_code"] == INVALID_TOPIC_EXCEPTION
