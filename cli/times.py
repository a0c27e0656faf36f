"""Times and lengths of time as text: what commands print, and what their options take.

Every time that a person reads is UTC in ISO 8601 with its zone, so that what one command prints
means the same instant in any other, on any machine.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cli import clock
from cli.errors import USAGE, CommandError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_MS = re.compile(r"\d{13}")
_ONLY_DIGITS = re.compile(r"\d{9,}")

_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

LONGEST_MS = 36_525 * _UNITS_MS["d"]


def instant(wall_ms: int, *, to_the_ms: bool = False) -> str:
    """A time in UTC with its zone; a number that no calendar has as it is."""
    try:
        when = _EPOCH + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return f"{wall_ms} ms"
    text = when.isoformat(timespec="milliseconds" if to_the_ms else "seconds")
    return text.removesuffix("+00:00") + "Z"


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
    """Milliseconds since 1970 of an ISO 8601 time, UTC unless it has a zone, as Apache's tool.

    Thirteen digits are these milliseconds themselves, as JSON and Kafka's records have them.
    """
    text = text.strip()
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        if _ONLY_DIGITS.fullmatch(text):
            raise ValueError  # Python would take some of these digits for a date
        when = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{option} {text}: write it as 2026-01-31T12:00:00Z, with another zone as in"
            " 2026-01-31T12:00:00+01:00, or in milliseconds since 1970 (13 digits)",
            USAGE,
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    since = (when - _EPOCH) // timedelta(milliseconds=1)
    if since < 0:
        raise CommandError(f"{option} {text}: it is before 1970, where Kafka's time begins", USAGE)
    return since


def since_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 of a time, or of so long ago (90m, P7D)."""
    if _SHORT.fullmatch(text.strip()) or text.strip()[:1] in ("P", "p"):
        return max(0, clock.now_ms() - duration_ms(text, option))
    return datetime_ms(text, option)


def duration_ms(text: str, option: str = "--by-duration") -> int:
    """Milliseconds of an ISO 8601 duration (PnWnDTnHnMnS) or of a number and its unit (90m)."""
    short = _SHORT.fullmatch(text.strip())
    if short is not None:
        return _bounded(float(short[1]) * _UNITS_MS[short[2]], text, option)
    found = _DURATION.fullmatch(text.upper())
    if found is None or not any(found.groups()):
        raise CommandError(
            f"{option} {text}: write it as PT1H30M, P7D, or as a number and its unit, as in 90m",
            USAGE,
        )
    parts = found.groupdict(default="0")
    return _bounded(
        sum(float(number) * _UNITS_MS[unit] for unit, number in parts.items()), text, option
    )


def _bounded(milliseconds: float, text: str, option: str) -> int:
    if milliseconds > LONGEST_MS:
        raise CommandError(f"{option} {text}: it is longer than 100 years", USAGE)
    return round(milliseconds)
