"""The output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence, Sized
from textwrap import wrap
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from cli import clock
from cli.layout import Columns, Lines, laid_out
from cli.names import safe
from cli.streams import follow, write

Row = dict[str, Any]
Item = TypeVar("Item")

_PATIENCE_S = 0.5


def show_json(value: Any) -> None:
    """Prints one value as indented JSON. Bytes become text, in which invalid UTF-8 is replaced."""
    write(json.dumps(value, indent=2, ensure_ascii=False, default=_text) + "\n")


def show_json_line(value: Any) -> None:
    """Prints a value as one line of JSON, and flushes standard output. For commands that print one
    value after the other."""
    follow(json.dumps(value, ensure_ascii=False, default=_text) + "\n")


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show(
    rows: Sequence[Row],
    columns: Columns,
    empty: str,
    json: bool,
    title: str = "",
    *,
    wide: bool | None = None,
) -> None:
    """Shows rows as JSON with all fields, or as a table with the given columns."""
    if json:
        show_json(rows)
    else:
        show_table(rows, columns, empty, title, wide=wide)


def show_table(
    rows: Sequence[Row],
    columns: Columns,
    empty: str,
    title: str = "",
    *,
    wide: bool | None = None,
) -> None:
    """Prints rows as a table; prints ``empty`` if ``rows`` is empty. Numbers are right-aligned.

    On a terminal, the table fits the terminal's width. In a file or a pipe, or if ``wide`` is True,
    nothing is shortened, wrapped or left out. ``wide`` is None for a command without the option
    --wide.
    """
    if not rows:
        say(empty)
        return
    if title:
        say(title)
    fits = sys.stdout.isatty() and not wide
    lines = laid_out(rows, columns, terminal_width() if fits else None, every_column=bool(wide))
    if sys.stdout.isatty():
        Console(highlight=False).print(_styled(lines, header_alone=True), soft_wrap=True)
    else:
        _print(lines.header)
    _print(lines.body)
    if lines.left_out:
        say(_left_out(lines, "a wider terminal or a pipe" if wide is None else "--wide"))


def table(rows: Sequence[Row], columns: Columns) -> Text:
    """Returns ``rows`` (at least one row) as a table for a live view. The table is as wide as the
    terminal."""
    return _styled(laid_out(rows, columns, terminal_width()))


def terminal_width() -> int:
    """Returns the terminal's width: COLUMNS if set, else the terminal's own width, or 80 without a
    terminal."""
    return max(1, shutil.get_terminal_size().columns)


def terminal_height() -> int:
    """Returns the terminal's height: LINES if set, else the terminal's own height, or 24 without a
    terminal."""
    return max(1, shutil.get_terminal_size().lines)


def _styled(lines: Lines, header_alone: bool = False) -> Text:
    text = Text("\n".join(lines.header), "bold")
    if header_alone:
        return text
    left_out = [_left_out(lines, "a wider terminal")] if lines.left_out else []
    below = [*lines.body, *left_out]
    return Text("\n").join([text, *map(Text, below)])


def _left_out(lines: Lines, remedy: str) -> str:
    columns = "column" if len(lines.left_out) == 1 else "columns"
    return f"(too narrow for {columns} {', '.join(lines.left_out)}; {remedy} shows all columns)"


def progress(items: Iterable[Item], doing: str, total: int | None = None) -> Iterator[Item]:
    """Yields the items, and shows a progress bar on standard error. The bar appears only on a
    terminal, after half a second."""
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
    """Returns a number with its noun, such as 1 offset or 3 offsets."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def warn(sentence: str) -> None:
    """Prints one line on standard error, with control characters escaped."""
    print(f"muster: {safe(sentence)}", file=sys.stderr, flush=True)


def say(sentence: str) -> None:
    """Prints one line, with control characters escaped."""
    _print([safe(sentence)])


def say_folded(sentence: str) -> None:
    """Prints a sentence, wrapped on a terminal. A command in it stays on one line, so that it can
    be copied."""
    text = safe(sentence)
    if not sys.stdout.isatty() or text.lstrip().startswith("$ "):
        _print([text])
        return
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    _print(
        wrap(
            text,
            terminal_width(),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _print(lines: Iterable[str]) -> None:
    """Prints lines, which must not contain control characters."""
    write("\n".join(lines) + "\n")
