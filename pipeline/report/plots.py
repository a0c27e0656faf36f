"""Draws the plots of one group below each other on one time axis, scaled to any width.

SVG stretches the plots to the width of the page, but not the thickness of the lines. The texts over
the plots are HTML, which is not stretched. A transparent stripe over each column of the axis shows
the values at its time, and links to the generation that was current at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.report.facts import Part, Row
from pipeline.report.head import Thresholds
from pipeline.report.labels import (
    age,
    counted,
    duration,
    nice_span,
    nice_top,
    number,
    safe,
    short,
    ticks,
    whole,
)
from pipeline.report.window import Window
from pipeline.times import instant

WIDTH: Final = 1000
_TITLE: Final = 26
_GAP: Final = 8
_UNKNOWN_AT_END: Final = "the value at the end of the time range is not known"


@dataclass(frozen=True)
class Axis:
    """The time axis that all plots of the report share."""

    window: Window

    def x(self, ms: float) -> float:
        """Return the horizontal position of a time, from 0 to `WIDTH`."""
        length = max(self.window.until_ms - self.window.from_ms, 1)
        return min(max((ms - self.window.from_ms) / length, 0), 1) * WIDTH

    def column(self, nth: int) -> tuple[int, int]:
        """Returns the times in ms at which a column starts and ends."""
        began = self.window.from_ms + nth * self.window.column_ms
        return began, min(began + self.window.column_ms, self.window.until_ms)

    def labels(self) -> str:
        """Returns the HTML labels of the axis. The last label is the newest time."""
        until = self.window.until_ms
        marks = [(ms, text) for ms, text in ticks(self.window.from_ms, until) if self.x(ms) < 780]
        return (
            "".join(
                f'<span class="{"first" if self.x(ms) < 50 else ""}{" odd" if nth % 2 else ""}"'
                f' style="left:{self.x(ms) / 10:.2f}%">{text}</span>'
                for nth, (ms, text) in enumerate(marks)
            )
            + f'<span class="last">{instant(until)[11:]}</span>'
        )

    def grid(self, height: int) -> str:
        """Returns SVG with a vertical line for each labelled time."""
        return "".join(
            f'<line class="grid" x1="{self.x(ms):.1f}" x2="{self.x(ms):.1f}" y1="0" y2="{height}"/>'
            for ms, _ in ticks(self.window.from_ms, self.window.until_ms)
        )


@dataclass(frozen=True)
class Panel:
    """One plot: its name, its description, and a drawing that is ``depth`` pixels high."""

    name: str
    words: str
    depth: int
    draw: Callable[[int], str]
    """Returns the SVG of the drawing, whose top edge is at the given y in pixels."""
    marks: Sequence[tuple[float, str, str]] = ()
    """Texts over the drawing, each as (distance from the top as a share of ``depth``, CSS class,
    text)."""


def plots(part: Part, axis: Axis, limits: Thresholds, target: Callable[[int], str | None]) -> str:
    """Draws all plots of a group. ``target`` returns the HTML id of the generation that was current
    at a time in ms."""
    panels = [
        _records(part, axis, limits),
        _seconds(part, axis, limits),
        _generations(part, axis),
        _rewinds(part, axis),
        _commits(part, axis),
    ]
    y, drawn, words = 0, [], []
    for panel in panels:
        top = y + _TITLE
        words.append(
            f'<p class="name" style="top:{y}px"><b>{panel.name}</b> {safe(panel.words)}</p>'
        )
        words += [
            f'<span class="{kind}" style="top:{top + round(share * panel.depth)}px">{text}</span>'
            for share, kind, text in panel.marks
        ]
        drawn.append(panel.draw(top))
        y = top + panel.depth + _GAP
    name = f"Plots of {part.group['group_id']}: lag, rebalances, rewinds and commits over time"
    return (
        f'<div class="plots" style="height:{y + 20}px" role="group" aria-label="{safe(name)}">'
        f'<svg aria-hidden="true" viewBox="0 0 {WIDTH} {y}" preserveAspectRatio="none"'
        f' style="height:{y}px">{axis.grid(y)}{"".join(drawn)}'
        f"{_stripes(part, axis, y, target)}</svg>"
        f'{"".join(words)}<div class="axis">{axis.labels()}</div></div>'
    )


def _records(part: Part, axis: Axis, limits: Thresholds) -> Panel:
    if not part.lag or (part.group["lag_records"] is None and not _most(part.lag, "records")):
        return _silent("Lag in records", "not known: the topic's records were not read.")
    now = part.group["lag_records"]
    words = f"{whole(now)} unread" if now is not None else _UNKNOWN_AT_END
    if part.peaks:
        peak, until = part.peaks[0], axis.window.until_ms
        words += f"; peak {whole(peak['records'])} at {short(peak['ms'], until, '%H:%MZ')}"
    scale = _Scale("records", limits.lag_records, number, nice_top)
    return _line("Lag in records", words, part.lag, axis, scale)


def _seconds(part: Part, axis: Axis, limits: Thresholds) -> Panel:
    most = _most(part.lag, "seconds")
    if most is None:
        records = _most(part.lag, "records")
        why = "no record was unread."
        if records is None:
            why = "not known: the timestamps of records were not read."
        elif records:
            why = "not known: no record has a plausible timestamp."
        return _silent("Oldest unread record", why)
    now = part.group["lag_s"]
    words = f"{duration(now)} old" if now is not None else _UNKNOWN_AT_END
    if part.group["lag_is_least"]:
        words = f"at least {words}"
    elif now and (part.group["lag_precision_s"] or 0) >= 1:
        words += f" ± {duration(part.group['lag_precision_s'])}"
    words += f"; peak {age(most, is_least=any(row['is_least'] for row in part.lag))}"
    scale = _Scale("seconds", limits.lag_s, duration, nice_span)
    return _line("Oldest unread record", words, part.lag, axis, scale)


@dataclass(frozen=True)
class _Scale:
    """The scale of a line plot.

    ``key`` is the plotted column, and ``limit`` is the threshold of its values. ``text`` formats a
    value as text. ``nice`` rounds the largest value up, to the value at the top of the plot.
    """

    key: str
    limit: float | None
    text: Callable[[float], str]
    nice: Callable[[float], float]


def _line(name: str, words: str, rows: Sequence[Row], axis: Axis, scale: _Scale) -> Panel:
    """Draws a line for a value over time, and a horizontal line for its threshold. The line for the
    value has gaps where the value is unknown."""
    depth, limit = 84, scale.limit
    most = scale.nice(max(_most(rows, scale.key) or 0, (limit or 0) * 1.1))

    def y(top: int, value: float) -> float:
        return top + depth * (1 - value / most)

    def drawn(top: int, run: Sequence[Row]) -> str:
        points = [f"{axis.x(row['ms']):.1f},{y(top, row[scale.key]):.1f}" for row in run]
        if len(run) == 1:  # a single point is visible only with a second one
            points.append(f"{axis.x(run[0]['ms']) - 0.1:.1f},{y(top, run[0][scale.key]):.1f}")
        return f'<polyline class="line" points="{" ".join(points)}"/>'

    def draw(top: int) -> str:
        lines = "".join(drawn(top, run) for run in _runs(rows, scale.key, axis.window.column_ms))
        return _base(top + depth) + (_level(y(top, limit)) if limit else "") + lines

    marks = [(0.0, "tick", scale.text(most))]
    if limit:
        marks.append((1 - limit / most, "limit", f"threshold {scale.text(limit)}"))
    return Panel(name, words, depth, draw, marks)


def _runs(rows: Sequence[Row], key: str, column_ms: int) -> list[list[Row]]:
    """Divides the rows into sections, each of which is drawn as an unbroken line. Omits rows in
    which ``key`` is null. A new section begins if the time since the previous row is at least one
    column of the plot plus one time step."""
    runs: list[list[Row]] = []
    for row in rows:
        if row[key] is None:
            continue
        if not runs or row["ms"] - runs[-1][-1]["ms"] >= column_ms + 1000 * row["step_s"]:
            runs.append([])
        runs[-1].append(row)
    return runs


def _generations(part: Part, axis: Axis) -> Panel:
    depth = 22
    if not part.generations:
        return _silent("Rebalances", "the history has no generation of this group.")
    crowd = max(row["member_count"] or 0 for row in part.generations) or 1

    def draw(top: int) -> str:
        bars = [
            f'<rect class="bar none" x="{axis.x(row["began_ms"]):.1f}" y="{top}"'
            f' width="{max(axis.x(row["ended_ms"] or 0) - axis.x(row["began_ms"]), 2):.1f}"'
            f' height="{depth}"/>'
            for row in part.earlier
        ]
        for row in reversed(part.generations):
            if row["began_ms"] is None:
                continue
            x = axis.x(row["began_ms"])
            width = axis.x(row["ended_ms"] or axis.window.until_ms) - x
            members = row["member_count"] or 0
            look = "bar" if members else "bar none"
            shade = 0.3 + 0.7 * members / crowd if members else 1
            bars.append(
                f'<rect class="{look}" x="{x:.1f}" y="{top}" width="{max(width - 1.5, 1.5):.1f}"'
                f' height="{depth}" style="fill-opacity:{shade:.2f}"/>'
            )
        return "".join(bars)

    group = part.group
    words = (
        f"{counted(group['rebalances'], 'rebalance')}; each bar is a generation, and a darker bar"
        " has more members"
    )
    return Panel("Rebalances", words, depth, draw)


def _rewinds(part: Part, axis: Axis) -> Panel:
    depth = 14
    if not part.rewinds:
        return _silent("Rewinds", "no commit moved an offset backwards.")

    def draw(top: int) -> str:
        y = top + depth / 2
        return _base(top + depth) + "".join(
            f'<path class="mark" d="M{axis.x(sum(axis.column(row["col"])) / 2):.1f} {y}h.01"/>'
            for row in part.rewind_columns
        )

    words = f"{counted(part.group['rewinds'], 'commit')} below the previous offset"
    return Panel("Rewinds", words, depth, draw)


def _commits(part: Part, axis: Axis) -> Panel:
    depth = 50
    if not part.commits:
        last = part.group["last_commit_ms"]
        when = "the history has no commits of this group."
        if last:
            when = f"no commits in this time range; the last commit was at {instant(last)}."
        return _silent("Commits", when)
    most = max(row["commits"] for row in part.commits)

    def draw(top: int) -> str:
        bars = []
        for row in part.commits:
            began, ended = map(axis.x, axis.column(row["col"]))
            height = max(depth * row["commits"] / most, 1)
            bars.append(
                f'<rect class="cell" x="{began:.1f}" y="{top + depth - height:.1f}"'
                f' width="{max(ended - began - 1, 1):.1f}" height="{height:.1f}"/>'
            )
        return _base(top + depth) + "".join(bars)

    each = duration(axis.window.column_ms / 1000)
    words = f"{whole(part.group['commits'])} in the history; each bar counts the commits in {each}"
    return Panel("Commits", words, depth, draw, [(0.0, "tick", number(most))])


def _stripes(part: Part, axis: Axis, height: int, target: Callable[[int], str | None]) -> str:
    """Returns transparent stripes with tooltips: one for each column of the time axis for which
    values are known."""
    known: dict[int, list[str]] = {}
    for row in part.lag:
        said = [f"{whole(row['records'])} unread"] if row["records"] is not None else []
        if row["seconds"] is not None:
            old = age(row["seconds"], is_least=row["is_least"])
            said.append(f"the oldest unread record is {old} old")
        known.setdefault(row["col"], []).extend(said)
    for row in part.rewind_columns:
        known.setdefault(row["col"], []).append(counted(row["rewinds"], "rewind"))
    for row in part.commits:
        known.setdefault(row["col"], []).append(counted(row["commits"], "commit"))
    drawn = []
    for column, said in sorted(known.items()):
        began, ended = axis.column(column)
        left, right = axis.x(began), axis.x(ended)
        rect = (
            f'<rect class="stripe" x="{left:.1f}" width="{max(right - left, 1):.1f}" y="0"'
            f' height="{height}"/>'
        )
        to = target(ended)
        hint = f"{instant(began)} to {instant(ended)}\n" + "\n".join(said)
        if to is None:
            drawn.append(f"<g><title>{safe(hint)}</title>{rect}</g>")
        else:
            hint += "\nClick to see the generation at that time"
            drawn.append(f'<a href="#{to}" tabindex="-1"><title>{safe(hint)}</title>{rect}</a>')
    return "".join(drawn)


def _silent(name: str, sentence: str) -> Panel:
    return Panel(name, sentence, 0, lambda _: "")


def _most(rows: Sequence[Row], key: str) -> float | None:
    return max((row[key] for row in rows if row[key] is not None), default=None)


def _base(y: float) -> str:
    return f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>'


def _level(y: float) -> str:
    return f'<line class="threshold" x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
