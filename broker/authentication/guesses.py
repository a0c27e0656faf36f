"""Bounds the rate of password guesses, by address and user name.

After `FAILURES_AT_ONCE` failed logins of a name from an address, further logins with that name wait
for a turn. A login waits before its password is checked, so that an early close of the connection
does not make guessing faster. A login with another name is checked immediately. The first
`NAMES_MAX` failed names of an address have a separate queue of turns each; all further names share
one queue, so that trying many names is not faster either. A name that has logged in from the
address retains a separate queue.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

FAILURES_AT_ONCE: Final = 20
"""The number of failed logins in one queue; when a queue has reached this number, further logins
wait."""
TURN_MS: Final = 200
"""The interval in ms between two turns of a queue; also the time after which one failure is
forgotten."""
WAIT_MS_MAX: Final = 8000
NAMES_MAX: Final = 20
"""Maximum number of failed names per address with a separate queue, in addition to names that have
logged in."""
NAME_KEPT_MS: Final = 60_000
"""Milliseconds for which a name counts towards `NAMES_MAX` after all its failures were forgotten.
"""
ADDRESSES_MAX: Final = 10_000
"""Maximum number of remembered addresses with failures; the earliest failures are dropped first."""
LET_IN_MAX: Final = 10_000
"""Maximum number of remembered names that have logged in, over all addresses; the name that has
been idle longest is dropped first."""
_OTHERS: Final = b""
"""The queue shared by all names of an address that have no separate queue."""


class Guesses:
    """The failed logins at all listeners of one broker, including HTTP."""

    def __init__(self) -> None:
        self._clear_ms: OrderedDict[str, dict[bytes, int]] = OrderedDict()
        """The time at which all failures of a queue are forgotten, by address and queue; each
        failure adds `TURN_MS`."""
        self._let_in: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        """Pairs of a client address and the digest of a user name that has logged in from this
        address."""

    def __len__(self) -> int:
        return len(self._clear_ms)

    def wait_ms(self, address: str, name: str, now_ms: int, *, may_wait: bool = True) -> int | None:
        """Reserves a turn for a login; returns the milliseconds to wait before the password is
        checked.

        Returns None if the wait would be too long, or if the login can't wait (``may_wait`` is
        False). Then no turn is reserved, and the login is rejected without a check.
        """
        rows = self._clear_ms.get(address)
        if rows is None:
            return 0
        row = self._row(address, _digest(name), rows)
        clear_ms = rows.get(row, now_ms)
        wait_ms = clear_ms - now_ms - FAILURES_AT_ONCE * TURN_MS
        if wait_ms <= 0:
            return 0
        if wait_ms > WAIT_MS_MAX or not may_wait:
            return None
        rows[row] = clear_ms + TURN_MS
        return wait_ms

    def judged(self, address: str, name: str, now_ms: int, *, is_right: bool) -> None:
        """Records a login whose password was checked; ``is_right`` is the result of the check."""
        digest = _digest(name)
        if is_right:
            self._let_in[address, digest] = None
            self._let_in.move_to_end((address, digest))
            if len(self._let_in) > LET_IN_MAX:
                self._let_in.popitem(last=False)
            return
        rows = {
            row: clear_ms
            for row, clear_ms in self._clear_ms.pop(address, {}).items()
            if clear_ms + NAME_KEPT_MS > now_ms
        }
        row = self._row(address, digest, rows)
        clear_ms = max(rows.get(row, now_ms), now_ms) + TURN_MS
        # This bounds the failures of concurrent logins: after the next turn a login may wait again.
        latest_ms = now_ms + (FAILURES_AT_ONCE + 1) * TURN_MS + WAIT_MS_MAX
        rows[row] = min(clear_ms, latest_ms)
        self._clear_ms[address] = rows
        if len(self._clear_ms) > ADDRESSES_MAX:
            self._clear_ms.popitem(last=False)

    def _row(self, address: str, digest: bytes, rows: dict[bytes, int]) -> bytes:
        if digest in rows or (address, digest) in self._let_in:
            return digest
        return digest if len(rows) - (_OTHERS in rows) < NAMES_MAX else _OTHERS


def _digest(name: str) -> bytes:
    """Returns a digest of fixed size, so that a long name costs no more memory and no token is
    stored."""
    return blake2b(name.encode(errors="replace"), digest_size=16).digest()
