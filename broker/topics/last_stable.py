"""The last stable offset, before which read_committed consumers read. It is the first offset of the
oldest transaction that is open or whose marker is not stable yet. Without such a transaction it
equals the high watermark."""

from __future__ import annotations

from log.partition_log import PartitionLog


class LastStable:
    """Computes the last stable offset of one log. Callers pass the high watermark."""

    __slots__ = ("_at", "_log", "held")

    def __init__(self, log: PartitionLog, high_watermark: int) -> None:
        self._log = log
        self._at = self.offset(high_watermark)
        """The last stable offset that the constructor or `moved` computed last."""
        self.held = bool(log.producers.open_transactions or log.producers.ended)
        """True if a transaction keeps the last stable offset below the high watermark."""

    def offset(self, high_watermark: int) -> int:
        log = self._log
        stable = min(high_watermark, log.first_unstable_offset)
        ended = log.producers.ended
        if ended:
            log.producers.settle(high_watermark)
            if ended:
                stable = max(min(stable, ended[0][1]), log.log_start_offset)
        return stable

    def moved(self, before: int, high_watermark: int) -> bool:
        """Computes the last stable offset again. Returns True if it has advanced. ``before`` is the
        previous high watermark."""
        was_at = self._at if self.held else before
        self._at = self.offset(high_watermark)
        producers = self._log.producers
        self.held = bool(producers.open_transactions or producers.ended)
        return self._at > was_at
