"""Requests to broker 1 that validate settings without changing them, and Metadata requests."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.schema import ZERO_UUID
from tests.broker.config_calls import APPEND, BROKER, SET
from tests.broker.config_calls import TOPIC as TOPICS
from tests.cluster_errors.cell import NOWHERE, STRANGE_ID, TOPIC, Cell

_STRANGE = 77
_RESOURCES = {
    "this broker": (BROKER, "1"),
    "another broker": (BROKER, "2"),
    "no broker": (BROKER, "9"),
    "no number": (BROKER, "one"),
    "every broker": (BROKER, ""),
    "a topic": (TOPICS, TOPIC),
    "no such topic": (TOPICS, NOWHERE),
    "no topic's name": (TOPICS, ""),
    "a bad topic's name": (TOPICS, "a/b"),
    "a strange type": (_STRANGE, "x"),
}
_GOOD = {
    BROKER: ("log.cleaner.backoff.ms", "15000"),
    TOPICS: ("retention.ms", "77000"),
    _STRANGE: ("x", "1"),
}
_RATE = "leader.replication.throttled.rate"
_THROTTLED = "follower.replication.throttled.replicas"

Operation = tuple[str, int, str | None]


def _operations(kind: int) -> Iterator[tuple[str, Operation]]:
    key, text = _GOOD[kind]
    yield "a good value", (key, SET, text)
    yield "a bad value", (key, SET, "x")
    yield "a strange setting", ("x.y", SET, "1")
    yield "an operation of lists", (key, APPEND, "1")
    yield "a null", (key, SET, None)
    if kind == BROKER:
        yield "one that is read at the start", ("broker.rack", SET, "r")
        yield "a throttle", (_RATE, SET, "100")
        yield "a throttle below zero", (_RATE, SET, "-1")
    if kind == TOPICS:
        yield "throttled replicas", (_THROTTLED, SET, "0:1,1:2")
        yield "all replicas throttled", (_THROTTLED, SET, "*")
        yield "bad throttled replicas", (_THROTTLED, SET, "0:1,2")


def cells() -> Iterator[Cell]:
    for said, (kind, name) in _RESOURCES.items():
        resource = {"resource_type": kind, "resource_name": name}
        asked = {"resources": [{**resource, "configuration_keys": None}]}
        yield Cell(f"DescribeConfigs of {said}", 4, asked)
        for what, (setting, operation, value) in _operations(kind):
            entry = {"name": setting, "config_operation": operation, "value": value}
            changed = {"resources": [{**resource, "configs": [entry]}], "validate_only": True}
            yield Cell(f"IncrementalAlterConfigs of {said}, {what}", 1, changed)
        key, text = _GOOD[kind]
        entry = {"name": key, "value": text}
        replaced = {"resources": [{**resource, "configs": [entry]}], "validate_only": True}
        yield Cell(f"AlterConfigs of {said}", 2, replaced)
    for said, named in (
        ("no topic", {"topic_id": ZERO_UUID, "name": NOWHERE}),
        ("a bad name", {"topic_id": ZERO_UUID, "name": "a/b"}),
        ("a strange id", {"topic_id": STRANGE_ID, "name": None}),
    ):
        asked = {"topics": [named], "allow_auto_topic_creation": False}
        yield Cell(f"Metadata of {said}", 12, asked)
    for kind, said in ((1, "brokers"), (2, "controllers")):
        yield Cell(f"DescribeCluster of {said}", 1, {"endpoint_type": kind})
    topics = {"topics": [{"name": TOPIC}], "response_partition_limit": 10}
    yield Cell("DescribeTopicPartitions", 0, topics)
