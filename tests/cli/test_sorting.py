"""The options `--sort` and `--top` of commands that print tables."""

from __future__ import annotations

import pytest

from cli.errors import CommandError
from cli.layout import Column
from cli.sorting import in_order

ROWS = [
    {"topic": "b", "end_offset": 5},
    {"topic": "c", "end_offset": None},
    {"topic": "a", "end_offset": 5},
    {"topic": "d", "end_offset": 70},
]
COLUMNS = ["topic", Column("end_offset", "END")]


@pytest.mark.parametrize(
    ("sort", "top", "topics"),
    [
        (None, None, "bcad"),
        (None, 3, "bca"),
        ("topic", None, "abcd"),
        ("end_offset", None, "dbac"),
        ("END-OFFSET", 1, "d"),
        ("end", 1, "d"),
    ],
)
def test_option_sort_sorts_names_ascending_numbers_descending_and_unknown_values_last(
    sort: str | None, top: int | None, topics: str
) -> None:
    assert "".join(row["topic"] for row in in_order(ROWS, sort, top, COLUMNS)) == topics


def test_error_about_an_unknown_sort_column_lists_the_columns() -> None:
    with pytest.raises(CommandError, match=r"--sort lag: choose one of topic, end$"):
        in_order(ROWS, "lag", None, COLUMNS)
