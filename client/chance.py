"""The only module of `client/` that reads a clock or creates random values."""

from __future__ import annotations

import secrets
import time


def fresh_nonce() -> str:
    """Returns a new random nonce of letters and digits."""
    return secrets.token_hex(18)


def fresh_number(bits: int) -> int:
    return secrets.randbits(bits)


def monotonic_s() -> float:
    return time.monotonic()
