"""Grants or rejects requested changes. A change begins only when no other write of its partition is
in flight."""

from __future__ import annotations

from controller import isr_changes, reassignments, requested_elections
from controller.change import Change
from controller.partition import Partition
from controller.pending_requests import (
    PendingElection,
    PendingIsrChange,
    PendingReassignment,
    PendingRequest,
)
from controller.work import Work


def next_granted(work: Work, partition: Partition) -> Change | None:
    """Returns the change of the first request that needs a write, and replies to the requests
    before it; None if no request can proceed."""
    pending_requests = partition.pending_requests
    while pending_requests:
        if isinstance(pending_requests[0], PendingReassignment) and not reassignments.may_begin(
            partition
        ):
            return None
        pending = pending_requests.popleft()
        if isinstance(pending, PendingIsrChange):
            change = isr_changes.checked(work, partition, pending)
        elif isinstance(pending, PendingElection):
            change = requested_elections.checked(work, partition, pending)
        else:
            change = reassignments.checked(work, partition, pending)
        if change is not None:
            return change
    return None


def granted(work: Work, partition: Partition, pending: PendingRequest) -> None:
    """Completes a request whose change is written."""
    if isinstance(pending, PendingIsrChange):
        isr_changes.granted(work, partition, pending)
    elif isinstance(pending, PendingElection):
        requested_elections.granted(work, partition, pending)
    else:
        reassignments.begin(work, partition, pending)


def moved(work: Work, partition: Partition, change: Change) -> None:
    """Continues a reassignment after one of its steps is written."""
    reassignments.moved(work, partition, change)


def refuse_all(work: Work, partition: Partition) -> None:
    """Rejects all requests about a partition that is deleted or being deleted."""
    while partition.pending_requests:
        pending = partition.pending_requests.popleft()
        if isinstance(pending, PendingIsrChange):
            isr_changes.refuse_gone(work, pending)
        elif isinstance(pending, PendingElection):
            requested_elections.refuse_gone(work, partition, pending)
        else:
            reassignments.refuse_gone(work, partition, pending)
