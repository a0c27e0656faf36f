"""Totals of what the core has told, and of conversions: plain numbers, made into series at scrape.

Nothing here knows prometheus; `broker/exposition.py` reads these numbers beside those that the
server's routes, the shards and the logs keep themselves.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from coordinator.events import (
    CommitRejected,
    Event,
    GenerationFormed,
    OffsetsExpired,
    OffsetsMovedBack,
    Transition,
)
from coordinator.states import State

REBALANCING = State.PREPARING_REBALANCE.value


@dataclass(slots=True)
class Metrics:
    """What has happened to groups since the process began."""

    rebalances: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Cause -> rebalances begun."""
    generations: int = 0
    """Join phases that ended with members."""
    join_phase_ms: int = 0
    """Time spent in those join phases."""
    commits_rejected: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Error code -> OffsetCommits refused as a whole."""
    commits_moved_back: int = 0
    """OffsetCommits that set an offset lower than it was."""
    offsets_removed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Cause -> offsets dropped by retention or by deletion."""
    fetch_conversions: int = 0
    """Records given to old clients in a form older than the log's."""
    produce_conversions: int = 0
    """Records stored in another form than they came in."""

    def observe(self, event: Event) -> None:
        """Count one fact of the core."""
        if isinstance(event, Transition):
            if event.new_state == REBALANCING:
                self.rebalances[event.cause] += 1
        elif isinstance(event, GenerationFormed):
            self.generations += 1
            self.join_phase_ms += event.join_ms
        elif isinstance(event, CommitRejected):
            self.commits_rejected[event.error_code] += 1
        elif isinstance(event, OffsetsMovedBack):
            self.commits_moved_back += 1
        elif isinstance(event, OffsetsExpired):
            self.offsets_removed[event.cause] += event.offsets
