"""What the journals of the pure cores keep of texts, and what that takes.

Texts come from clients, and ids may be 32 kB long: a journal keeps the two ends of each.
"""

from __future__ import annotations

from enum import StrEnum
from sys import getsizeof

ID_CHARACTERS = 512
SENTENCE_CHARACTERS = 2048
"""What is kept of an id and of a sentence."""
USUAL_TEXT_BYTES = 100
"""Of each text; an entry's own size has these, and only what is longer is counted by itself."""


class Source(StrEnum):
    """How an entry of a journal is known."""

    SEEN = "seen"
    """This run of the broker saw it happen."""
    KEPT = "kept"
    """An earlier run did, and wrote it down."""
    LOG = "log"
    """The log holds what came of it, and nobody says why."""


def cut(text: str, at_most: int) -> str:
    """A text as it is, or the two ends of one that is longer: an id's own part is at its end."""
    if len(text) <= at_most:
        return text
    end = (at_most - 3) // 2
    return f"{text[: at_most - 3 - end]}...{text[-end:]}"


def kept_id(text: str) -> str:
    """What is kept of an id, of a client's name or the like."""
    return text if len(text) <= ID_CHARACTERS else cut(text, ID_CHARACTERS)


def kept_sentence(text: str) -> str:
    """What is kept of a sentence."""
    return text if len(text) <= SENTENCE_CHARACTERS else cut(text, SENTENCE_CHARACTERS)


def long_bytes(*texts: str | None) -> int:
    """Bytes of texts beyond the usual."""
    size = 0
    for text in texts:
        if text is not None and (taken := getsizeof(text)) > USUAL_TEXT_BYTES:
            size += taken - USUAL_TEXT_BYTES
    return size
