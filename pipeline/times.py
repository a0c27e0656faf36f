"""Formats times for display as UTC in ISO 8601 with the time zone, as all commands of `muster`
do."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(ms: int | None) -> str:
    """Formats a time in ms. A time outside of the calendar is shown as a number."""
    return "-" if ms is None else formed(ms, "%Y-%m-%dT%H:%M:%SZ") or f"{ms} ms"


def formed(ms: int, form: str) -> str:
    """Formats a time in ms as UTC with a strftime format. Returns an empty string for a time
    outside of the calendar."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return ""
