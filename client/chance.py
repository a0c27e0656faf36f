"""The only source of random values, and the clock, of `client/`."""

from __future__ import annotations

import secrets
import time


def fresh_nonce() -> str:
    """Returns a new random nonce of letters and digits."""
    return secrets.token_hex(18)


def fresh_number(bits: int) -> int:
    """A random number of ``bits`` bits."""
    return secrets.randbits(bits)


def monotonic_s() -> float:
    """Returns the monotonic clock in seconds."""
    return time.monotonic()
