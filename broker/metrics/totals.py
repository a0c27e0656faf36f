"""Totals of the core's events and of conversions: plain numbers, made into series at scrape.

Nothing here knows prometheus. `broker/metrics/exposition.py` reads these numbers and those of the
server's routes, the shards and the logs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from broker.loop.histogram import Histogram, Writes
from broker.metrics.transaction_totals import TransactionTotals
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
from coordinator.states import State
from protocol.now import Now
from protocol.slotted import slotted

REBALANCING = State.PREPARING_REBALANCE.value
SYNCING = State.AWAITING_SYNC.value
STABLE = State.STABLE.value


@slotted
class Metrics:
    """What has happened to groups and transactions since the process began."""

    rebalances: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Cause -> rebalances begun."""
    generations: int = 0
    """Join phases that ended with members."""
    join_phase_ms: int = 0
    """Time spent in those join phases."""
    phases: dict[str, Histogram] = field(
        default_factory=lambda: {"join": Histogram(), "sync": Histogram()}
    )
    """Milliseconds of each phase of a rebalance that ended as it should."""
    writes: Writes = field(default_factory=Writes)
    """What producers' appends cost, and their flushes."""
    offsets_writes: Writes = field(default_factory=Writes)
    """The same of the offsets topic."""
    transaction_writes: Writes = field(default_factory=Writes)
    """The same of ``__transaction_state``."""
    commits_rejected: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Error code -> OffsetCommits refused, as a whole or for their metadata."""
    joins_refused: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Error code -> JoinGroups refused."""
    commits_moved_back: int = 0
    """OffsetCommits that set an offset lower than it was."""
    offsets_removed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Cause -> offsets dropped by retention or by deletion."""
    transactional_offsets: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    """Whether their transaction was committed -> offsets that waited for its end."""
    fetch_conversions: int = 0
    """Records given to old clients in a form older than the log's."""
    produce_conversions: int = 0
    """Records stored in another form than they came in."""

    transactions: TransactionTotals = field(default_factory=TransactionTotals)

    _syncing: dict[str, int] = field(default_factory=dict)
    """Groups that wait for an assignment, and since when (monotonic milliseconds)."""

    def observe(self, event: Event, now: Now) -> None:
        """Count one fact of the core."""
        if isinstance(event, Transition):
            self._moved(event, now.mono_ms)
        elif isinstance(event, GenerationFormed):
            self.generations += 1
            self.join_phase_ms += event.join_ms
            self.phases["join"].add(max(0, event.join_ms))
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
