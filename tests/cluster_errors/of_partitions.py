"""Requests to broker 1 for partitions of which it is the leader, a follower, or not a replica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cluster_errors.cell import (
    DIRECTORY,
    PLACES,
    STRANGE_ID,
    TOPIC_ID,
    WAIT_MS,
    Cell,
    Value,
)
from tests.wire import batch

_MIB = 1 << 20


def _fetch(topic: Value, index: int, offset: int = 0, epoch: int = -1) -> Value:
    wanted = {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": _MIB,
        "current_leader_epoch": epoch,
    }
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "max_bytes": _MIB,
        "session_epoch": -1,
        "topics": [{**topic, "partitions": [wanted]}],
    }


def of_partition(topic: str, index: int) -> Iterator[tuple[str, int, Value]]:
    def one(name: str, number: str, **more: Any) -> list[Value]:
        return [{name: topic, "partitions": [{number: index, **more}]}]

    data = [{"index": index, "records": batch(b"v")}]
    yield (
        "Produce",
        9,
        {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": WAIT_MS,
            "topic_data": [{"name": topic, "partition_data": data}],
        },
    )
    for epoch in (-1, 0, 99):
        yield f"Fetch in epoch {epoch}", 12, _fetch({"topic": topic}, index, epoch=epoch)
    yield "Fetch beyond the end", 12, _fetch({"topic": topic}, index, 1 << 40)
    for epoch in (-1, 99):
        ends = one("name", "partition_index", current_leader_epoch=epoch, timestamp=-1)
        yield f"ListOffsets in epoch {epoch}", 7, {"replica_id": -1, "topics": ends}
        epochs = one("topic", "partition", current_leader_epoch=epoch, leader_epoch=0)
        yield f"OffsetForLeaderEpoch in epoch {epoch}", 4, {"replica_id": -1, "topics": epochs}
    for offset in (0, 1 << 40):
        below = one("name", "partition_index", offset=offset)
        yield f"DeleteRecords below {offset}", 2, {"topics": below, "timeout_ms": WAIT_MS}
    by_index = [{"name": topic, "partition_indexes": [index]}]
    yield "DescribeProducers", 0, {"topics": by_index}
    marker = {
        "producer_id": 77_000,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": by_index,
        "coordinator_epoch": 0,
    }
    yield "WriteTxnMarkers", 1, {"markers": [marker]}
    for said, path in (("a strange directory", "/nowhere/at/all"), ("its directory", DIRECTORY)):
        moved = [{"name": topic, "partitions": [index]}]
        yield f"AlterReplicaLogDirs to {said}", 2, {"dirs": [{"path": path, "topics": moved}]}
    yield "DescribeLogDirs", 4, {"topics": [{"topic": topic, "partitions": [index]}]}


def cells() -> Iterator[Cell]:
    for place, (topic, index) in PLACES.items():
        for name, version, value in of_partition(topic, index):
            yield Cell(f"{name} at {place}", version, value)
    for said, topic_id in (("its topic's id", TOPIC_ID), ("a strange id", STRANGE_ID)):
        for index in (0, 1, 2, 9):
            value = _fetch({"topic_id": topic_id}, index)
            yield Cell(f"Fetch of partition {index} by {said}", 13, value)
