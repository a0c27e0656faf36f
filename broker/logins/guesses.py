"""Guessing passwords is bounded by address: beyond a few failures, each try waits for its turn.

A try is held back before it is judged: else whoever closes a connection that is not let in at once
could guess as fast as connections open. Others behind the same address wait in the same row; other
addresses do not.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

FAILURES_AT_ONCE: Final = 20
"""Failed logins from one address after which the tries that follow wait."""
TURN_MS: Final = 200
"""Between two turns of such an address; a failure is forgotten after as long."""
WAIT_MS_MAX: Final = 8000
ADDRESSES_MAX: Final = 10_000
"""Addresses that are remembered; those that failed longest ago go first."""


def network_of(host: str) -> str:
    """Whom an address is counted with: itself; of IPv6 all that share its first 64 bits."""
    groups = host.split(":")
    return ":".join(groups[:4]) if len(groups) > 4 else host


class Guesses:
    """Of all listeners of one broker."""

    def __init__(self) -> None:
        self._clear_ms: OrderedDict[str, int] = OrderedDict()
        """By address, when all its failures are forgotten: each adds a turn."""

    def __len__(self) -> int:
        return len(self._clear_ms)

    def wait_ms(self, address: str, now_ms: int) -> int | None:
        """How long the next try from an address waits until it is judged; it takes that turn.

        None where that is too long: it takes none then, and is refused.
        """
        clear_ms = self._clear_ms.get(address)
        if clear_ms is None:
            return 0
        wait_ms = clear_ms - now_ms - FAILURES_AT_ONCE * TURN_MS
        if wait_ms <= 0:
            return 0
        if wait_ms > WAIT_MS_MAX:
            return None
        self._clear_ms[address] = clear_ms + TURN_MS
        return wait_ms

    def failed(self, address: str, now_ms: int) -> None:
        """A login from an address has failed."""
        clear_ms = max(self._clear_ms.pop(address, now_ms), now_ms) + TURN_MS
        # However many were judged at the same time: with the next turn somebody may wait again.
        latest_ms = now_ms + (FAILURES_AT_ONCE + 1) * TURN_MS + WAIT_MS_MAX
        self._clear_ms[address] = min(clear_ms, latest_ms)
        if len(self._clear_ms) > ADDRESSES_MAX:
            self._clear_ms.popitem(last=False)
