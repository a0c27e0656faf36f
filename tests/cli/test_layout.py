"""Tables of commands are complete in a pipe, and fit the width of a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli import output
from cli.layout import Column, laid_out, shortened, shown

ROWS = [
    {"group": "billing", "topic": "orders.by.customer.and.country", "lag": 12_345, "note": None},
    {"group": "b", "topic": "o", "lag": None, "note": "7 is after the end of the log"},
]
COLUMNS = ["group", "topic", "lag", "note"]


def table(width: int | None, rows: Any = ROWS, columns: Any = COLUMNS, wide: bool = False) -> str:
    lines = laid_out(rows, columns, width, wide)
    return "\n".join([*lines.header, *lines.body])


def test_table_shows_complete_values_when_its_width_is_unlimited() -> None:
    assert table(None) == (
        "GROUP    TOPIC                             LAG  NOTE\n"
        "billing  orders.by.customer.and.country  12345  -\n"
        "b        o                                   -  7 is after the end of the log"
    )


def test_narrow_table_wraps_sentences_and_shortens_names() -> None:
    assert table(60) == (
        "GROUP    TOPIC                 LAG  NOTE\n"
        "billing  orders.b…d.country  12345  -\n"
        "b        o                       -  7 is after the end of\n"
        "                                    the log"
    )


def test_very_narrow_table_prints_the_note_of_a_row_below_the_row() -> None:
    assert table(40) == (
        "GROUP    TOPIC                       LAG\n"
        "    NOTE\n"
        "billing  orders.by.c….and.country  12345\n"
        "b        o                             -\n"
        "    7 is after the end of the log"
    )


def test_layout_returns_the_names_of_columns_that_do_not_fit_the_width() -> None:
    assert laid_out(ROWS, COLUMNS, 20).left_out == ["LAG"]


def test_columns_without_values_are_shown_only_with_the_wide_option() -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": None, "c": "", "d": []}]
    assert table(None, rows, ["a", "b", "c", "d"]) == "A\n1"
    assert table(None, rows, ["a", "b", "c", "d"], wide=True) == "A  B  C  D\n1  -  -  -"
    assert table(None, rows, ["b", "c"]) == "B\n-"
    assert table(None, rows, ["a", Column("b", always=True)]) == "A  B\n1  -"


def test_column_header_can_differ_from_the_field_name() -> None:
    assert table(None, [{"end_offset": 7}], [Column("end_offset", "END")]) == "END\n  7"


def test_wide_characters_have_a_width_of_two_cells() -> None:
    rows = [{"group": "注文の処理" * 4, "lag": 1}, {"group": "a", "lag": 22}]
    assert table(20, rows, ["group", "lag"]) == (
        "GROUP            LAG\n注文の…文の処理    1\na                 22"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        ([1, 2], "1,2"),
        (["a", "b"], "a, b"),
        ([{"topic": "a", "partitions": [0, 1]}, {"topic": "b", "partitions": [3]}], "a:0-1 b:3"),
        ("a\nb", "a\\nb"),
        ("[red]x", "[red]x"),
    ],
)
def test_cell_text_depends_on_the_type_of_the_value(value: Any, text: str) -> None:
    assert shown(value) == text


CELLS = st.none() | st.integers() | st.text(max_size=40) | st.lists(st.text(max_size=5))


@given(
    st.lists(st.fixed_dictionaries(dict.fromkeys("abcd", CELLS)), min_size=1, max_size=5),
    st.integers(16, 120),
)
def test_table_lines_fit_the_width_and_headers_are_not_shortened(
    rows: list[dict[str, Any]], width: int
) -> None:
    lines = laid_out(rows, ["a", "b", Column("c", "LONG-HEADER"), "d"], width)
    least = max([13, 8, *(len(shown(v)) for row in rows for v in row.values() if is_number(v))])
    for line in [*lines.header, *lines.body]:
        assert cell_len(line) <= max(width, least)
        assert line.isprintable()
    titles = " ".join(lines.header).split() + lines.left_out
    assert len(titles) == len(set(titles))
    assert set(titles) <= {"A", "B", "LONG-HEADER", "D"}


def is_number(value: object) -> bool:
    return isinstance(value, int)


PRINTED = st.text(min_size=1, max_size=60).filter(str.isprintable)


@pytest.mark.campaign
@given(PRINTED, st.integers(0, 70))
def test_shortened_name_fits_the_width_and_keeps_its_start_and_end(text: str, width: int) -> None:
    cut = shortened(text, width)
    assert cut == text if cell_len(text) <= width else cell_len(cut) <= width
    if cut != text and width > 4 and text.isascii():
        assert text.endswith(cut.rpartition("…")[2])
        assert text.startswith(cut.partition("…")[0])


@pytest.mark.parametrize(
    ("on_terminal", "printed"),
    [
        (
            True,
            "    see the retention of\n      orders\n    $ muster groups reset g --to-latest\n",
        ),
        (False, "    see the retention of orders\n    $ muster groups reset g --to-latest\n"),
    ],
)
def test_sentences_are_wrapped_on_a_terminal_but_commands_are_not(
    on_terminal: bool,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: on_terminal)
    monkeypatch.setenv("COLUMNS", "24")
    for line in (
        "    see the retention of orders",
        "    $ muster groups reset g --to-latest",
    ):
        output.say_folded(line)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("name", ["g" * 1000, "G" * 1000, "1" * 1000, "GROUP-" * 160])
def test_long_group_name_that_resembles_a_state_or_a_number_is_shortened(name: str) -> None:
    """In this table, only the values of the column with the group name may be shortened."""
    row = {"group": name, "commits": "1,200 > 900 (-25%)", "lag": "3 > 4 (+33%)"}

    lines = laid_out([row], list(row), 80)

    assert lines.left_out == []
    assert max(map(cell_len, [*lines.header, *lines.body])) <= 80
    assert "1,200 > 900 (-25%)" in lines.body[0]
