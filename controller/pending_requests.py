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
    """An AlterPartition request that is parked until all its ISR changes are written or rejected.
    ``number`` is the number of its ticket."""

    number: int
    broker_id: int
    answers: list[AlteredPartition | None]
    left: int


@dataclass(slots=True)
class PendingIsrChange:
    """An ISR change that a leader requests."""

    change: IsrChange
    request: AlterRequest
    at: int


@dataclass(slots=True)
class ElectionRequest:
    """Elections that were requested together, by one ElectLeaders call or by one value of the znode
    `/admin/preferred_replica_election`."""

    number: int | None
    """The number of the parked ticket; None if a znode requested the elections. This znode is
    deleted when all elections are done."""
    all_asked: bool
    left: int
    results: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PendingElection:
    """An election of the preferred replica, or of an unclean leader."""

    cause: Cause
    """PREFERRED or BALANCE to elect the preferred replica, UNCLEAN to elect a replica even if it is
    not in the ISR."""
    request: ElectionRequest | None


@dataclass(slots=True)
class MoveRequest:
    """Reassignments that one AlterPartitionReassignments call requested together."""

    number: int
    left: int
    results: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PendingReassignment:
    """A reassignment of a partition to ``target``. A ``target`` of None cancels the reassignment in
    progress."""

    target: Replicas | None
    request: MoveRequest | None
    """The call that requested the reassignment; None if `/admin/reassign_partitions` requested it.
    """


PendingRequest = PendingIsrChange | PendingElection | PendingReassignment
Answers = Sequence[AlteredPartition]
