"""Totals of transactions: plain numbers, made into series at scrape.

Nothing here knows prometheus. `broker/metrics/transaction_series.py` reads these numbers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from broker.loop.histogram import Histogram
from protocol.slotted import slotted
from transactions.events import (
    Cause,
    EndedPastCoordinator,
    Event,
    TransactionRefused,
    Transition,
)
from transactions.states import State

ABORTING = (Cause.CLIENT, Cause.TIMEOUT, Cause.FENCED, Cause.ADMIN)
"""Why transactions are aborted."""


@slotted
class TransactionTotals:
    """What has happened to transactions since the process began."""

    committed: int = 0
    aborted: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(ABORTING, 0))
    """By cause."""
    completion: Histogram = field(default_factory=Histogram)
    """Milliseconds from the decision to the last marker."""
    refused: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Error code -> requests of transactions that were refused."""
    verification_failures: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Error code -> batches and offsets that were refused: their partition is in no transaction of
    theirs."""

    def observe(self, event: Event) -> None:
        """Count one fact of the core."""
        if isinstance(event, Transition):
            if event.since_prepare_ms >= 0:
                self.completion.add(event.since_prepare_ms)
            elif event.old is State.ONGOING:
                if event.new is State.PREPARE_COMMIT:
                    self.committed += 1
                elif event.new is State.PREPARE_ABORT:
                    self.aborted[event.cause] += 1
        elif isinstance(event, TransactionRefused):
            self.refused[event.error_code] += 1
        elif isinstance(event, EndedPastCoordinator) and not event.committed:
            self.aborted[Cause.ADMIN] += 1
