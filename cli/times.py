"""Times and durations as text: parsing of options and formatting of output.

Every time in output is UTC in ISO 8601 with its zone, so the output of one command means the same
instant in any other, on any machine.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cli import clock
from cli.errors import USAGE, CommandError
from client import spelling

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(wall_ms: int, *, to_the_ms: bool = False) -> str:
    """A time in UTC with its zone; if it is outside the calendar, the number."""
    try:
        when = _EPOCH + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return f"{wall_ms} ms"
    text = when.isoformat(timespec="milliseconds" if to_the_ms else "seconds")
    return text.removesuffix("+00:00") + "Z"


def span(milliseconds: int) -> str:
    """A duration in a readable form."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes = milliseconds / 60_000
    if minutes < 120:
        return f"{minutes:.0f} min"
    hours = minutes / 60
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"


def datetime_ms(text: str, option: str = "--to-datetime") -> int:
    """Milliseconds since 1970 of the time in an option; see `client.spelling`."""
    try:
        return spelling.time_ms(text)
    except spelling.MisspelledError as error:
        raise CommandError(f"{option} {text}: {error}", USAGE) from None


def since_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 of a time, or of a duration before now (90m, P7D)."""
    if spelling.is_duration(text):
        return max(0, clock.now_ms() - duration_ms(text, option))
    return datetime_ms(text, option)


def duration_ms(text: str, option: str = "--by-duration") -> int:
    """Milliseconds of the duration in an option; see `client.spelling`."""
    try:
        return spelling.duration_ms(text)
    except spelling.MisspelledError as error:
        raise CommandError(f"{option} {text}: {error}", USAGE) from None
