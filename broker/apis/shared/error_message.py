"""The error message that accompanies an error code in a response."""

from __future__ import annotations

CHARACTERS_MAX = 1000


def shortened(message: str) -> str:
    """Shortens an error text to CHARACTERS_MAX, since the text may repeat parts of the request."""
    if len(message) <= CHARACTERS_MAX:
        return message
    return message[:CHARACTERS_MAX] + " ..."
