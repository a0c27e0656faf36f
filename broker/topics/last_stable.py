"""The last stable offset: read_committed consumers read only records before this offset.

The last stable offset is the first offset of the oldest transaction that is open or whose marker is
not stable yet. Without such a transaction, the last stable offset equals the high watermark.
"""

from __future__ import annotations

from log.partition_log import PartitionLog


class LastStable:
    """Computes the last stable offset of one log; callers pass the high watermark."""

    __slots__ = ("_at", "_log", "held")

    def __init__(self, log: PartitionLog, high_watermark: int) -> None:
        self._log = log
        self._at = self.offset(high_watermark)
        """The last stable offset that the last check computed."""
        self.held = bool(log.producers.open_transactions or log.producers.ended)
        """True if a transaction keeps the last stable offset below the high watermark."""

    def offset(self, high_watermark: int) -> int:
        """Returns the last stable offset for the high watermark ``high_watermark``."""
        log = self._log
        stable = min(high_watermark, log.first_unstable_offset)
        ended = log.producers.ended
        if ended:
            log.producers.settle(high_watermark)
            if ended:
                stable = max(min(stable, ended[0][1]), log.log_start_offset)
        return stable

    def moved(self, before: int, high_watermark: int) -> bool:
        """Updates the last stable offset; returns True if the last stable offset has advanced.

        ``before`` is the previous high watermark.
        """
        was_at = self._at if self.held else before
        self._at = self.offset(high_watermark)
        producers = self._log.producers
        self.held = bool(producers.open_transactions or producers.ended)
        return self._at > was_at
