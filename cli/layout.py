"""Table layout: turns rows into lines that fit a width, or lines as wide as necessary.

If a width is given,

1. sentences are wrapped, then names (words without a space) are shortened in their middle; 2. if
the sentences of the last column still do not fit, each is placed below its row; 3. columns on the
right that do not fit are left out, and the last line names these columns.

Numbers, headers, states, verdicts, times and addresses are never cut. Columns that are empty in all
rows are left out in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from cli.names import partitions_text, safe

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A field of the rows, as a column of a table."""

    field: str
    title: str = ""
    """The header, if different from the field's name."""
    always: bool = False
    """True if the column is shown even if all its cells are empty."""


Columns = Sequence[str | Column]
"""The columns of a table; a plain name is a `Column` of that field."""

NOTHING = "-"
_WHOLE = re.compile(r"[A-Z][A-Za-z_]*|[0-9][0-9.,:TZ-]*|#[0-9]+|-")
"""Values that are never shortened: verdicts, states, times and addresses."""
GAP = 2
WHOLE_WIDTH = 40
"""The maximum width of states, times and addresses; longer values are names chosen by users."""
NAME_WIDTH = 12
"""The usual minimum width of shortened names; SHORT_NAME_WIDTH applies if columns do not fit."""
SHORT_NAME_WIDTH = 8
SENTENCE_WIDTH = 24
INDENT = 4
"""The indent of a sentence below its row."""


class Lines(NamedTuple):
    """The lines of a table; the header has two lines if sentences are below their rows."""

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
    """Return a cell's text: ``-`` if empty, yes or no, lists with commas, no control characters.

    Partitions in JSON form become ``orders:0-1,5``.
    """
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
    """Return the lines of a table of at least one row; ``every_column`` keeps empty columns."""
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
    """Return a name in at most ``width`` cells; an ellipsis replaces the middle."""
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
    """Return the width of each column; wide sentences are shortened first, then wide names."""
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
    """Return widths that together fit ``room`` if possible, otherwise the minimum widths."""
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
    """Wrap a sentence into lines; a word longer than a line is shortened like a name."""
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
