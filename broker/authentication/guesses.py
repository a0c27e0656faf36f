"""Bounds how fast passwords can be guessed: by address and user name.

After a few failed logins of one name from one address each further login with that name waits for
its turn. It waits before it is judged, so that closing the connection early never makes guessing
faster. A login with another name is judged at once. Only so many names of an address are bounded
each by itself; all further ones share one row of turns, so that trying many names does not help
either. A name that has logged in from the address keeps a row of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

FAILURES_AT_ONCE: Final = 20
"""Failed logins in one row after which the logins that follow wait."""
TURN_MS: Final = 200
"""Time between two turns of a row; a failure is forgotten after as long."""
WAIT_MS_MAX: Final = 8000
NAMES_MAX: Final = 20
"""Failed names of one address with a row of their own, without those that have logged in."""
NAME_KEPT_MS: Final = 60_000
"""How long a name counts towards `NAMES_MAX` after its failures are forgotten."""
ADDRESSES_MAX: Final = 10_000
"""Addresses with failures; the one that failed longest ago is forgotten first."""
LET_IN_MAX: Final = 10_000
"""Names that have logged in, of all addresses; the one idle longest is forgotten first."""
_OTHERS: Final = b""
"""The row of all names of an address that have none of their own."""


class Guesses:
    """Shared by all listeners of one broker and by HTTP."""

    def __init__(self) -> None:
        self._clear_ms: OrderedDict[str, dict[bytes, int]] = OrderedDict()
        """By address and row, when all failures of the row are forgotten: each adds a turn."""
        self._let_in: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        """Addresses with the digests of names that have logged in from there."""

    def __len__(self) -> int:
        return len(self._clear_ms)

    def wait_ms(self, address: str, name: str, now_ms: int, *, may_wait: bool = True) -> int | None:
        """Takes a turn for a login and returns how long it waits for it before it is judged.

        None if that is too long, or if it ``may_wait`` for nothing: it takes no turn and is
        refused unjudged.
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
        """Counts a login that was let in or has failed."""
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
        # However many were judged at the same time: after the next turn a login may wait again.
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
    """A name takes as much memory as any other, and a token that was tried is not kept."""
    return blake2b(name.encode(errors="replace"), digest_size=16).digest()
