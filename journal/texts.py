"""Shortens the texts that journals keep, and estimates their memory.

Texts come from clients, and ids may be 32 kB long. A journal keeps the start and the end of a long
text.
"""

from __future__ import annotations

from enum import StrEnum
from sys import getsizeof

ID_CHARACTERS = 512
SENTENCE_CHARACTERS = 2048
"""The maximum length of an id and of a sentence in a journal, in characters."""
USUAL_TEXT_BYTES = 100
"""The fixed size of an entry includes this number of bytes for each text. For a longer text, only
the bytes above this number are added."""


class Source(StrEnum):
    """The origin of a journal's entry."""

    SEEN = "seen"
    """This broker process observed the event."""
    KEPT = "kept"
    """An earlier process of this broker observed and saved the event."""
    LOG = "log"
    """No process of this broker observed the event. Records in the log show only the result of the
    event."""


def cut(text: str, at_most: int) -> str:
    """Returns the text. If it is longer than ``at_most``, returns its start and its end, because
    the unique part of an id is often at the end."""
    if len(text) <= at_most:
        return text
    end = (at_most - 3) // 2
    return f"{text[: at_most - 3 - end]}...{text[-end:]}"


def kept_id(text: str) -> str:
    """Returns an id or a client's name, shortened to SENTENCE_CHARACTERS."""
    return text if len(text) <= ID_CHARACTERS else cut(text, ID_CHARACTERS)


def kept_sentence(text: str) -> str:
    """Returns a sentence, shortened to SENTENCE_CHARACTERS."""
    return text if len(text) <= SENTENCE_CHARACTERS else cut(text, SENTENCE_CHARACTERS)


def long_bytes(*texts: str | None) -> int:
    """For each text that needs more than `USUAL_TEXT_BYTES` bytes of memory, counts the bytes above
    this number. Returns the sum over all texts."""
    size = 0
    for text in texts:
        if text is not None and (taken := getsizeof(text)) > USUAL_TEXT_BYTES:
            size += taken - USUAL_TEXT_BYTES
    return size
