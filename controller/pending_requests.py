"""Requests about one partition that wait while a write of the partition is in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.calls import IsrChange
from controller.events import Cause
from controller.outcome import AlteredPartition
from controller.values import Replicas, TopicPartition


@dataclass(slots=True)
class AlterRequest:
    """An AlterPartition request whose partitions are being written."""

    number: int
    """The number of the parked ticket."""
    broker_id: int
    answers: list[AlteredPartition | None]
    left: int


@dataclass(slots=True)
class PendingIsrChange:
    """An ISR change that a leader requests."""

    change: IsrChange
    request: AlterRequest
    at: int
    """The index of the change in its request."""


@dataclass(slots=True)
class ElectionRequest:
    """Elections that a call or a node requested together."""

    number: int | None
    """The number of the parked ticket; None if a node requested the elections. This node is deleted
    when all elections are done."""
    all_asked: bool
    left: int
    results: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PendingElection:
    """An election of the preferred replica, or of an unclean leader."""

    cause: Cause
    """PREFERRED, BALANCE or UNCLEAN."""
    request: ElectionRequest | None


@dataclass(slots=True)
class MoveRequest:
    """Reassignments that a call requested together."""

    number: int
    left: int
    results: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PendingReassignment:
    """A reassignment of a partition to ``target``; a ``target`` of None cancels the
    reassignment."""

    target: Replicas | None
    request: MoveRequest | None
    """The call that requested the reassignment; None if `/admin/reassign_partitions` requested it.
    """


PendingRequest = PendingIsrChange | PendingElection | PendingReassignment
Answers = Sequence[AlteredPartition]
