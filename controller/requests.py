"""Requests of the controller to brokers, without versions: the host encodes the requests according
to inter.broker.protocol.version. A batch has at most one request of each kind per broker, in the
order LeaderAndIsr, UpdateMetadata, StopReplica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.values import BrokerFact, Replicas


class LeaderAndIsrPartition(NamedTuple):
    """The state of one partition in LeaderAndIsr."""

    partition: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: Replicas
    partition_epoch: int
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    recovering: bool
    is_new: bool


class LeaderAndIsrTopic(NamedTuple):
    """The partitions of one topic in LeaderAndIsr."""

    name: str
    topic_id: bytes | None
    partitions: Sequence[LeaderAndIsrPartition]


class LeaderAndIsrRequest(NamedTuple):
    """LeaderAndIsr for one broker: the leader, the ISR and the epochs of partitions that the broker
    replicates."""

    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    topics: Sequence[LeaderAndIsrTopic]
    live_leaders: Sequence[BrokerFact]


class ShownPartition(NamedTuple):
    """The state of one partition in UpdateMetadata."""

    partition: int
    controller_epoch: int
    leader: int
    """The leader's broker id; -1 for no leader, -2 if the topic is being deleted."""
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
    """UpdateMetadata for one broker: all live brokers, and the partitions that changed."""

    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    brokers: Sequence[BrokerFact]
    """All live brokers, including the brokers that are shutting down."""
    topics: Sequence[ShownTopic]


class StoppedPartition(NamedTuple):
    """One replica in StopReplica."""

    partition: int
    leader_epoch: int
    """The leader epoch; -1 if unknown, -2 if the topic is being deleted."""
    delete: bool


class StoppedTopic(NamedTuple):
    """The replicas of one topic in StopReplica."""

    name: str
    partitions: Sequence[StoppedPartition]


class StopReplicaRequest(NamedTuple):
    """StopReplica for one broker: the replicas to stop, and to delete if ``delete`` is set."""

    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    topics: Sequence[StoppedTopic]


Send = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
