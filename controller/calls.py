"""Calls: the decoded requests of APIs that the controller serves. Each ticket gets one reply.

A call has no versions or bytes. ``ticket`` is opaque to the core, which returns it with the reply
that the docstring names (`controller.outcome`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.values import Replicas, TopicPartition

Ticket = Any


class IsrChange(NamedTuple):
    """The ISR that the leader of one partition requests (KIP-497)."""

    topic: str
    topic_id: bytes | None
    """None: the request names its topics."""
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Replicas
    broker_epochs: tuple[int, ...] = ()
    """The broker epochs of the ISR's members, since v3 (KIP-903); -1: unknown."""
    recovering: bool = False


@dataclass(slots=True, frozen=True)
class AlterPartition:
    """A leader asks for changes of ISRs. -> AlterPartitionReply"""

    ticket: Ticket
    broker_id: int
    broker_epoch: int
    changes: Sequence[IsrChange]


@dataclass(slots=True, frozen=True)
class ControlledShutdown:
    """A broker is about to stop. -> ControlledShutdownReply"""

    ticket: Ticket
    broker_id: int
    broker_epoch: int
    """-1: the request has none."""


@dataclass(slots=True, frozen=True)
class ElectLeaders:
    """Leaders are to be elected, the preferred ones or unclean. -> ElectLeadersReply"""

    ticket: Ticket
    unclean: bool
    partitions: Sequence[TopicPartition] | None
    """None: all."""


@dataclass(slots=True, frozen=True)
class AlterReassignments:
    """Partitions get new replicas, or (None) keep those that they had. -> ReassignmentsReply"""

    ticket: Ticket
    targets: Mapping[TopicPartition, Sequence[int] | None]


@dataclass(slots=True, frozen=True)
class ListReassignments:
    """Which partitions are being reassigned. -> ListedReassignments"""

    ticket: Ticket
    partitions: Sequence[TopicPartition] | None
    """None: all."""


@dataclass(slots=True, frozen=True)
class AllocateProducerIds:
    """A broker needs a block of producer ids. -> ProducerIdsReply"""

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
