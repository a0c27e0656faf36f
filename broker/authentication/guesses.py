"""Limits the rate of password guesses, by client address and user name.

Failed logins are counted in queues. After `FAILURES_AT_ONCE` failed logins of a name from an
address, further logins with that name are delayed: the broker checks one of them every `TURN_MS`.
The delay is before the check of the password, so that closing the connection early does not make
guessing faster. Logins with other names are checked at once.

The first `NAMES_MAX` names whose logins from an address fail have a queue each. All further names
of this address share one queue, so that trying many names is not faster either. A name that has
logged in from the address always has its own queue.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

FAILURES_AT_ONCE: Final = 20
"""The number of failed logins in one queue, usually of one user name from one address, after which
further logins of this queue must wait."""
TURN_MS: Final = 200
"""The interval in ms of a queue of delayed logins. In each interval the broker checks one login of
the queue, and forgets one earlier failure."""
WAIT_MS_MAX: Final = 8000
NAMES_MAX: Final = 20
"""For each address, the maximum number of user names that get their own queue of failed logins.
Names that have already logged in from this address do not count."""
NAME_KEPT_MS: Final = 60_000
"""The time in ms for which a user name still counts towards `NAMES_MAX` after its last failed login
is no longer remembered."""
ADDRESSES_MAX: Final = 10_000
"""The maximum number of addresses with failures that are remembered. The address with the oldest
failure is dropped first."""
LET_IN_MAX: Final = 10_000
"""The maximum number of remembered names that have logged in, over all addresses. The name with the
oldest login is dropped first."""
_OTHERS: Final = b""
"""Each user name of an address has a queue of its own, up to a limit. All further user names of the
address share one queue, which has this key."""


class Guesses:
    """The failed logins at all listeners of one broker, including the HTTP listener."""

    def __init__(self) -> None:
        self._clear_ms: OrderedDict[str, dict[bytes, int]] = OrderedDict()
        """By client address, then by the key of a queue of failed logins (see the docstring of the
        module): the time at which the broker forgets the last failure in the queue. Each failed
        login moves this time `TURN_MS` ms into the future."""
        self._let_in: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        """The client address and the user name (as a digest) of each successful login, the latest
        last."""

    def __len__(self) -> int:
        return len(self._clear_ms)

    def wait_ms(self, address: str, name: str, now_ms: int, *, may_wait: bool = True) -> int | None:
        """Returns the milliseconds for which a login must wait before its password is checked. If
        the login must wait, reserves the next free time for its check.

        Returns None if the login must be rejected without a check: it would wait too long, or it
        can't wait (``may_wait`` is False).
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
        """Notes the result of a password check. ``is_right`` is True if the password was right."""
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
    """Returns a digest of fixed size, so that a long name needs no more memory, and a token sent as
    a name is not stored."""
    return blake2b(name.encode(errors="replace"), digest_size=16).digest()
