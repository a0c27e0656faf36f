"""Tests that DeleteRecords raises the log start offset immediately, and that the new log start
offset survives a crash."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import (
    INVALID_TOPIC_EXCEPTION,
    NONE,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.config_calls import SET, alter
from tests.broker.topic_calls import create_topic, fetch, list_offset, metadata, produce
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire, batch, values_of

EARLIEST = -2
HIGH_WATERMARK = -1


def delete_records(
    wire: Wire, name: str, offset: int, partition: int = 0, version: int = 2
) -> tuple[int, int]:
    """Sends DeleteRecords for one partition. Returns the error code and the low watermark."""
    wanted = {"partition_index": partition, "offset": offset}
    topic = {"name": name, "partitions": [wanted]}
    answer = wire.call("DeleteRecords", version, {"topics": [topic], "timeout_ms": 1000})
    ((entry,),) = ([*each["partitions"]] for each in answer["topics"])
    assert entry["partition_index"] == partition
    return entry["error_code"], entry["low_watermark"]


@pytest.mark.parametrize("version", range(3))
def test_delete_records_raises_the_log_start_offset_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    for number in range(5):
        produce(wire, name, batch(b"%d" % number))

    assert delete_records(wire, name, 3, version=version) == (NONE, 3)

    assert list_offset(wire, name, EARLIEST)["offset"] == 3
    assert fetch(wire, name, 2)["error_code"] == OFFSET_OUT_OF_RANGE
    there = fetch(wire, name, 3)
    assert (there["log_start_offset"], values_of(there["records"])) == (3, [b"3", b"4"])


def test_delete_records_moves_log_start_into_a_batch_but_never_back(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    produce(wire, name, batch(b"a", b"b", b"c"))

    assert delete_records(wire, name, 2) == (NONE, 2)
    assert delete_records(wire, name, 1) == (NONE, 2), "what is gone is gone"
    assert delete_records(wire, name, HIGH_WATERMARK) == (NONE, 3)
    assert fetch(wire, name, 3)["records"] in (None, b"")
    assert produce(wire, name, batch(b"d"))["base_offset"] == 3


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "error_code"),
    [
        ("deleted", 0, 2, OFFSET_OUT_OF_RANGE),
        ("deleted", 0, -2, OFFSET_OUT_OF_RANGE),
        ("deleted", 1, 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("deleted", -1, 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("not-there", 0, 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 1, POLICY_VIOLATION),
        ("both", 0, 1, NONE),
        ("__consumer_offsets", 0, 0, INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", 0, 0, INVALID_TOPIC_EXCEPTION),
        ("__share_group_state", 0, 0, INVALID_TOPIC_EXCEPTION),
    ],
)
def test_delete_records_checks_the_offset_the_cleanup_policy_and_internal_topics(
    wire: Wire, name: str, topic: str, partition: int, offset: int, error_code: int
) -> None:
    policies = {"deleted": "delete", "compacted": "compact", "both": "compact,delete"}
    if topic in policies:
        keyed = batch(b"v") if topic == "deleted" else None
        create_topic(wire, name)
        produce(wire, name, keyed)
        alter(wire, name, ("cleanup.policy", SET, policies[topic]))
        topic = name
    else:
        metadata(wire, "__consumer_offsets", "__transaction_state", "__share_group_state")

    code, low_watermark = delete_records(wire, topic, offset, partition)

    assert (code, low_watermark) == (error_code, offset if error_code == NONE else -1)


def test_deleted_records_stay_deleted_after_kill_9(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name)
        produce(wire, name, batch(b"a", b"b", b"c"))
        assert delete_records(wire, name, 2) == (NONE, 2)
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert list_offset(wire, name, EARLIEST)["offset"] == 2


def test_segments_before_the_log_start_offset_are_deleted(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers({"log.retention.check.interval.ms": "50"})
    with Wire(broker.port) as wire:
        small = {"segment.bytes": "200", "file.delete.delay.ms": "0", "retention.ms": "-1"}
        create_topic(wire, name, configs=small)
        for _ in range(5):
            produce(wire, name, batch(b"x" * 100))
        folder = broker.partition_folder(name, 0)
        assert len(list(folder.glob("*.log"))) == 5
        assert delete_records(wire, name, 3) == (NONE, 3)

        until("the segments are gone", lambda: len(list(folder.glob("*.log*"))) == 2)
        assert values_of(fetch(wire, name, 3)["records"]) == [b"x" * 100]
