"""The quota for the number of partitions that requests create or delete.

If the client understands THROTTLING_QUOTA_EXCEEDED, its topics are rejected while the bucket of
permits is overdrawn. The topic that overdraws the bucket is not rejected. For an older client, all
topics are created or deleted, and the client is throttled afterwards. Source: KIP-599, Kafka 3.9
``StrictControllerMutationQuota``, ``PermissiveControllerMutationQuota``.
"""

from __future__ import annotations

from collections.abc import Callable

from security.quotas.token_bucket import TokenBucket


class Mutations:
    """Accepts all partitions that a request creates or deletes, because no quota applies."""

    __slots__ = ()

    def take(self, partitions: int) -> bool:  # noqa: ARG002
        """If the quota allows this number of partitions to be created or deleted now, counts them
        and returns True. Otherwise returns False."""
        return True

    @property
    def wait_ms(self) -> int:
        """The throttle time of the client in ms."""
        return 0


UNBOUND = Mutations()


class BoundMutations(Mutations):
    """Applies a quota to the number of partitions that a request creates or deletes. ``now_ms``
    returns monotonic time."""

    __slots__ = ("_is_over", "_is_strict", "_now_ms", "_tokens")

    def __init__(self, tokens: TokenBucket, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._tokens = tokens
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._is_over = False

    def take(self, partitions: int) -> bool:
        now_ms = self._now_ms()
        if not self._is_strict:
            self._tokens.force(partitions, now_ms)
            self._is_over = True
            return True
        taken = self._tokens.take(partitions, now_ms)
        self._is_over = self._is_over or not taken
        return taken

    @property
    def wait_ms(self) -> int:
        """The throttle time of the client in ms. It is 0 if no partition was rejected, even if the
        bucket is overdrawn."""
        return self._tokens.wait_ms(self._now_ms()) if self._is_over else 0
