"""The bucket of permits for changes that the controller makes: partitions created and deleted.

Permits come at the allowed rate, and as many are kept as come in all windows together. Whoever
finds the bucket not overdrawn may take as many as it needs, and so overdraws it once. Source:
KIP-599, Kafka 3.9 ``TokenBucket``, ``ControllerMutationQuotaManager``.
"""

from __future__ import annotations


class TokenBucket:
    """One entity's permits. Times are monotonic."""

    __slots__ = ("_now_ms", "_permits", "_rate", "_windows_s")

    def __init__(
        self, windows: int, window_ms: int, permits_per_second: float, now_ms: int
    ) -> None:
        self._windows_s = windows * window_ms / 1000
        self._rate = permits_per_second
        self._permits = self._burst
        self._now_ms = now_ms

    @property
    def _burst(self) -> float:
        return self._rate * self._windows_s

    def configure(self, permits_per_second: float, now_ms: int) -> None:
        """From now on permits come at another rate."""
        self._fill(now_ms)
        self._rate = permits_per_second
        self._permits = min(self._permits, self._burst)

    def permits(self, now_ms: int) -> float:
        """How many there are; below 0 when too many were taken."""
        self._fill(now_ms)
        return self._permits

    def take(self, permits: float, now_ms: int) -> bool:
        """Takes so many unless the bucket is overdrawn already; False then."""
        if self.permits(now_ms) < 0:
            return False
        self._permits -= permits
        return True

    def force(self, permits: float, now_ms: int) -> None:
        """Takes so many in any case: for clients too old to be told that they may not."""
        self._fill(now_ms)
        self._permits -= permits

    def wait_ms(self, now_ms: int) -> int:
        """How long until the bucket is not overdrawn any more."""
        permits = self.permits(now_ms)
        return 0 if permits >= 0 else round(-permits * 1000 / self._rate)

    def _fill(self, now_ms: int) -> None:
        came = (now_ms - self._now_ms) / 1000 * self._rate
        self._permits = min(self._burst, self._permits + came)
        self._now_ms = now_ms
