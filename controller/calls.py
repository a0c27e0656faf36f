"""Calls: the decoded requests of APIs that the controller serves.

Each ticket gets one reply. A call has no versions or bytes. The core does not inspect ``ticket``,
and returns it with the reply that the call's docstring names (`controller.outcome`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.values import Replicas, TopicPartition

Ticket = Any


class IsrChange(NamedTuple):
    """The new ISR that the leader of one partition requests (KIP-497)."""

    topic: str
    topic_id: bytes | None
    """The id of the topic; None if the request identifies topics by name."""
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Replicas
    broker_epochs: tuple[int, ...] = ()
    """The broker epochs of the ISR members, in v3 and later (KIP-903); -1 for an unknown epoch."""
    recovering: bool = False


@dataclass(slots=True, frozen=True)
class AlterPartition:
    """An AlterPartition request: a leader requests changes of the ISRs of its partitions. The reply
    is an AlterPartitionReply."""

    ticket: Ticket
    broker_id: int
    broker_epoch: int
    changes: Sequence[IsrChange]


@dataclass(slots=True, frozen=True)
class ControlledShutdown:
    """A broker is about to stop. The reply is a ControlledShutdownReply."""

    ticket: Ticket
    broker_id: int
    broker_epoch: int
    """The epoch of the broker that stops; -1 if the request contains no epoch."""


@dataclass(slots=True, frozen=True)
class ElectLeaders:
    """Requests preferred or unclean leader elections. The reply is an ElectLeadersReply."""

    ticket: Ticket
    unclean: bool
    partitions: Sequence[TopicPartition] | None
    """The partitions for which leaders are elected; None means all partitions."""


@dataclass(slots=True, frozen=True)
class AlterReassignments:
    """Reassigns partitions. If the new replicas of a partition are None, its reassignment is
    cancelled. The reply is a ReassignmentsReply."""

    ticket: Ticket
    targets: Mapping[TopicPartition, Sequence[int] | None]


@dataclass(slots=True, frozen=True)
class ListReassignments:
    """Lists the reassignments in progress. The reply is a ListedReassignments."""

    ticket: Ticket
    partitions: Sequence[TopicPartition] | None
    """The partitions to list; None means all partitions."""


@dataclass(slots=True, frozen=True)
class AllocateProducerIds:
    """A broker requests a block of producer ids. The reply is a ProducerIdsReply."""

    ticket: Ticket
    broker_id: int
    broker_epoch: int


Call = (
    AlterPartition
    | ControlledShutdown
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | AllocateProducerIds
)
