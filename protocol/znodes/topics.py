"""``/brokers/topics/<topic>``, which contains the assignment of a topic, and the nodes below it,
which contain the state of each partition.

Version 3 of a topic's node adds the topic id (Kafka 2.8, KIP-516). Version 2 adds the replicas that
a reassignment adds and removes (2.4, KIP-455). Version 1 has only the replicas. Kafka before 2.4
and its tools drop newer fields when they rewrite a node. The ZooKeeper version of the node
``state`` is the partition epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol.znodes.fields import Fields, encode

TOPICS = "/brokers/topics"
VERSION = 3
VERSION_BEFORE_IDS = 2
NO_LEADER = -1
_KNOWN = frozenset({"version", "topic_id", "partitions", "adding_replicas", "removing_replicas"})

Assignment = Mapping[int, tuple[int, ...]]
"""Broker ids by partition. The first broker of a partition is the preferred leader."""


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The content of a topic's node."""

    partitions: Assignment
    topic_id: str | None = None
    """The topic id as 22 characters; None if the node contains no topic id."""
    adding: Assignment = field(default_factory=dict)
    """The replicas that a reassignment adds. Only partitions that are being reassigned are keys."""
    removing: Assignment = field(default_factory=dict)
    """The replicas that a reassignment removes. Only partitions that are being reassigned are keys.
    """
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """The fields that a later Kafka has added. They are kept when the node is rewritten."""


@dataclass(frozen=True, slots=True)
class StateNode:
    """The content of a partition's state node."""

    leader: int
    """The id of the leader's broker, or NO_LEADER."""
    leader_epoch: int
    isr: tuple[int, ...]
    """The in-sync replicas. The tuple may be empty, because Kafka 0.10.2 writes empty lists."""
    controller_epoch: int
    recovering: bool = False
    """True if the leader was elected uncleanly and has not recovered yet (Kafka 3.2, KIP-704)."""


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """Returns the path of a partition's node. This node is the parent of the partition's state
    node."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def encode_topic(topic: TopicNode, version: int = VERSION) -> bytes:
    """Returns the data of the node. Version 2 has no topic id."""
    value: dict[str, Any] = {
        "version": version,
        "partitions": _texts(topic.partitions),
        "adding_replicas": _texts(topic.adding),
        "removing_replicas": _texts(topic.removing),
    }
    if version >= VERSION and topic.topic_id is not None:
        value["topic_id"] = topic.topic_id
    return encode(value | dict(topic.unknown))


def decode_topic(name: str, data: bytes) -> TopicNode:
    """Returns the content of a topic's node. Raises BadNode."""
    fields = Fields(topic_path(name), data)
    return TopicNode(
        fields.replicas("partitions"),
        fields.text_or_none("topic_id"),
        fields.replicas("adding_replicas"),
        fields.replicas("removing_replicas"),
        {key: value for key, value in fields.all.items() if key not in _KNOWN},
    )


def encode_state(state: StateNode) -> bytes:
    value: dict[str, Any] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.recovering:
        value["leader_recovery_state"] = 1
    return encode(value)


def decode_state(topic: str, partition: int, data: bytes) -> StateNode:
    """Returns the content of a state node. Raises BadNode."""
    fields = Fields(state_path(topic, partition), data)
    return StateNode(
        fields.number("leader"),
        fields.number("leader_epoch"),
        fields.numbers("isr"),
        fields.number("controller_epoch"),
        fields.number("leader_recovery_state", 0) == 1,
    )


def _texts(assignment: Assignment) -> dict[str, list[int]]:
    return {str(partition): list(ids) for partition, ids in assignment.items()}
