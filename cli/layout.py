"""Table layout: turns rows into lines, either lines that fit into a given width or lines as long as
necessary.

The steps for a given width:

1. Sentences are wrapped. Then names (words without a space) are shortened in their middle.
2. If the sentences of the last column still do not fit, each is placed below its row.
3. Columns on the right that do not fit are left out. The last line names them.

Numbers, headers, states, verdicts, times and addresses are never cut. Columns that are empty in all
rows are always left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from cli.names import partitions_text, safe

Row = Mapping[str, Any]


class Column(NamedTuple):
    """One column of a table: a field of the rows, and how it is shown."""

    field: str
    title: str = ""
    """The header, if it differs from the name of the field."""
    always: bool = False
    """True if the column is shown even if all its cells are empty."""


Columns = Sequence[str | Column]
"""The columns of a table. A plain string is a `Column` for the field with this name."""

NOTHING = "-"
_WHOLE = re.compile(r"[A-Z][A-Za-z_]*|[0-9][0-9.,:TZ-]*|#[0-9]+|-")
"""Matches values that are never shortened: verdicts, states, times and addresses."""
GAP = 2
WHOLE_WIDTH = 40
"""The maximum width of a column of states, times or addresses, whose values are not shortened. A
wider column counts as a column of names, which may be shortened."""
NAME_WIDTH = 12
"""The minimum width to which names are shortened. If the columns still do not fit the terminal,
names are shortened further, to SHORT_NAME_WIDTH."""
SHORT_NAME_WIDTH = 8
SENTENCE_WIDTH = 24
INDENT = 4


class Lines(NamedTuple):
    """The lines of a printed table. The header has a second line if each row is followed by lines
    with sentences."""

    header: list[str]
    body: list[str]
    left_out: list[str]
    """The headers of columns that were left out."""


class _Laid(NamedTuple):
    title: str
    always: bool
    cells: list[str]
    is_number: bool
    is_sentence: bool
    is_whole: bool
    natural: int

    def least(self, name_width: int) -> int:
        if self.is_number or self.is_whole:
            return self.natural
        width = SENTENCE_WIDTH if self.is_sentence else name_width
        return max(cell_len(self.title), min(self.natural, width))


def shown(value: Any) -> str:
    """Returns a value as the text of a cell, without control characters. An empty value becomes
    ``-``, a bool becomes yes or no, a list gets commas. Partitions in JSON form become
    ``orders:0-1,5``."""
    if value is None or value in ("", []):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and value.keys() == {"topic", "partitions"}:
        return safe(partitions_text(value["topic"], value["partitions"]))
    if isinstance(value, list | tuple):
        between = {dict: " ", int: ","}.get(type(value[0]), ", ")
        return between.join(map(shown, value))
    return safe(str(value))


def laid_out(
    rows: Sequence[Row], columns: Columns, width: int | None, every_column: bool = False
) -> Lines:
    """Returns the lines of a table with at least one row. ``every_column`` keeps empty columns."""
    laid = [_lay(rows, column) for column in columns]
    if not every_column:
        laid = [each for each in laid if each.always or set(each.cells) != {NOTHING}] or laid[:1]
    if width is None:
        return _drawn(laid, [each.natural for each in laid], None, [])
    below: _Laid | None = None
    if _least(laid, NAME_WIDTH) > width and len(laid) > 1 and laid[-1].is_sentence:
        laid, below = laid[:-1], laid[-1]
    left_out: list[str] = []
    while len(laid) > 1 and _least(laid, SHORT_NAME_WIDTH) > width:
        left_out.insert(0, laid.pop().title)
    name_width = NAME_WIDTH if _least(laid, NAME_WIDTH) <= width else SHORT_NAME_WIDTH
    widths = _widths(laid, name_width, width)
    return _drawn(laid, widths, (below, max(width, 2 * INDENT)) if below else None, left_out)


def shortened(text: str, width: int) -> str:
    """Returns a name in at most ``width`` terminal cells. An ellipsis replaces its middle."""
    if _cells(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head = (width - 1) // 2
    first = set_cell_size(text, head).rstrip() if head else ""
    last = ""
    for char in reversed(text):
        if cell_len(first) + 1 + cell_len(char + last) > width:
            break
        last = char + last
    return f"{first}…{last}"


def _lay(rows: Sequence[Row], column: str | Column) -> _Laid:
    field, title, always = column if isinstance(column, Column) else Column(column)
    title = title or field.upper().replace("_", "-")
    values = [row.get(field) for row in rows]
    cells = [shown(value) for value in values]
    numbers = [value for value in values if value is not None]
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in numbers)
    natural = max(map(_cells, cells), default=0)
    is_sentence = not is_number and any(" " in cell for cell in cells)
    is_whole = natural <= WHOLE_WIDTH and all(map(_WHOLE.fullmatch, cells))
    width = max(natural, cell_len(title))
    return _Laid(title, always, cells, is_number, is_sentence, is_whole, width)


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _least(laid: Sequence[_Laid], name_width: int) -> int:
    return sum(each.least(name_width) for each in laid) + GAP * (len(laid) - 1)


def _widths(laid: Sequence[_Laid], name_width: int, width: int) -> list[int]:
    """Returns the width of each column. Sentences are made narrower first, then names."""
    room = width - GAP * (len(laid) - 1)
    widths = [each.natural for each in laid]
    for giving in (True, False):
        some = [number for number, each in enumerate(laid) if each.is_sentence is giving]
        least = [laid[number].least(name_width) for number in some]
        others = sum(widths) - sum(widths[number] for number in some)
        for number, given in zip(
            some, _shared([widths[number] for number in some], least, room - others), strict=True
        ):
            widths[number] = given
    return [max(1, min(each, room)) for each in widths]


def _shared(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Returns column widths whose sum is at most ``room``; the minimum widths ``least`` if that is
    impossible."""
    cap = max(natural, default=0)
    low = 0
    while low < cap:
        middle = (low + cap + 1) // 2
        if sum(max(a, min(b, middle)) for a, b in zip(least, natural, strict=True)) <= room:
            low = middle
        else:
            cap = middle - 1
    return [max(a, min(b, low)) for a, b in zip(least, natural, strict=True)]


