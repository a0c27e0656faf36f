"""The error message that accompanies an error code in a response."""

from __future__ import annotations

CHARACTERS_MAX = 1000


def shortened(message: str) -> str:
    """An error's text as an answer can hold it, whatever of the request it repeats."""
    if len(message) <= CHARACTERS_MAX:
        return message
    return message[:CHARACTERS_MAX] + " ..."
