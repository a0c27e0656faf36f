"""What a reader in order says of each commit's previous one is what a sort of all commits says."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from offsets.runs import OffsetTombstones
from pipeline.contract import BATCHES, COMMIT, COMMIT_TOMBSTONE, GROUP
from pipeline.selection import SelectedSource, Selection
from pipeline.sources.chain import Chain
from pipeline.sources.event_rows import KIND, NONE, ROW
from pipeline.sources.segments import CHAIN_BYTES, chains_of, plan, read_chain, shared
from pipeline.spark_open import open_source
from pipeline.tables.commits import commits
from pipeline.tables.schemas import COMMITS
from tests.pipeline.conftest import Frame, at
from tests.pipeline.history import batch, told
from tests.pipeline.small_logs import NOON, batch_of, commit, generation, unpacked, write_segment

NAMES = ["", "a", "b", "orders"]
Event = tuple[str, int, int, int, int]
"""Kind, group and topic by their places in NAMES, partition, offset."""
events_of_few_keys = st.lists(
    st.tuples(
        st.sampled_from([COMMIT, COMMIT, COMMIT_TOMBSTONE, GROUP]),
        st.integers(1, 2),
        st.integers(2, 3),
        st.sampled_from([0, 1, -1, 2**31 - 1]),
        st.integers(-1, 2**63 - 1),
    ),
    max_size=40,
)


@given(events_of_few_keys, st.lists(st.integers(0, 40), max_size=4))
def test_it_is_that_of_a_dictionary_wherever_the_batches_end(
    events: list[Event], cuts: list[int]
) -> None:
    last: dict[tuple[int, int, int], tuple[int, int]] = {}
    expected: list[tuple[int, int] | None] = []
    for time_ms, (kind, group, topic, partition, offset) in enumerate(events):
        key = group, topic, partition
        expected.append(last.get(key) if kind == COMMIT else None)
        if kind == COMMIT:
            last[key] = offset, time_ms
        elif kind == COMMIT_TOMBSTONE:
            last.pop(key, None)

    chain, found = Chain(), list[tuple[int, int] | None]()
    places = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    for first, behind in itertools.pairwise(places):
        rows = rows_of(events[first:behind], first)
        offsets, times_ms, known = (column.tolist() for column in chain.previous(rows, NAMES))
        found += [
            (offset, time_ms) if is_known else None
            for offset, time_ms, is_known in zip(offsets, times_ms, known, strict=True)
        ]

    assert found == expected
    assert len(chain) == len(last)


def rows_of(events: list[Event], first_ms: int) -> Any:
    rows = np.zeros(len(events), ROW)
    for row, (kind, group, topic, partition, offset) in zip(rows, events, strict=True):
        row["kind"], row["group"], row["topic"] = KIND[kind], group, topic
        row["partition"], row["committed_offset"] = partition, offset
    rows["written_ms"] = np.arange(first_ms, first_ms + len(events))
    return rows


def test_a_commit_without_a_time_of_its_record_has_the_values() -> None:
    rows = rows_of([(COMMIT, 1, 3, 0, 7), (COMMIT, 1, 3, 0, 9)], 0)
    rows["written_ms"], rows["commit_ms"] = NONE, [5, 6]

    offsets, times_ms, known = Chain().previous(rows, NAMES)

    assert (offsets[1], times_ms.tolist(), known.tolist()) == (7, [NONE, 5], [False, True])


def test_a_chain_goes_on_over_segments_and_ends_with_its_partition(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of(0, commit("g", "t", [10, 20])))
    write_segment(tmp_path, 2, batch_of(2, commit("g", "t", [11, 19], NOON + 5)))
    write_segment(tmp_path, 0, batch_of(0, commit("g", "t", [70])), partition=1)

    chains = chains_of(plan({"path": str(tmp_path)}))

    rows = [row for chain in chains for batch in read_chain(chain) for row in batch.to_pylist()]
    noon = at(12 * 3600)
    assert [
        (row["log_partition"], row["committed_offset"], row["previous_offset"], row["previous_at"])
        for row in rows
    ] == [(0, 10, None, None), (0, 20, None, None), (0, 11, 10, noon), (0, 19, 20, noon),
          (1, 70, None, None)]  # fmt: skip


def test_small_partitions_share_a_task_and_a_large_one_has_its_own(tmp_path: Path) -> None:
    for partition in range(6):
        file = write_segment(tmp_path, 0, b"" if partition == 4 else b"0", partition=partition)
        if partition == 2:
            with file.open("r+b") as large:
                large.truncate(CHAIN_BYTES + 1)

    tasks = shared(chains_of(plan({"path": str(tmp_path)})), CHAIN_BYTES)

    read = [[segments[0].segment.partition for segments in task.parts] for task in tasks]
    assert read == [[0, 1], [2], [3, 5]], "and an empty one needs none"


def everything(table: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(told(table, *COMMITS.names), key=repr)


@pytest.mark.pipeline
def test_commits_are_the_same_by_a_chain_and_by_a_sort(
    spark: SparkSession, frame: Frame, tmp_path: Path
) -> None:
    data = unpacked("kafka-0.10.2.2-clean", tmp_path / "kafka")
    more = tmp_path / "made"
    write_segment(
        more, 0,
        batch_of(0, commit("g", "t", [1, 2, 3]), generation("g", 1, {"m": {"t": [0]}})),
        batch_of(4, OffsetTombstones("g", [("t", 1)]), commit("h", "t", [5], expire_ms=NOON)),
    )  # fmt: skip
    write_segment(more, 6, batch_of(6, commit("g", "t", [2, 2, 2], NOON + 60_000)))
    write_segment(more, 0, batch_of(0, commit("k", "t", [4], metadata=["x"])), partition=3)

    for folder, with_batches in ((data, False), (more, True)):
        source = open_source(spark, str(folder))
        batches = (
            frame([batch(3, 0, 1, topic="t"), batch(9, 2, 5, topic="t")], BATCHES)
            if with_batches
            else None
        )
        by_chain = everything(commits(source.chained(), batches))
        assert by_chain
        assert by_chain == everything(commits(source.events(), batches))
    begun = SelectedSource(open_source(spark, str(more)), Selection(since=at(0)))
    assert begun.chained() is None
    chosen = SelectedSource(open_source(spark, str(more)), Selection(groups=["h"], until=at(1e6)))
    part = chosen.chained()
    assert part is not None
    assert [row.group_id for row in part.collect()] == ["h"]
