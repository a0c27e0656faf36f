"""A bucket of permits for partitions that the controller creates and deletes.

Permits accrue at the allowed rate. The bucket is full when it has the permits that accrue in the
time span of all windows. While the bucket is not overdrawn, a request may take any number of
permits, and may therefore overdraw the bucket once. Source: KIP-599, Kafka 3.9 ``TokenBucket``,
``ControllerMutationQuotaManager``.
"""

from __future__ import annotations


class TokenBucket:
    """The token bucket of one quota entity: the permits that the entity may still use. Times are
    monotonic."""

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
        """Changes the rate at which permits accrue."""
        self._fill(now_ms)
        self._rate = permits_per_second
        self._permits = min(self._permits, self._burst)

    def permits(self, now_ms: int) -> float:
        """Returns the number of permits. It is negative if the bucket is overdrawn."""
        self._fill(now_ms)
        return self._permits

    def take(self, permits: float, now_ms: int) -> bool:
        """Takes permits. If the bucket is overdrawn, returns False and takes none."""
        if self.permits(now_ms) < 0:
            return False
        self._permits -= permits
        return True

    def force(self, permits: float, now_ms: int) -> None:
        """Takes permits even if the bucket is overdrawn, for clients that are too old to understand
        a rejection."""
        self._fill(now_ms)
        self._permits -= permits

    def wait_ms(self, now_ms: int) -> int:
        """Returns the time in ms until the bucket is no longer overdrawn."""
        permits = self.permits(now_ms)
        return 0 if permits >= 0 else round(-permits * 1000 / self._rate)

    def _fill(self, now_ms: int) -> None:
        came = (now_ms - self._now_ms) / 1000 * self._rate
        self._permits = min(self._burst, self._permits + came)
        self._now_ms = now_ms
