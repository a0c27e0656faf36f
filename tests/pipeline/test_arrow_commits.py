"""Commits made of Arrow batches are those that are made of frames, to the last column."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.contract import (
    BATCHES,
    CHAINED,
    COMMIT,
    COMMIT_TOMBSTONE,
    DAMAGED,
    GROUP,
    UNKNOWN,
)
from pipeline.tables.arrow_commits import COMMITS_ARROW, RecordTimes, commits_of
from pipeline.tables.commits import commits
from tests.pipeline.conftest import Frame, at

CHAINED_ARROW = to_arrow_schema(CHAINED)
FAR = 2**63 - 1
TIMES = (0, 1, 60.001, 86_399.999, 86_400, -1, 3e9, -1.8e9, -1.8e9 - 0.001, None)
OFFSETS = (-FAR - 1, -1, 0, 1, 9, 10, 11, 4_999, 5_000, FAR, None)


def chained(chance: random.Random, log_offset: int) -> dict[str, Any]:
    """Any row that a history may have, and some that none has."""

    def time() -> datetime | None:
        seconds = chance.choice(TIMES)
        return None if seconds is None else at(seconds)

    kind = chance.choice([COMMIT] * 6 + [COMMIT_TOMBSTONE, GROUP, DAMAGED, UNKNOWN])
    row = {"log_partition": 3, "log_offset": log_offset, "written_at": time(), "kind": kind}
    if kind != COMMIT:
        return row
    return row | {
        "group_id": chance.choice(("", "a", "groß")),
        "topic": chance.choice(("orders", "payments", "unheard-of")),
        "partition": chance.choice((0, 1, 2**31 - 1, -1)),
        "committed_offset": chance.choice(OFFSETS[:-1]),
        "leader_epoch": chance.choice((None, 0, 7)),
        "metadata": chance.choice(("", "x")),
        "commit_at": time(),
        "expire_at": time(),
        "previous_offset": chance.choice(OFFSETS),
        "previous_at": time(),
    }


def batches_of(chance: random.Random) -> list[dict[str, Any]]:
    """Batches of two topics with holes between them; some without a time, none of a third."""
    rows = []
    for topic in ("orders", "payments"):
        for partition in (0, 1, 2**31 - 1, -1)[: chance.randint(1, 4)]:
            last = chance.choice((-1, 8))
            for number in range(chance.randint(0, 4)):
                base, last = last + chance.randint(1, 3), last + chance.choice((4, 5, 5_000))
                first = None if chance.random() < 0.2 else at(1000 * number)
                rows.append(
                    {"topic": topic, "partition": partition, "base_offset": base,
                     "last_offset": last, "first_at": first, "size_bytes": 1}
                )  # fmt: skip
    chance.shuffle(rows)
    return rows


def table_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.pipeline
@pytest.mark.parametrize("with_batches", [True, False])
def test_each_row_is_that_of_the_frame(frame: Frame, with_batches: bool) -> None:
    chance = random.Random(7)
    rows = [chained(chance, number) for number in range(3_000)]
    batches = batches_of(chance)
    known = frame(batches, BATCHES) if with_batches else None
    made = commits(frame(rows, CHAINED), known).toArrow().sort_by("log_offset")

    times = RecordTimes(table_of(batches, to_arrow_schema(BATCHES))) if with_batches else None
    [given_rows] = table_of(rows, CHAINED_ARROW).combine_chunks().to_batches()
    ours = pa.Table.from_batches([commits_of(given_rows, times)])

    assert ours.num_rows > 1_500
    assert (ours["record_at"].null_count < ours.num_rows) is with_batches
    for name in COMMITS_ARROW.names:
        assert ours[name].to_pylist() == made[name].to_pylist(), name


@given(
    st.dictionaries(st.integers(-3, 30), st.integers(0, 5) | st.none(), max_size=8),
    st.lists(st.integers(-5, 40) | st.none(), max_size=12),
)
def test_a_records_time_is_that_of_the_first_batch_that_does_not_end_before_it(
    ends: dict[int, int | None], asked: list[int | None]
) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    when = {
        end: None if minutes is None else noon + timedelta(minutes=minutes)
        for end, minutes in ends.items()
    }
    batches = [
        {"topic": "t", "partition": 1, "base_offset": end, "last_offset": end, "first_at": first,
         "size_bytes": 1}
        for end, first in when.items()
    ]  # fmt: skip
    times = RecordTimes(table_of(batches, to_arrow_schema(BATCHES)))
    rows = pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t"] * len(asked), pa.string()),
            "partition": pa.array([1] * len(asked), pa.int32()),
            "offset": pa.array(asked, pa.int64()),
        }
    )

    def expected(offset: int) -> datetime | None:
        behind = [end for end in when if end >= offset]
        return when[min(behind)] if behind else None

    assert times.at(rows, "offset").to_pylist() == [
        None if offset is None else expected(offset) for offset in asked
    ]
