"""What a broker says of what happened, without what a busy machine has it say at any time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OF_THE_MACHINE = (
    "event loop blocked",
    "broker was paused, all deadlines extended",
)


def said(lines: Iterable[Any]) -> list[Any]:
    """Captured lines; those of the machine are left out."""
    return [line for line in lines if line["event"] not in OF_THE_MACHINE]


def said_aloud(lines: Iterable[str]) -> list[str]:
    """The same of printed lines."""
    return [line for line in lines if not any(each in line for each in OF_THE_MACHINE)]
