"""Chance, and the clock: nothing else in `client/` has any."""

from __future__ import annotations

import secrets
import time


def fresh_nonce() -> str:
    """Letters and digits that nobody can guess."""
    return secrets.token_hex(18)


def fresh_number(bits: int) -> int:
    """A random one of so many bits."""
    return secrets.randbits(bits)


def monotonic_s() -> float:
    """Seconds since some moment."""
    return time.monotonic()
