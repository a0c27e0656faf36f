"""The quota of partitions that requests may create or delete.

For a client that understands THROTTLING_QUOTA_EXCEEDED, topics are rejected when the bucket is
overdrawn; the topic that overdraws the bucket is still created or deleted. For an older client all
topics are created or deleted, and the client is throttled afterwards. Source: KIP-599, Kafka 3.9
``StrictControllerMutationQuota``, ``PermissiveControllerMutationQuota``.
"""

from __future__ import annotations

from collections.abc import Callable

from security.quotas.token_bucket import TokenBucket


class Mutations:
    """The created and deleted partitions of a request without a quota."""

    __slots__ = ()

    def take(self, partitions: int) -> bool:  # noqa: ARG002
        """Returns whether ``partitions`` partitions may be created or deleted; if so, counts
        them."""
        return True

    @property
    def wait_ms(self) -> int:
        """Returns the throttle time for the client, in milliseconds."""
        return 0


UNBOUND = Mutations()


class BoundMutations(Mutations):
    """The created and deleted partitions of a request with a quota; ``now_ms`` is monotonic."""

    __slots__ = ("_is_over", "_is_strict", "_now_ms", "_tokens")

    def __init__(self, tokens: TokenBucket, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._tokens = tokens
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._is_over = False

    def take(self, partitions: int) -> bool:
        """Implements Mutations.take."""
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
        """Implements Mutations.wait_ms. Returns 0 if no partition was rejected, even if the bucket
        is overdrawn."""
        return self._tokens.wait_ms(self._now_ms()) if self._is_over else 0
