"""Requests to brokers, without versions: the edge makes the message that the IBP says.

A step sends each broker at most one of each, in the order LeaderAndIsr,
UpdateMetadata, StopReplica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.values import BrokerFact, Replicas


class ToldPartition(NamedTuple):
    """The state of one partition in LeaderAndIsr."""

    partition: int
    controller_epoch: int
    """That of the controller that wrote the state."""
    leader: int
    leader_epoch: int
    isr: Replicas
    partition_epoch: int
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    recovering: bool
    is_new: bool


class ToldTopic(NamedTuple):
    """The partitions of one topic in LeaderAndIsr."""

    name: str
    topic_id: bytes | None
    partitions: Sequence[ToldPartition]


class LeaderAndIsrRequest(NamedTuple):
    """The leader, ISR and epochs of the replicas of one broker."""

    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    topics: Sequence[ToldTopic]
    live_leaders: Sequence[BrokerFact]


class ShownPartition(NamedTuple):
    """One partition in UpdateMetadata."""

    partition: int
    controller_epoch: int
    leader: int
    """-1: none; -2: its topic is being deleted."""
    leader_epoch: int
    isr: Replicas
    partition_epoch: int
    replicas: Replicas
    offline: Replicas


class ShownTopic(NamedTuple):
    """The partitions of one topic in UpdateMetadata."""

    name: str
    topic_id: bytes | None
    partitions: Sequence[ShownPartition]


class UpdateMetadataRequest(NamedTuple):
    """All brokers, and the partitions that changed."""

    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    brokers: Sequence[BrokerFact]
    """All live ones, those that are shutting down too."""
    topics: Sequence[ShownTopic]


class StoppedPartition(NamedTuple):
    """One replica in StopReplica."""

    partition: int
    leader_epoch: int
    """-1: not known; -2: its topic is being deleted."""
    delete: bool


class StoppedTopic(NamedTuple):
    """The replicas of one topic in StopReplica."""

    name: str
    partitions: Sequence[StoppedPartition]


class StopReplicaRequest(NamedTuple):
    """Replicas that a broker is to stop, and perhaps to delete."""

    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    topics: Sequence[StoppedTopic]


Send = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
