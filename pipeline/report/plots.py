"""The plots: lag over time, the timeline of rebalances, the heat map of commits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pipeline.report.facts import Bar
from pipeline.report.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Span,
    duration,
    figure,
    nice_top,
    number,
    row_label,
    safe,
)
from pipeline.times import instant

POINTS: Final = 240
"""Of a line at most; a thinned one keeps the greatest value of each stretch."""
_TOP, _DEPTH = 14, 220
_LEFT: Final = 64
_ROW: Final = 26

Line = Sequence[tuple[int, float]]


def lines(label: str, of: Mapping[str, Line], seconds: bool = False) -> str:
    """A line for each group; pointing at a time shows all their values there."""
    shown = {name: _thinned(line) for name, line in of.items()}
    times = [ms for line in shown.values() for ms, _ in line]
    most = nice_top(max(value for line in shown.values() for _, value in line))
    span = Span(min(times), max(times), _LEFT)

    def text(value: float) -> str:
        return duration(value) if seconds else number(value)

    def y(value: float) -> float:
        return _TOP + _DEPTH * (1 - value / most)

    marks = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{text(v)}</text>'
        for v in (0, most / 2, most)
    )
    drawn = "".join(
        f'<polyline class="line c{nth}" points="'
        + " ".join(f"{span.x(ms):.1f},{y(value):.1f}" for ms, value in line)
        + '"/>'
        + "".join(_dot(nth, span.x(ms), y(value)) for ms, value in line[:1] if len(line) == 1)
        for nth, line in enumerate(shown.values())
    )
    key = "".join(
        f'<li class="c{nth}"><bdi>{safe(name)}</bdi> <b>{text(line[-1][1])}</b></li>'
        for nth, (name, line) in enumerate(shown.items())
    )
    inner = span.axis(_TOP, _TOP + _DEPTH) + marks + drawn + _pointers(span, shown, text)
    return figure("lines", label, _TOP + _DEPTH + 26, inner) + f'<ul class="key">{key}</ul>'


def timeline(bars: Sequence[Bar], groups: Sequence[str], span: Span) -> str:
    """A row for each group, in it a bar for each generation, darker with more members."""
    rows = {name: _TOP + nth * _ROW for nth, name in enumerate(groups)}
    bottom = _TOP + len(groups) * _ROW
    crowd = max([bar.members for bar in bars], default=1) or 1
    drawn = [span.axis(_TOP, bottom), *[row_label(name, y + 16) for name, y in rows.items()]]
    for bar in bars:
        x = span.x(bar.began_ms)
        width = max(span.x(bar.ended_ms or span.ended_ms) - x, 2)
        look = "none" if not bar.members else ""
        shade = 0.25 + 0.75 * bar.members / crowd if bar.members else 1
        drawn.append(
            f'<rect class="bar {look}" x="{x:.1f}" y="{rows[bar.group_id] + 4}"'
            f' width="{max(width - 1, 1.5):.1f}" height="{_ROW - 8}" rx="2"'
            f' style="fill-opacity:{shade:.2f}" data-tip="{safe(_hint(bar))}"/>'
        )
    return figure("timeline", "Generations of each group over time", bottom + 26, "".join(drawn))


def heat(
    cells: dict[tuple[str, int], int], groups: Sequence[str], began_ms: int, column_ms: int
) -> str:
    """Commits of each group in each stretch of time."""
    columns = max(column for _, column in cells) + 1
    span = Span(began_ms, began_ms + columns * column_ms)
    rows = {name: _TOP + nth * _ROW for nth, name in enumerate(groups)}
    bottom = _TOP + len(groups) * _ROW
    most = max(cells.values())
    width = (WIDTH - LEFT - RIGHT) / columns
    drawn = [span.axis(_TOP, bottom), *[row_label(name, y + 16) for name, y in rows.items()]]
    for (name, column), commits in cells.items():
        began = began_ms + column * column_ms
        tip = f"{name}\n{instant(began)} to {instant(began + column_ms)}\n{commits:,} commits"
        drawn.append(
            f'<rect class="cell" x="{LEFT + column * width:.1f}" y="{rows[name] + 2}"'
            f' width="{max(width - 1, 1):.1f}" height="{_ROW - 4}" rx="2"'
            f' style="fill-opacity:{0.15 + 0.85 * (commits / most) ** 0.5:.2f}"'
            f' data-tip="{safe(tip)}"/>'
        )
    return figure("heat", "Commits of each group over time", bottom + 26, "".join(drawn))


def _thinned(line: Line) -> Line:
    if len(line) <= POINTS:
        return line
    size = -(-len(line) // POINTS)
    stretches = [line[i : i + size] for i in range(0, len(line), size)]
    return [max(stretch, key=lambda point: point[1]) for stretch in stretches]


def _dot(nth: int, x: float, y: float) -> str:
    return f'<circle class="dot c{nth}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'


def _pointers(span: Span, shown: dict[str, Line], text: Callable[[float], str]) -> str:
    """Unseen stripes over the plot that show the values of their time."""
    at: dict[int, list[str]] = {}
    for name, line in shown.items():
        for ms, value in line:
            at.setdefault(ms, []).append(f"{name}: {text(value)}")
    times = sorted(at)
    middles = [span.x((a + b) / 2) for a, b in itertools.pairwise(times)]
    edges = [float(_LEFT), *middles, float(WIDTH - RIGHT)]
    return "".join(
        f'<rect class="pointer" x="{a:.1f}" y="{_TOP}" width="{max(b - a, 1):.1f}"'
        f' height="{_DEPTH}" data-tip="{safe(instant(ms) + chr(10) + chr(10).join(at[ms]))}"/>'
        for ms, (a, b) in zip(times, itertools.pairwise(edges), strict=True)
    )


def _hint(bar: Bar) -> str:
    lasted = None if bar.ended_ms is None else (bar.ended_ms - bar.began_ms) / 1000
    lines = [
        f"{bar.group_id}, generation {bar.generation}: {bar.change}",
        f"{instant(bar.began_ms)}, "
        + ("lasts still" if lasted is None else f"for {duration(lasted)}"),
        f"{bar.members} members" + (f", protocol {bar.protocol}" if bar.protocol else ""),
    ]
    for word, names in (("joined", bar.joined), ("left", bar.left)):
        if names:
            lines.append(f"{word}: {', '.join(names)}")
    if bar.moved:
        lines.append(f"{bar.moved} partitions changed hands")
    return "\n".join(lines)
