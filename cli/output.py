"""How commands show their results: tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, TypeVar

from rich.console import Console, JustifyMethod
from rich.progress import Progress
from rich.table import Table

from cli import clock

Row = dict[str, Any]
Item = TypeVar("Item")

_PATIENCE_S = 0.5


def shown(value: Any) -> str:
    """Return a cell's text: nothing for None, yes and no for truth, names joined by commas."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return str(value)


def show_json(value: Any) -> None:
    """Print one value as indented JSON; bytes become text, replacing what is not UTF-8."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_text))


def show_json_line(value: Any) -> None:
    """Print one value as one line of JSON, at once: for streams that another program follows."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=_text) + "\n")
    sys.stdout.flush()


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show(
    rows: Sequence[Row], columns: Iterable[str], empty: str, json: bool, title: str = ""
) -> None:
    """Show rows as JSON with every field, or as a table of some columns."""
    if json:
        show_json(rows)
    else:
        show_table(rows, list(columns), empty, title)


def show_table(rows: Sequence[Row], columns: Iterable[str], empty: str, title: str = "") -> None:
    """Print rows as a table with numbers on the right, or ``empty`` where there are none."""
    console = Console(soft_wrap=False, highlight=False)
    if not rows:
        console.print(empty)
        return
    if not console.is_terminal:
        # A file or a pipe has no width of its own: nothing is folded or cut for it.
        console.width = 10_000
    if title:
        console.print(title)
    console.print(table(rows, list(columns)))


def table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """The table itself, of at least one row."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        numbers = all(isinstance(row.get(column), int | float | None) for row in rows)
        numbers = numbers and not isinstance(rows[0].get(column), bool)
        justify: JustifyMethod = "right" if numbers else "left"
        made.add_column(column.upper().replace("_", "-"), justify=justify, overflow="fold")
    for row in rows:
        made.add_row(*(shown(row.get(column)) for column in columns))
    return made


def progress(items: Iterable[Item], doing: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items; on a terminal a bar on standard error shows the progress.

    Nothing is shown for what takes less than half a second, nor in a pipe.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    if total is None and isinstance(items, Sized):
        total = len(items)
    began_s = clock.monotonic_s()
    with Progress(console=console, transient=True, disable=False) as bar:
        task = bar.add_task(doing, total=total, visible=False)
        for item in items:
            yield item
            bar.update(task, advance=1, visible=clock.monotonic_s() - began_s > _PATIENCE_S)


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as 1 offset or 3 offsets."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def warn(sentence: str) -> None:
    """Print one line beside the result, on standard error."""
    print(f"muster: {sentence}", file=sys.stderr, flush=True)


def say(sentence: str) -> None:
    """Print one plain line."""
    print(sentence, flush=True)
