"""Starts the requested changes of a partition: ISR changes, elections and reassignments. A change
starts only when no other write of the partition's state is in flight."""

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
    """Handles the pending requests of a partition, in order, until one of them needs a write.
    Returns the change to write. Replies at once to requests that need no write. Returns None if no
    pending request needs a write, or if the next pending request must wait."""
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
    """Continues a pending request (an ISR change, an election or a reassignment) after the write
    that the request needed has succeeded."""
    if isinstance(pending, PendingIsrChange):
        isr_changes.granted(work, partition, pending)
    elif isinstance(pending, PendingElection):
        requested_elections.granted(work, partition, pending)
    else:
        reassignments.begin(work, partition, pending)


def moved(work: Work, partition: Partition, change: Change) -> None:
    """Continues a reassignment. Called when the partition's state znode contains the last step of
    the reassignment."""
    reassignments.moved(work, partition, change)


def refuse_all(work: Work, partition: Partition) -> None:
    """Rejects all requests that wait for a partition whose topic is deleted or being deleted."""
    while partition.pending_requests:
        pending = partition.pending_requests.popleft()
        if isinstance(pending, PendingIsrChange):
            isr_changes.refuse_gone(work, pending)
        elif isinstance(pending, PendingElection):
            requested_elections.refuse_gone(work, partition, pending)
        else:
            reassignments.refuse_gone(work, partition, pending)
