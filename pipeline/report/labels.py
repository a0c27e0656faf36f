"""Texts of the report: escaped names, and numbers and times in a readable form."""

from __future__ import annotations

import html
import math
from typing import Final

from pipeline.times import formed, instant

UNITS_S: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Durations are shown in tenths of the largest of these that fits."""
_MINUTE: Final = 60_000
_DAY: Final = 1440 * _MINUTE
_STEPS: Final = [
    *(n * 1000 for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 91, 365, 3650, 36500)),
]


def safe(text: object) -> str:
    """Text for HTML and its attributes; unprintable characters become a replacement character."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return html.escape(shown, quote=True)


def name_of(text: str) -> str:
    """A name as HTML, isolated so that its writing direction does not affect the text around it."""
    return f"<bdi>{safe(text)}</bdi>"


def whole(value: float | None) -> str:
    """A count for a table: 1,234,567."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def number(value: float) -> str:
    """A number for an axis: 950, 1.2k, 3.4M."""
    for size, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + sign
    return f"{value:.1f}".removesuffix(".0")


def counted(count: int, noun: str) -> str:
    """``no members``, ``1 member``, ``2 members``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}" if count else f"no {noun}s"


def duration(seconds: float | None) -> str:
    """A duration in a readable form."""
    if seconds is None:
        return "-"
    size, sign = next((each for each in UNITS_S if seconds >= each[0]), UNITS_S[-1])
    tenths = math.floor(seconds * 10 / size + 0.5)
    return f"{tenths / 10:.1f}".removesuffix(".0") + f" {sign}"


def age(seconds: float | None, *, is_least: bool) -> str:
    """The age of the oldest unread record; ``is_least`` if it may be older."""
    return f"{'at least ' if is_least and seconds else ''}{duration(seconds)}"


def as_shown(seconds: str) -> str:
    """SQL: seconds, rounded as in `duration`."""
    each = [
        f"floor({seconds} * 10 / {size} + 0.5e0) / 10 * {size}" for size, _ in reversed(UNITS_S)
    ]
    cases = (
        f"WHEN {seconds} >= {size} THEN {rounded}"
        for (size, _), rounded in zip(UNITS_S, reversed(each), strict=True)
    )
    return f"CASE {' '.join(cases)} ELSE {each[0]} END"


def short(ms: int, day_of_ms: int | None, form: str = "%H:%M:%SZ") -> str:
    """A time without its day if that is the day of another time, which the page shows."""
    same_day = day_of_ms is not None and ms // _DAY == day_of_ms // _DAY
    return formed(ms, form if same_day else "%m-%d %H:%MZ") or instant(ms)


def moment(ms: int, day_of_ms: int | None) -> str:
    """The text of `short` as HTML, with the complete time as an attribute."""
    return f'<time datetime="{instant(ms)}">{short(ms, day_of_ms)}</time>'


def nice_top(value: float) -> float:
    """The end of an axis: a round number at or above ``value``."""
    if value <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(value))) - 1)
    return next(size * n for n in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * n >= value)


def nice_span(seconds: float) -> float:
    """The end of an axis of durations."""
    return next((step / 1000 for step in _STEPS if step >= seconds * 1000), seconds)


def ticks(from_ms: int, until_ms: int) -> list[tuple[int, str]]:
    """At most eight times on an axis with their labels; with the day if there are several days."""
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
    """Partitions as ``0-3,7``."""
    spans: list[list[int]] = []
    for number_ in sorted(partitions):
        if spans and number_ == spans[-1][1] + 1:
            spans[-1][1] = number_
        else:
            spans.append([number_, number_])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in spans)
