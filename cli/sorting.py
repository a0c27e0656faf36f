"""The options --sort and --top: the order of a table's rows, and the maximum number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli.errors import USAGE, CommandError
from cli.layout import Column, Columns
from cli.options import whole_number
from cli.output import Row
from verdicts.names import Verdict

VERDICT = "verdict"

Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Sort by a column: names ascending, numbers descending, worst verdicts first.",
    ),
]
Top = Annotated[int | None, whole_number("--top", least=1, help="Show only the first N rows.")]


def in_order(rows: Sequence[Row], sort: str | None, top: int | None, columns: Columns) -> list[Row]:
    """Returns the rows in the order of --sort, at most --top rows. Unknown values are last. --sort
    may name any of ``columns`` by field or by header. The sort is stable."""
    ordered = list(rows)
    if sort is not None:
        field = _field(sort, columns)
        known = [row for row in ordered if row[field] is not None]
        if field == VERDICT:
            known.sort(key=lambda row: Verdict(row[field]).rank)
        else:
            numbers = all(isinstance(row[field], int | float) for row in known)
            known.sort(key=lambda row: row[field], reverse=numbers)
        ordered = known + [row for row in ordered if row[field] is None]
    return ordered[:top]


def _field(sort: str, columns: Columns) -> str:
    """Returns the field that --sort names. Raises CommandError for an unknown column."""
    wanted = sort.lower().replace("-", "_")
    headers = {}
    for each in columns:
        field, title, _ = each if isinstance(each, Column) else Column(each)
        headers[(title or field).lower().replace("_", "-")] = field
        if wanted in (field, (title or field).lower()):
            return field
    raise CommandError(f"--sort {sort}: choose one of {', '.join(headers)}", USAGE)
