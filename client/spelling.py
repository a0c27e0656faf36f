"""Parses times, durations and partitions. The spelling is the same in the options of all
commands."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

MOST_PARTITIONS: Final = 100_000
"""A number that exceeds the partition count of any topic. A larger number is treated as a typing
error."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_MS = re.compile(r"\d{13}")
_ONLY_DIGITS = re.compile(r"\d{9,}")
_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_SHORT = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST_MS: Final = 36_525 * _UNITS_MS["d"]


class MisspelledError(ValueError):
    """Raised if a value can't be parsed. The message describes the correct spelling."""


def time_ms(text: str) -> int:
    """Returns an ISO 8601 time in milliseconds since 1970. A time without a zone is in UTC, as in
    Kafka's own tools. A number of thirteen digits already means milliseconds since 1970, as in JSON
    and in records."""
    text = text.strip()
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        if _ONLY_DIGITS.fullmatch(text):
            raise ValueError  # Python would parse some of these digits as a date
        when = datetime.fromisoformat(text)
    except ValueError:
        raise MisspelledError(
            "write the time as 2026-01-31T12:00:00Z, as 2026-01-31T12:00:00+01:00 for another"
            " zone, or in milliseconds since 1970 (13 digits)"
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    since = (when - _EPOCH) // timedelta(milliseconds=1)
    if since < 0:
        raise MisspelledError("the time must not be before 1970")
    return since


def is_duration(text: str) -> bool:
    """Returns True if a text is a duration, False if it is a time."""
    return bool(_SHORT.fullmatch(text.strip())) or text.strip()[:1] in ("P", "p")


def duration_ms(text: str) -> int:
    """Returns an ISO 8601 duration (PnWnDTnHnMnS), or a number with a unit (90m), in
    milliseconds."""
    short = _SHORT.fullmatch(text.strip())
    if short is not None:
        return _bounded(float(short[1]) * _UNITS_MS[short[2]])
    found = _DURATION.fullmatch(text.upper())
    if found is None or not any(found.groups()):
        raise MisspelledError(
            "write the duration as PT1H30M or P7D, or as a number with its unit, such as 90m"
        )
    parts = found.groupdict(default="0")
    return _bounded(sum(float(number) * _UNITS_MS[unit] for unit, number in parts.items()))


def _bounded(milliseconds: float) -> int:
    if milliseconds > LONGEST_MS:
        raise MisspelledError("the duration must not be longer than 100 years")
    return round(milliseconds)


def partition_numbers(text: str) -> list[int]:
    """Returns the partitions in a text such as ``0-1,5``, in ascending order."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (_is_number(first) and _is_number(last)) or int(last) < int(first):
            raise MisspelledError("write the partitions as 0-1,5")
        if int(last) - int(first) > MOST_PARTITIONS:
            raise MisspelledError("too many partitions for one topic")
        found.update(range(int(first), int(last) + 1))
    return sorted(found)


def _is_number(text: str) -> bool:
    """Returns True if a text is a partition number: a non-negative int32."""
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 1 << 31
