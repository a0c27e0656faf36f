"""The last stable offset: where readers of committed records end.

It is the first offset of the oldest transaction that is open, or whose marker is not stable yet;
without one, the high watermark.
"""

from __future__ import annotations

from log.partition_log import PartitionLog


class LastStable:
    """That of one log, whose high watermark its owner gives."""

    __slots__ = ("_at", "_log", "held")

    def __init__(self, log: PartitionLog, high_watermark: int) -> None:
        self._log = log
        self._at = self.offset(high_watermark)
        """The last stable offset at the last check."""
        self.held = bool(log.producers.open_transactions or log.producers.ended)
        """A transaction holds it back."""

    def offset(self, high_watermark: int) -> int:
        """Where it is now."""
        log = self._log
        stable = min(high_watermark, log.first_unstable_offset)
        ended = log.producers.ended
        if ended:
            log.producers.settle(high_watermark)
            if ended:
                stable = max(min(stable, ended[0][1]), log.log_start_offset)
        return stable

    def moved(self, before: int, high_watermark: int) -> bool:
        """Updates the offset; whether it has risen since the high watermark was ``before``."""
        was_at = self._at if self.held else before
        self._at = self.offset(high_watermark)
        producers = self._log.producers
        self.held = bool(producers.open_transactions or producers.ended)
        return self._at > was_at
