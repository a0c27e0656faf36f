"""Formats times for display: UTC in ISO 8601 with its zone, as `muster` prints every time."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(ms: int | None) -> str:
    """Format a time in ms; a time outside the calendar is shown as a number."""
    return "-" if ms is None else formed(ms, "%Y-%m-%dT%H:%M:%SZ") or f"{ms} ms"


def formed(ms: int, form: str) -> str:
    """Format a time in UTC by a strftime format; return an empty text for a time outside the
    calendar."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return ""
