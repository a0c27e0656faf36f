"""OffsetCommit and OffsetFetch version 0: ZooKeeper's paths, apart from the offsets of the log."""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION
from tests.broker.topic_calls import create_topic
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire


def commit(
    wire: Wire, version: int, topic: str, offset: int, partition: int = 0, metadata: str = ""
) -> int:
    entry = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": metadata,
    }
    topics = [{"name": topic, "partitions": [entry]}]
    answer = wire.call("OffsetCommit", version, {"group_id": topic, "topics": topics})
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def fetch(wire: Wire, version: int, topic: str, partition: int = 0) -> tuple[int, int]:
    topics = [{"name": topic, "partition_indexes": [partition]}]
    answer = wire.call("OffsetFetch", version, {"group_id": topic, "topics": topics})
    found = answer["topics"][0]["partitions"][0]
    return found["committed_offset"], found["error_code"]


def ready(wire: Wire, group_id: str) -> None:
    """Wait until the coordinator of the group is there."""
    until(
        "the coordinator is found",
        lambda: wire.call("FindCoordinator", 0, {"key": group_id})["error_code"] == NONE,
    )


def test_the_old_offsets_and_those_of_the_log_never_mix(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    ready(wire, name)

    assert fetch(wire, 0, name) == (-1, UNKNOWN_TOPIC_OR_PARTITION)
    assert commit(wire, 0, name, 7, metadata="goes") == NONE
    assert fetch(wire, 0, name) == (7, NONE)
    assert fetch(wire, 1, name) == (-1, NONE)
    assert commit(wire, 1, name, 9) == NONE
    assert (fetch(wire, 0, name), fetch(wire, 1, name)) == ((7, NONE), (9, NONE))


def test_dual_commit_keeps_both_in_step_as_a_migration_needs(wire: Wire, name: str) -> None:
    create_topic(wire, name, partitions=2)
    ready(wire, name)

    for offset in (3, 8):
        assert [commit(wire, version, name, offset, 1) for version in (0, 1)] == [NONE, NONE]

    assert [fetch(wire, version, name, 1) for version in (0, 1)] == [(8, NONE), (8, NONE)]


def test_what_does_not_exist_or_is_too_long_is_refused(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    assert commit(wire, 0, f"no-{name}", 1) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, 0, name, 1, partition=5) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, 0, name, 1, metadata="x" * 4097) == OFFSET_METADATA_TOO_LARGE
    assert fetch(wire, 0, name) == (-1, UNKNOWN_TOPIC_OR_PARTITION)


def test_an_acknowledged_old_offset_survives_kill_9(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name)
        for offset in range(20):
            assert commit(wire, 0, name, offset) == NONE
    broker.kill()
    broker.start()

    with Wire(broker.port) as wire:
        assert fetch(wire, 0, name) == (19, NONE)
