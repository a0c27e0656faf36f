"""Removes the warnings about a busy machine from captured log lines, because such a warning can
appear in any test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OF_THE_MACHINE = (
    "event loop blocked",
    "broker was paused, all deadlines extended",
)


def said(lines: Iterable[Any]) -> list[Any]:
    """Returns the captured log lines, without warnings about a busy machine."""
    return [line for line in lines if line["event"] not in OF_THE_MACHINE]


def said_aloud(lines: Iterable[str]) -> list[str]:
    """Returns the printed log lines, without warnings about a busy machine."""
    return [line for line in lines if not any(each in line for each in OF_THE_MACHINE)]