def _drawn(
    laid: Sequence[_Laid],
    widths: Sequence[int],
    below: tuple[_Laid, int] | None,
    left_out: list[str],
) -> Lines:
    header = [_line([each.title for each in laid], laid, widths)]
    if below is not None:
        header += _indented(below[0].title, below[1])
    body: list[str] = []
    for number in range(len(laid[0].cells)):
        parts = [
            _folded(each.cells[number], width) if each.is_sentence else
            [shortened(each.cells[number], width)]
            for each, width in zip(laid, widths, strict=True)
        ]  # fmt: skip
        for line in range(max(map(len, parts))):
            cells = [part[line] if line < len(part) else "" for part in parts]
            body.append(_line(cells, laid, widths))
        if below is not None and below[0].cells[number] != NOTHING:
            body += _indented(below[0].cells[number], below[1])
    return Lines(header, body, left_out)


def _line(cells: Sequence[str], laid: Sequence[_Laid], widths: Sequence[int]) -> str:
    parts = []
    for cell, each, width in zip(cells, laid, widths, strict=True):
        space = " " * (width - _cells(cell))
        parts.append(space + cell if each.is_number else cell + space)
    return (" " * GAP).join(parts).rstrip()


def _indented(text: str, width: int) -> list[str]:
    return [" " * INDENT + line for line in _folded(text, width - INDENT)]


def _folded(text: str, width: int) -> list[str]:
    """Wraps a sentence into lines of at most ``width`` columns. A longer word is shortened by
    `shortened`."""
    if _cells(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split():
        cut = shortened(word, width)
        if lines and _cells(lines[-1]) + 1 + _cells(cut) <= width:
            lines[-1] += f" {cut}"
        else:
            lines.append(cut)
    return lines
