"""Tests of `--fail-on`: which groups match its states, and the sentences that name these groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.spelling import MisspelledError
from pipeline.engines.duck import DuckEngine
from pipeline.model.tables import CATCH_UP, DEAD_GROUPS
from pipeline.run.failing import LONG_MAX, STATES, Failing, failing, sentences, states_of
from tests.pipeline.relations import rows_of

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 14")]

ROWS = [
    ("both", "falling behind", 30), ("both", "stopped", 10), ("stuck", "stopped", 20),
    ("stuck", "stopped", 5), ("left", "nobody runs it", 40), ("dead", "nobody runs it", 60),
    ("reads", "falling behind", 90), ("above", "out of range", -5), ("huge", "stopped", LONG_MAX),
    ("huge", "stopped", LONG_MAX), ("fine", "caught up", 0), ("new", "not known", 3),
]  # fmt: skip


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    engine = DuckEngine(str(tmp_path_factory.mktemp("engine")))
    rows = [
        {"group_id": group, "topic": "t", "partition": nth, "verdict": verdict, "lag_records": lag}
        for nth, (group, verdict, lag) in enumerate(ROWS)
    ]
    engine.read("catch_up", [rows_of(CATCH_UP, rows)], CATCH_UP)
    dead = [{"group_id": name, "reason": "empty"} for name in ("dead", "reads")]
    engine.read("dead_groups", [rows_of(DEAD_GROUPS, dead)], DEAD_GROUPS)
    yield engine
    engine.close()


def test_option_fail_on_finds_each_group_with_a_partition_in_a_given_state(
    engine: DuckEngine,
) -> None:
    found = failing(engine, tuple(STATES), with_dead=False)

    assert [(each.state, each.group_id, each.partitions, each.lag_records) for each in found] == [
        ("drowning", "reads", 1, 90), ("drowning", "both", 1, 30),
        ("stuck", "huge", 2, LONG_MAX), ("stuck", "stuck", 2, 25), ("stuck", "both", 1, 10),
        ("nobody runs it", "dead", 1, 60), ("nobody runs it", "left", 1, 40),
        ("out of range", "above", 1, 0),
    ]  # fmt: skip
    assert failing(engine, (), with_dead=False) == ()


def test_option_fail_on_includes_dead_groups_in_the_state_drowning_but_not_in_other_states(
    engine: DuckEngine,
) -> None:
    found = failing(engine, ("drowning", "nobody runs it"), with_dead=True)

    assert [each.group_id for each in found] == ["reads", "both", "left"]


def test_option_fail_on_prints_the_first_groups_of_each_state_in_one_sentence() -> None:
    many = [Failing("stuck", f"g{nth}", 1, 1) for nth in range(10)]
    others = [Failing("out of range", "above", 1, 0), Failing("drowning", "billing", 3, 1800)]

    assert list(sentences([*others, *many])) == [
        "out of range: above (1 partition, no unread records)",
        "drowning: billing (3 partitions, 1,800 unread records)",
        "stuck: " + ", ".join(f"g{nth} (1 partition, 1 unread record)" for nth in range(8))
        + " and 2 more",
    ]  # fmt: skip
    assert list(sentences(())) == []


def test_option_fail_on_accepts_states_with_dashes_and_ignores_repetitions() -> None:
    assert states_of("stuck, nobody-runs-it,out-of-range,stuck") == (
        "stuck", "nobody runs it", "out of range"
    )  # fmt: skip
    for text, word in (
        ("stuck,sad", "'sad'"), ("", "''"), ("behind", "'behind'"),
        ("nobody runs it", "'nobody runs it'"), ("stuck,-stuck", "'-stuck'"),
    ):  # fmt: skip
        with pytest.raises(MisspelledError) as told:
            states_of(text)
        assert str(told.value) == (
            f"unknown state {word}: choose from drowning, stuck, nobody-runs-it, out-of-range"
        )
