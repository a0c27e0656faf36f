"""Requests in a cluster with faults: a partition without a leader, and a cluster without a
controller.

The requests for the partition are sent while broker 3, which has the only replica of LOST, is down.
The other requests are sent to broker 1 when no broker is the controller.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.schema import ZERO_UUID
from tests.cluster_errors.cell import LOST, TOPIC, WAIT_MS, Cell
from tests.cluster_errors.of_controller import requests
from tests.cluster_errors.of_partitions import of_partition


def leaderless() -> Iterator[Cell]:
    """Yields requests about a partition without a leader, for broker 1, which is the controller."""
    for name, version, value in of_partition(LOST, 0):
        yield Cell(f"{name} of a leaderless partition", version, value)
    for version in (0, 1, 8, 12):
        for topic, what in (
            (LOST, "a leaderless partition"),
            (TOPIC, "partitions with dead replicas"),
        ):
            named = {"name": topic, **({"topic_id": ZERO_UUID} if version >= 10 else {})}
            yield Cell(f"Metadata {version} of {what}", version, {"topics": [named]})
    for kind, election in ((0, "preferred"), (1, "unclean")):
        topics = [{"topic": LOST, "partitions": [0]}]
        value = {"election_type": kind, "topic_partitions": topics, "timeout_ms": WAIT_MS}
        yield Cell(f"ElectLeaders, {election}, of a leaderless partition", 2, value)
    where = {"name": LOST, "partitions": [{"partition_index": 0, "replicas": None}]}
    value = {"topics": [where], "timeout_ms": WAIT_MS}
    yield Cell("AlterPartitionReassignments, cancelled, of a leaderless partition", 0, value)


def without_controller() -> Iterator[Cell]:
    """Yields requests to broker 1, after it has lost the controllership and no other broker has
    it."""
    for name, version, value in requests():
        yield Cell(f"{name} without a controller", version, value)
    for version in (1, 12):
        yield Cell(f"Metadata {version} without a controller", version, {"topics": []})
    yield Cell("DescribeCluster without a controller", 0, {})
