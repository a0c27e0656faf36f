"""Parses the times and durations in options, and formats them for output. Every time in the output
is in UTC, in ISO 8601 with a zone, so that it can be passed to another command on any machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cli import clock
from cli.errors import USAGE, CommandError
from client import spelling

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(wall_ms: int, *, to_the_ms: bool = False) -> str:
    """Returns a time in UTC with the zone Z. Returns a time outside the calendar as a number
    of ms."""
    try:
        when = _EPOCH + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return f"{wall_ms} ms"
    text = when.isoformat(timespec="milliseconds" if to_the_ms else "seconds")
    return text.removesuffix("+00:00") + "Z"


def span(milliseconds: int) -> str:
    """Returns a duration as text, such as 250 ms, 1.5 s, 12 min, 3 h or 5 days."""
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
    """Returns the time in an option, in ms since 1970; see `client.spelling`."""
    try:
        return spelling.time_ms(text)
    except spelling.MisspelledError as error:
        raise CommandError(f"{option} {text}: {error}", USAGE) from None


def since_ms(text: str, option: str) -> int:
    """Returns the time that the value of an option means, in ms since 1970. A duration (90m, P7D)
    means the current time minus the duration."""
    if spelling.is_duration(text):
        return max(0, clock.now_ms() - duration_ms(text, option))
    return datetime_ms(text, option)


def duration_ms(text: str, option: str = "--by-duration") -> int:
    """Returns the duration in an option, in ms; see `client.spelling`."""
    try:
        return spelling.duration_ms(text)
    except spelling.MisspelledError as error:
        raise CommandError(f"{option} {text}: {error}", USAGE) from None
