"""Counts the events of cores, and conversions of records, in plain numbers. Each scrape converts
them to series.

This module does not import prometheus_client. broker/metrics/exposition.py reads its numbers, and
those of the server, the shards and the logs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from broker.loop.histogram import Histogram, Writes
from coordinator.classic.states import State
from coordinator.consumer.events import EpochBumped
from coordinator.events import (
    CommitRejected,
    Event,
    GenerationFormed,
    JoinRefused,
    OffsetsExpired,
    OffsetsMovedBack,
    TransactionalOffsets,
    Transition,
)
from protocol.now import Now
from protocol.slotted import slotted
from transactions.events import Cause, EndedPastCoordinator, TransactionRefused
from transactions.events import Event as TransactionEvent
from transactions.events import Transition as TransactionTransition
from transactions.states import State as TransactionState

REBALANCING = State.PREPARING_REBALANCE.value
SYNCING = State.AWAITING_SYNC.value
STABLE = State.STABLE.value

ABORTING = (Cause.CLIENT, Cause.TIMEOUT, Cause.FENCED, Cause.ADMIN)
"""The causes of aborted transactions."""


@slotted
class TransactionTotals:
    """Totals of transactions since the process began."""

    committed: int = 0
    aborted: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(ABORTING, 0))
    """The number of aborted transactions by cause."""
    completion: Histogram = field(default_factory=Histogram)
    """A histogram of the times in milliseconds from the Prepare state of a transaction to its last
    marker."""
    refused: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The number of rejected transactional requests, by error code."""
    verification_failures: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The number of batches and offset commits of transactional producers that were rejected
    because the partition had not been added to the transaction, by error code."""

    def observe(self, event: TransactionEvent) -> None:
        if isinstance(event, TransactionTransition):
            if event.since_prepare_ms >= 0:
                self.completion.add(event.since_prepare_ms)
            elif event.old is TransactionState.ONGOING:
                if event.new is TransactionState.PREPARE_COMMIT:
                    self.committed += 1
                elif event.new is TransactionState.PREPARE_ABORT:
                    self.aborted[event.cause] += 1
        elif isinstance(event, TransactionRefused):
            self.refused[event.error_code] += 1
        elif isinstance(event, EndedPastCoordinator) and not event.committed:
            self.aborted[Cause.ADMIN] += 1


@slotted
class Metrics:
    """Totals of groups and transactions since the process began."""

    rebalances: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of rebalances that began, by cause."""
    generations: int = 0
    """The number of join phases that ended with at least one member."""
    join_phase_ms: int = 0
    """The total duration in ms of the join phases that ``generations`` counts."""
    phases: dict[str, Histogram] = field(
        default_factory=lambda: {"join": Histogram(), "sync": Histogram()}
    )
    """The durations in milliseconds of the two phases of completed rebalances."""
    writes: Writes = field(default_factory=Writes)
    """The durations and sizes of appends by producers, and the durations of their fsyncs."""
    offsets_writes: Writes = field(default_factory=Writes)
    """The durations and sizes of appends to ``__consumer_offsets``, and the durations of their
    fsyncs."""
    transaction_writes: Writes = field(default_factory=Writes)
    """The durations and sizes of appends to ``__transaction_state``, and the durations of their
    fsyncs."""
    share_state_writes: Writes = field(default_factory=Writes)
    """The durations and sizes of appends to ``__share_group_state``, and the durations of their
    fsyncs."""
    commits_rejected: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The number of OffsetCommit requests of which at least a part was rejected, by error code."""
    joins_refused: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The number of rejected JoinGroup requests, by error code."""
    commits_moved_back: int = 0
    """The number of OffsetCommit requests that moved an offset back."""
    offsets_removed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of committed offsets that were removed, by cause: they expired or were deleted."""
    transactional_offsets: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    """The number of offsets that were pending in a transaction when it ended. The key is True for
    committed and False for aborted transactions."""
    fetch_conversions: int = 0
    """The number of records that were converted to an older format for a consumer."""
    produce_conversions: int = 0
    """The number of records that were stored in another format than the producer had sent."""

    transactions: TransactionTotals = field(default_factory=TransactionTotals)

    _syncing: dict[str, int] = field(default_factory=dict)
    """The monotonic time in milliseconds at which the sync phase began, for each group in this
    phase."""

    def observe(self, event: Event, now: Now) -> None:
        if isinstance(event, Transition):
            self._moved(event, now.mono_ms)
        elif isinstance(event, GenerationFormed):
            self.generations += 1
            self.join_phase_ms += event.join_ms
            self.phases["join"].add(max(0, event.join_ms))
        elif isinstance(event, EpochBumped):
            self.rebalances[event.cause] += 1
        elif isinstance(event, CommitRejected):
            self.commits_rejected[event.error_code] += 1
        elif isinstance(event, JoinRefused):
            self.joins_refused[event.error_code] += 1
        elif isinstance(event, OffsetsMovedBack):
            self.commits_moved_back += 1
        elif isinstance(event, OffsetsExpired):
            self.offsets_removed[event.cause] += event.offsets
        elif isinstance(event, TransactionalOffsets):
            self.transactional_offsets[event.committed] += event.offsets

    def _moved(self, event: Transition, mono_ms: int) -> None:
        since_ms = self._syncing.pop(event.group_id, None)
        if event.new_state == REBALANCING:
            self.rebalances[event.cause] += 1
        elif event.new_state == SYNCING:
            self._syncing[event.group_id] = mono_ms
        elif event.new_state == STABLE and since_ms is not None:
            self.phases["sync"].add(mono_ms - since_ms)
