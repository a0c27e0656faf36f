"""Formats texts of the report: names as HTML, numbers and times."""

from __future__ import annotations

import html
import math
from typing import Final

from pipeline.times import formed, instant

UNITS_S: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""The units of durations, each with its seconds. A duration is shown in tenths of the largest unit
that it reaches."""
_MINUTE: Final = 60_000
_DAY: Final = 1440 * _MINUTE
_STEPS: Final = [
    *(n * 1000 for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 91, 365, 3650, 36500)),
]


def safe(text: object) -> str:
    """Escape a text for HTML and attributes, and replace unprintable characters."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return html.escape(shown, quote=True)


def name_of(text: str) -> str:
    """Format a name as HTML. The element `bdi` keeps the writing direction of the name from
    affecting the text around it."""
    return f"<bdi>{safe(text)}</bdi>"


def whole(value: float | None) -> str:
    """Format a count for a table: 1,234,567."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def number(value: float) -> str:
    """Format a number for an axis: 950, 1.2k, 3.4M."""
    for size, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + sign
    return f"{value:.1f}".removesuffix(".0")


def counted(count: int, noun: str) -> str:
    """Format a count with a noun: ``no members``, ``1 member``, ``2 members``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}" if count else f"no {noun}s"


def duration(seconds: float | None) -> str:
    """Format a duration: ``12 s``, ``1.5 h``."""
    if seconds is None:
        return "-"
    size, sign = next((each for each in UNITS_S if seconds >= each[0]), UNITS_S[-1])
    tenths = math.floor(seconds * 10 / size + 0.5)
    return f"{tenths / 10:.1f}".removesuffix(".0") + f" {sign}"


def age(seconds: float | None, *, is_least: bool) -> str:
    """Format the age of the oldest unread record. ``is_least`` means that the record may be
    older."""
    return f"{'at least ' if is_least and seconds else ''}{duration(seconds)}"


def as_shown(seconds: str) -> str:
    """Return SQL for a number of seconds, rounded to the precision that `duration` shows."""
    each = [
        f"floor({seconds} * 10 / {size} + 0.5e0) / 10 * {size}" for size, _ in reversed(UNITS_S)
    ]
    cases = (
        f"WHEN {seconds} >= {size} THEN {rounded}"
        for (size, _), rounded in zip(UNITS_S, reversed(each), strict=True)
    )
    return f"CASE {' '.join(cases)} ELSE {each[0]} END"


def short(ms: int, day_of_ms: int | None, form: str = "%H:%M:%SZ") -> str:
    """Format a time. The date is left out if ``day_of_ms``, another time on the page, is on the
    same day."""
    same_day = day_of_ms is not None and ms // _DAY == day_of_ms // _DAY
    return formed(ms, form if same_day else "%m-%d %H:%MZ") or instant(ms)


def moment(ms: int, day_of_ms: int | None) -> str:
    """Format a time as HTML: the text of `short`, and the complete time as an attribute."""
    return f'<time datetime="{instant(ms)}">{short(ms, day_of_ms)}</time>'


def nice_top(value: float) -> float:
    """Return the end of an axis of numbers: a round number at or above ``value``."""
    if value <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(value))) - 1)
    return next(size * n for n in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * n >= value)


def nice_span(seconds: float) -> float:
    """Return the end of an axis of durations: a round duration at or above ``seconds``."""
    return next((step / 1000 for step in _STEPS if step >= seconds * 1000), seconds)


def ticks(from_ms: int, until_ms: int) -> list[tuple[int, str]]:
    """Return at most eight ticks of a time axis: the time of each in ms, and its label.

    The labels show the day if the axis spans several days.
    """
    length = max(until_ms - from_ms, 1)
    step = next((s for s in _STEPS if length / s <= 7), length)
    form = "%H:%M:%SZ" if step < _MINUTE else "%H:%MZ"
    if step >= _DAY:
        form = "%Y-%m-%d"
    elif until_ms // _DAY != from_ms // _DAY:
        form = f"%m-%d {form}"
    first = -(-from_ms // step) * step
    return [(ms, formed(ms, form)) for ms in range(int(first), until_ms + 1, int(step))]


def ranges(partitions: list[int]) -> str:
    """Format partition numbers: ``0-3,7``."""
    spans: list[list[int]] = []
    for number_ in sorted(partitions):
        if spans and number_ == spans[-1][1] + 1:
            spans[-1][1] = number_
        else:
            spans.append([number_, number_])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in spans)
