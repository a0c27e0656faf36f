"""Hand-made SVG: text that is safe, scales, axes; what the plots are drawn with."""

from __future__ import annotations

import html
from typing import Final, NamedTuple

from pipeline.times import formed

WIDTH: Final = 920
LEFT: Final = 170
RIGHT: Final = 16
LONGEST_LABEL: Final = 24

_MINUTE: Final = 60_000
_STEPS: Final = [
    *(n * 1000 for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(n * 1440 * _MINUTE for n in (1, 2, 7, 14, 30, 91, 365, 3650, 36500)),
]


def safe(text: object) -> str:
    """Text for HTML and its attributes; what has no glyph (control characters) is shown as such."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return html.escape(shown, quote=True)


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """A label that fits beside a plot."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def number(value: float) -> str:
    """A number for a label: 950, 1.2k, 3.4M."""
    for size, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + sign
    return f"{value:.1f}".removesuffix(".0")


def duration(seconds: float | None) -> str:
    """A length of time for people."""
    if seconds is None:
        return "-"
    for size, sign in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {sign}"
    return f"{seconds:.1f}".removesuffix(".0") + " s"


class Span(NamedTuple):
    """A time axis from one side of a plot to the other."""

    began_ms: int
    ended_ms: int
    left: int = LEFT

    def x(self, ms: float) -> float:
        """Where a time is."""
        whole = max(self.ended_ms - self.began_ms, 1)
        share = min(max((ms - self.began_ms) / whole, 0), 1)
        return self.left + share * (WIDTH - self.left - RIGHT)

    def ticks(self) -> list[tuple[int, str]]:
        """At most eight times with their labels."""
        whole = max(self.ended_ms - self.began_ms, 1)
        step = next((s for s in _STEPS if whole / s <= 7), whole)
        form = "%H:%M:%SZ" if step < _MINUTE else "%H:%MZ" if step < 1440 * _MINUTE else "%Y-%m-%d"
        first = -(-self.began_ms // step) * step
        return [(ms, formed(ms, form)) for ms in range(int(first), self.ended_ms + 1, int(step))]

    def axis(self, top: float, bottom: float) -> str:
        """Its lines and labels, between these heights."""
        drawn = []
        for ms, label in self.ticks():
            x = f"{self.x(ms):.1f}"
            drawn.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>')
            at = f'x="{x}" y="{bottom + 16}"'
            drawn.append(f'<text class="tick" {at} text-anchor="middle">{label}</text>')
        return "".join(drawn)


def nice_top(value: float) -> float:
    """The end of an axis: a round number at or above ``value``."""
    if value <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(value))) - 1)
    return next(size * n for n in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * n >= value)


def figure(kind: str, label: str, height: float, inner: str) -> str:
    """A plot: as wide as its place, and on a phone wide enough to be read by scrolling."""
    return (
        f'<div class="scroll" tabindex="0"><svg class="plot {kind}" role="img"'
        f' aria-label="{safe(label)}" viewBox="0 0 {WIDTH} {height:.0f}">{inner}</svg></div>'
    )


def row_label(text: str, y: float) -> str:
    """The name of a row at the left; whole when pointed at."""
    return (
        f'<text class="name" x="{LEFT - 10}" y="{y:.1f}" text-anchor="end"'
        f' data-tip="{safe(text)}">{safe(short(text))}</text>'
    )
