"""Tests of a source folder with segments. The source divides the history into parts that other
processes can read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import PipelineError
from pipeline.model.events import EVENTS, STRETCHES
from pipeline.sources.folder import PART_BYTES, in_parts
from pipeline.sources.open import open_source
from pipeline.sources.segment_files import Segment
from pipeline.sources.source import TimesAsked
from tests.pipeline.small_logs import NOON, batch_of, commit, small_history, write_segment

pytestmark = pytest.mark.proves("pipeline 2")


def read(parts: object, schema: pa.Schema) -> pa.Table:
    batches = [batch for part in pickle.loads(pickle.dumps(parts)) for batch in part.read()]
    return pa.Table.from_batches(batches, schema)


def test_source_folder_is_read_in_parts_that_can_be_pickled(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch_of(0, commit("g", "orders", [7])), topic="orders")
    source = open_source(str(small_history(tmp_path)))

    events = read(source.event_parts(None), EVENTS)
    stretches = read(source.stretch_parts(TimesAsked({"orders", "gone"}, NOON)), STRETCHES)

    assert events["committed_offset"].to_pylist() == [10, 40]
    assert stretches["topic"].to_pylist() == ["orders", "orders"]
    assert stretches["base_offset"].to_pylist() == [0, 0]
    assert stretches["last_offset"].to_pylist() == [0, -1], "the second says where the log begins"
    assert stretches["last_at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == [
        NOON,
        None,
    ]
    assert source.topics() == {"orders"}
    assert source.cluster_id == "one"
    assert (source.event_files(), source.end_ms(), source.moved_bytes()) == (None, None, 0)
    assert (source.records_estimate() or 0) > 0


def test_folder_source_rejects_the_selection_of_an_unknown_partition(history: Path) -> None:
    write_segment(history, 0, batch_of(0, commit("h", "orders", [3])), partition=4)
    source = open_source(str(history))

    assert read(source.event_parts([4]), EVENTS)["group_id"].to_pylist() == ["h"]
    with pytest.raises(PipelineError, match="has no partition 5 of __consumer_offsets"):
        source.event_parts([4, 5])


def test_small_segments_are_read_in_one_part_and_empty_segments_are_omitted(tmp_path: Path) -> None:
    def segment(number: int, size: int) -> Segment:
        file = tmp_path / str(number)
        with file.open("wb") as out:
            out.truncate(size)
        return Segment(str(file), "t", 0, number, None)

    sizes = [10, PART_BYTES * 2, 0, PART_BYTES // 2, PART_BYTES // 2 - 10, 20]
    parts = in_parts([segment(number, size) for number, size in enumerate(sizes)])

    assert [[each.base_offset for each in part] for part in parts] == [[0], [1], [3, 4], [5]]


def test_tables_that_a_run_wrote_are_accepted_as_source(history: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    (tables / "events").mkdir(parents=True)
    (tables / "_muster.json").write_text('{"cluster_id": "one"}')
    events = read(open_source(str(history)).event_parts(None), EVENTS)
    pq.write_table(events, tables / "events" / "part-0.parquet")

    source = open_source(str(tables))

    assert source.event_files() == [str(tables / "events")]
    assert source.event_parts(None) is None
    assert source.records_estimate() == 2
    assert (source.cluster_id, source.topics(), source.stretch_files()) == ("one", None, None)
