"""Chance: nothing else in `client/` makes any."""

from __future__ import annotations

import secrets


def fresh_nonce() -> str:
    """Letters and digits that nobody can guess."""
    return secrets.token_hex(18)
