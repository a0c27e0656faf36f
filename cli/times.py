"""Times and lengths of time as text: what commands print, and what their options take."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cli import clock
from cli.errors import USAGE, CommandError

_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def time_of_day(wall_ms: int) -> str:
    """A time of day, local; with the date if that is not today's."""
    then = datetime.fromtimestamp(wall_ms / 1000)
    today = then.date() == clock.now().astimezone().date()
    return then.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def span(milliseconds: int) -> str:
    """A length of time."""
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
    """Milliseconds since 1970 of an ISO 8601 time, UTC unless it has a zone, as Apache's tool."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{option} {text}: write it as 2026-01-31T12:00:00 or with a zone, as in"
            " 2026-01-31T12:00:00+01:00",
            USAGE,
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1000)


def duration_ms(text: str, option: str = "--by-duration") -> int:
    """Milliseconds of an ISO 8601 duration (PnWnDTnHnMnS) or of a number and its unit (90m)."""
    short = _SHORT.fullmatch(text.strip())
    if short is not None:
        return int(short[1]) * _UNITS_MS[short[2]]
    found = _DURATION.fullmatch(text.upper())
    if found is None or not any(found.groups()):
        raise CommandError(
            f"{option} {text}: write it as PT1H30M, P7D, or as a number and its unit, as in 90m",
            USAGE,
        )
    parts = found.groupdict(default="0")
    return round(sum(float(number) * _UNITS_MS[unit] for unit, number in parts.items()))
