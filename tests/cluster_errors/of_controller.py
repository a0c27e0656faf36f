"""Requests for the controller, each sent to the controller and to another broker. The requests
change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cluster_errors.cell import (
    NOWHERE,
    STRANGE_ID,
    TOPIC,
    TOPIC_ID,
    WAIT_MS,
    Cell,
    Value,
    there_and_elsewhere,
)

Said = tuple[str, int, Value]


def _created() -> Iterator[Said]:
    made = {"num_partitions": 1, "replication_factor": 2, "assignments": [], "configs": []}
    named: dict[str, Value] = {
        "a topic": {"name": "fresh"},
        "one that is there": {"name": TOPIC},
        "a bad name": {"name": "a/b"},
        "too many replicas": {"name": "fresh", "replication_factor": 4},
        "no replicas": {"name": "fresh", "replication_factor": 0},
        "no partitions": {"name": "fresh", "num_partitions": 0},
    }
    for said, setting, value in (
        ("a strange setting", "x", "1"),
        ("a bad setting", "retention.ms", "x"),
        ("bad throttles", "leader.replication.throttled.replicas", "0-1"),
    ):
        named[said] = {"name": "fresh", "configs": [{"name": setting, "value": value}]}
    for said, placed in (
        ("a strange broker", [[1, 9]]),
        ("a broker twice", [[1, 1]]),
        ("different numbers of brokers", [[1], [1, 2]]),
        ("no broker", [[]]),
    ):
        assignments = [
            {"partition_index": index, "broker_ids": brokers}
            for index, brokers in enumerate(placed)
        ]
        counts = {"num_partitions": -1, "replication_factor": -1}
        named[f"replicas on {said}"] = {"name": "fresh", **counts, "assignments": assignments}
    for said, more in named.items():
        topics = [{**made, **more}]
        value = {"topics": topics, "timeout_ms": WAIT_MS, "validate_only": True}
        yield f"CreateTopics of {said}", 7, value


def _grown() -> Iterator[Said]:
    for said, topic, count, placed in (
        ("more", TOPIC, 5, None),
        ("as many", TOPIC, 3, None),
        ("fewer", TOPIC, 1, None),
        ("of no topic", NOWHERE, 5, None),
        ("on a strange broker", TOPIC, 4, [[9, 1]]),
        ("on fewer brokers", TOPIC, 4, [[1]]),
        ("on brokers of one alone", TOPIC, 5, [[1, 2]]),
        ("on a broker twice", TOPIC, 4, [[1, 1]]),
    ):
        places = None if placed is None else [{"broker_ids": brokers} for brokers in placed]
        grown = {"name": topic, "count": count, "assignments": places}
        value = {"topics": [grown], "timeout_ms": WAIT_MS, "validate_only": True}
        yield f"CreatePartitions, {said}", 3, value


def _deleted() -> Iterator[Said]:
    for said, named in (
        ("no topic", {"name": NOWHERE}),
        ("a strange id", {"name": None, "topic_id": STRANGE_ID}),
    ):
        yield f"DeleteTopics of {said}", 6, {"topics": [named], "timeout_ms": WAIT_MS}


def _elected() -> Iterator[Said]:
    for kind, election in ((0, "preferred"), (1, "unclean"), (5, "strange")):
        for topic, index in ((TOPIC, 0), (TOPIC, 9), (NOWHERE, 0)):
            asked = [{"topic": topic, "partitions": [index]}]
            value = {"election_type": kind, "topic_partitions": asked, "timeout_ms": WAIT_MS}
            yield f"ElectLeaders, {election}, of {topic}-{index}", 2, value


def _moved() -> Iterator[Said]:
    for said, topic, index, replicas in (
        ("to where it is", TOPIC, 0, [1, 2]),
        ("to a strange broker", TOPIC, 0, [1, 9]),
        ("to a negative broker", TOPIC, 0, [1, -1]),
        ("to a broker twice", TOPIC, 0, [1, 1]),
        ("to nobody", TOPIC, 0, []),
        ("of no such partition", TOPIC, 9, [1, 2]),
        ("of no such topic", NOWHERE, 0, [1, 2]),
        ("cancelled where there is none", TOPIC, 0, None),
        ("cancelled of no such partition", TOPIC, 9, None),
        ("cancelled of no such topic", NOWHERE, 0, None),
    ):
        wanted = {"name": topic, "partitions": [{"partition_index": index, "replicas": replicas}]}
        value = {"topics": [wanted], "timeout_ms": WAIT_MS}
        yield f"AlterPartitionReassignments, {said}", 0, value
    for topic in (TOPIC, NOWHERE):
        asked = [{"name": topic, "partition_indexes": [0, 9]}]
        value = {"topics": asked, "timeout_ms": WAIT_MS}
        yield f"ListPartitionReassignments of {topic}", 0, value
    yield "ListPartitionReassignments of all", 0, {"topics": None, "timeout_ms": WAIT_MS}


def _of_brokers() -> Iterator[Said]:
    for said, broker, epoch in (
        ("an earlier registration", 2, 0),
        ("a strange broker", 9, 1 << 60),
    ):
        who = {"broker_id": broker, "broker_epoch": epoch}
        yield f"ControlledShutdown of {said}", 3, who
        yield f"AllocateProducerIds of {said}", 0, who
        topics = [{"topic_id": TOPIC_ID, "partitions": []}]
        yield f"AlterPartition of {said}", 3, {**who, "topics": topics}


def requests() -> Iterator[Said]:
    for group in (_created, _grown, _deleted, _elected, _moved, _of_brokers):
        yield from group()


def cells() -> Iterator[Cell]:
    """Yields two test cases for each request: the request to the controller, and the request to
    another broker."""
    for said in requests():
        yield from there_and_elsewhere("controller", lambda each: each.controller, *said)
