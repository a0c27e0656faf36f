"""Requests about one partition, which wait on the partition while a write is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.calls import IsrChange
from controller.events import Cause
from controller.outcome import AlteredPartition
from controller.values import Replicas, TopicPartition


@dataclass(slots=True)
class AlterRequest:
    """An AlterPartition whose partitions are being written."""

    number: int
    """Of the parked ticket."""
    broker_id: int
    answers: list[AlteredPartition | None]
    left: int


@dataclass(slots=True)
class PendingIsrChange:
    """A leader wants another ISR."""

    change: IsrChange
    request: AlterRequest
    at: int
    """Its place in the request."""


@dataclass(slots=True)
class ElectionRequest:
    """Elections that were asked for together, by a call or by a node."""

    number: int | None
    """Of the parked ticket; None: the node asked, and goes when all are done."""
    all_asked: bool
    left: int
    results: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PendingElection:
    """A partition is to be led by its preferred replica, or by an unclean leader."""

    cause: Cause
    """PREFERRED, BALANCE or UNCLEAN."""
    request: ElectionRequest | None


@dataclass(slots=True)
class MoveRequest:
    """Reassignments that were asked for together, by a call."""

    number: int
    left: int
    results: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PendingReassignment:
    """A partition is to have other replicas, or (None) those that it had."""

    target: Replicas | None
    request: MoveRequest | None
    """None: `/admin/reassign_partitions` asks."""


PendingRequest = PendingIsrChange | PendingElection | PendingReassignment
Answers = Sequence[AlteredPartition]
