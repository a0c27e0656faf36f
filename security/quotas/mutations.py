"""What one request may change of the topics: partitions that are created or deleted.

A client new enough to be told is refused topic by topic once the bucket is overdrawn; the topic
that overdraws it is done whole. For an older one all is done, and it has to wait afterwards.
Source: KIP-599, Kafka 3.9 ``StrictControllerMutationQuota``, ``PermissiveControllerMutationQuota``.
"""

from __future__ import annotations

from collections.abc import Callable

from security.quotas.token_bucket import TokenBucket


class Mutations:
    """Those of a request that nothing bounds."""

    __slots__ = ()

    def take(self, partitions: int) -> bool:  # noqa: ARG002
        """Whether so many partitions may be created or deleted; they count if so."""
        return True

    @property
    def wait_ms(self) -> int:
        """How long the client must wait now."""
        return 0


UNBOUND = Mutations()


class BoundMutations(Mutations):
    """Those of a request of somebody with a quota; ``now_ms`` is monotonic."""

    __slots__ = ("_is_over", "_is_strict", "_now_ms", "_tokens")

    def __init__(self, tokens: TokenBucket, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._tokens = tokens
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._is_over = False

    def take(self, partitions: int) -> bool:
        """See `Mutations`."""
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
        """See `Mutations`: 0 for one that was refused nothing, though it has overdrawn."""
        return self._tokens.wait_ms(self._now_ms()) if self._is_over else 0
