"""Tests of the figures of a run's summary: values with units, which are formatted as text at the
end."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pipeline.model.events import ABORTED, COMMITTED
from pipeline.run import catalog
from pipeline.run.figures import Figure, words_of
from tests.pipeline.history import History, member
from tests.pipeline.relations import Relations, stretch

pytestmark = pytest.mark.pipeline


def figure_tuples(made: Relations, name: str) -> list[tuple[str, object, str, str | None]]:
    rows, figures = made.figures(name)
    assert json.dumps([asdict(figure) for figure in figures])
    assert rows == len(made.rows(name, "group_id", by="group_id"))
    return [(each.label, each.value, each.unit, each.of) for each in figures]


def test_summary_of_each_pipeline_table_has_figures_with_units(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10).commit(60, "a", 1500).commit(61, "b", 7)
    history.commit(62, "a", 200).commit(70, "b", 9, producer_id=1).marker(71, 1, ABORTED)
    history.commit(72, "c", 5, producer_id=1).marker(73, 1, COMMITTED)
    history.generation(74, "a", 1, member("m-1", 0))

    made = Relations(tmp_path, history.rows, [stretch(0, 0, 1999)], as_of=720)

    assert figure_tuples(made, "commits") == [
        ("groups", 3, "groups", None),
        ("topics", 1, "topics", None),
        ("from", "2026-01-01T00:00:00Z", "time", None),
        ("to", "2026-01-01T00:01:13Z", "time", None),
    ]
    assert figure_tuples(made, "transactional_commits") == [
        ("committed", 1, "commits", None),
        ("superseded", 0, "commits", None),
        ("aborted", 1, "commits", None),
        ("open", 0, "commits", None),
    ]
    assert figure_tuples(made, "rates") == [
        ("most in a minute", 2, "commits", "a"),
        ("read", 1490, "records", None),
    ]
    assert figure_tuples(made, "lag") == [
        ("most", 1995, "records", "c"),
        ("oldest unread", 720.0, "s", "a"),
    ]
    assert figure_tuples(made, "catch_up") == [
        ("will never catch up", 3, "partitions", None),
        ("falling behind", 0, "partitions", None),
        ("stopped", 3, "partitions", None),
        ("without members", 0, "partitions", None),
    ]


def test_figures_count_unknown_values_separately(tmp_path: Path) -> None:
    history = History().generation(0, "a", 1, member("m-1", 0)).commit(1, "a", 10)

    well = Relations(tmp_path / "well", history.rows)
    assert figure_tuples(well, "generations") == [("groups", 1, "groups", None)]
    assert [each[0] for each in figure_tuples(well, "expiring_offsets")] == [
        "expired",
        "will expire",
    ]

    bad = Relations(tmp_path / "bad", history.unknown(2, "a").rows)
    assert figure_tuples(bad, "generations")[1:] == [("not known", 1, "generations", None)]
    assert figure_tuples(bad, "expiring_offsets")[2:] == [("not known", 1, "offsets", None)]


def test_summary_of_an_empty_table_has_0_rows_and_no_figures(tmp_path: Path) -> None:
    made = Relations(tmp_path, [])

    assert [made.figures(name) for name in catalog.TABLES] == [(0, ())] * len(catalog.TABLES)


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (Figure("farthest", 1490, "records", "a"), "farthest 1,490 records (a)"),
        (Figure("farthest", 1, "records"), "farthest 1 record"),
        (Figure("groups", 3, "groups"), "3 groups"),
        (Figure("groups", 1, "groups"), "1 group"),
        (Figure("oldest unread", 59.6, "s"), "oldest unread 60 s"),
        (Figure("of the log", 0.347, "share"), "of the log 35%"),
        (Figure("from", "2026-01-01T00:00:00Z", "time"), "from 2026-01-01T00:00:00Z"),
        (Figure("will expire", 1, "offsets"), "1 offset will expire"),
    ],
)
def test_figure_is_formatted_as_text(figure: Figure, words: str) -> None:
    assert figure.words == words


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((9, 0, 6, 3), "9 partitions will never catch up: 6 stopped, 3 without members"),
        ((1, 1, 0, 0), "1 partition will never catch up: 1 falling behind"),
        ((0, 0, 0, 0), "0 partitions will never catch up"),
    ],
)
def test_text_of_a_report_total_names_each_count_that_is_part_of_the_total(
    counts: tuple[int, ...], words: str
) -> None:
    labels = ("will never catch up", "falling behind", "stopped", "without members")
    figures = [
        Figure(label, count, "partitions", part=nth > 0)
        for nth, (label, count) in enumerate(zip(labels, counts, strict=True))
    ]
    assert words_of(figures) == words
    assert words_of([*figures, Figure("groups", 2, "groups")]) == f"{words}, 2 groups"
