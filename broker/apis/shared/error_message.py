"""Shortens the error message that accompanies an error code in a response."""

from __future__ import annotations

CHARACTERS_MAX = 1000


def shortened(message: str) -> str:
    """Shortens an error message to CHARACTERS_MAX, because the message may repeat parts of the
    request."""
    if len(message) <= CHARACTERS_MAX:
        return message
    return message[:CHARACTERS_MAX] + " ..."
