"""Tests of folders with complete, live, truncated, corrupt or partly cleaned segments. The reader
reports all damage."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import PipelineError
from pipeline.sources import segment_reader
from pipeline.sources.segment_files import cluster_id_of, partition_folders
from pipeline.sources.segment_rows import OffsetRows, StretchRows, read_segment
from pipeline.sources.segments import SegmentsReader, plan
from protocol.records import message_set
from protocol.records.batch import (
    COMMIT,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    assemble_batch,
    encode_batch,
)
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record
from tests.pipeline.small_logs import NOON, batch_of, commit, rows_of, write_segment

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 2")]


def batches(count: int, first: int = 0) -> list[bytes]:
    """Returns ``count`` batches of ten offsets each. The first batch begins at log offset
    ``first``."""
    return [
        batch_of(base, commit(f"g{base}", "t", range(base, base + 10)))
        for base in range(first, first + 10 * count, 10)
    ]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["log_offset"] for row in rows if row["kind"] == "commit"]


def damage(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [
        (row["log_offset"], row["damage"]["position"], row["damage"]["reason"])
        for row in rows
        if row["kind"] == "damaged"
    ]


def test_all_segments_of_all_partitions_are_read_in_order(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *batches(3))
    write_segment(tmp_path, 30, *batches(2, 30))
    write_segment(tmp_path, 0, *batches(1), partition=12)
    (tmp_path / "__consumer_offsets-0" / "00000000000000000030.index").write_bytes(b"x")
    (tmp_path / "ordinary-0").mkdir()
    rows = rows_of(tmp_path)
    assert offsets(rows) == [*range(50), *range(10)]
    assert [row["log_partition"] for row in rows] == [0] * 50 + [12] * 10


def test_partition_folder_and_file_uri_are_accepted_as_source(tmp_path: Path) -> None:
    folder = write_segment(tmp_path, 0, *batches(1), partition=3).parent
    for where in (str(folder), f"file://{tmp_path}", f"file:{tmp_path}"):
        [segment], _ = plan({"path": where})
        assert segment.partition == 3


def test_only_selected_partitions_and_offsets_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path, 0, *batches(3))
    write_segment(tmp_path, 30, *batches(3, 30))
    write_segment(tmp_path, 60, *batches(3, 60))
    write_segment(tmp_path, 0, *batches(1), partition=1)
    asked = {"partitions": "0", "start_offset": "35", "end_offset": "52"}
    segments, wanted = plan({"path": str(tmp_path), **asked})
    assert ([segment.base_offset for segment in segments], wanted) == ([30], (35, 52))
    assert offsets(rows_of(tmp_path, **asked)) == list(range(35, 52))
    assert len(plan({"path": str(tmp_path), "partitions": "1, 7"})[0]) == 1
    records = rows_of(tmp_path, "records", **asked)
    assert [row["offset"] for row in records] == list(range(35, 52))


def test_flipped_bit_damages_only_its_batch(tmp_path: Path) -> None:
    made = batches(5)
    file = write_segment(tmp_path, 0, *made)
    data = bytearray(b"".join(made))
    start = len(made[0] + made[1])
    data[start + 200] ^= 4
    file.write_bytes(data)
    rows = rows_of(tmp_path)
    assert offsets(rows) == [*range(20), *range(30, 50)]
    [(offset, position, reason)] = damage(rows)
    assert (offset, position) == (20, start)
    assert "CRC" in reason
    assert {r["damage"]["file"] for r in rows if r["damage"]} == {str(file)}
    [row] = [row for row in rows_of(tmp_path, "records") if row["damage"]]
    assert (row["offset"], row["key"], row["value"]) == (20, None, None)
    assert row["damage"]["position"] == position


@pytest.mark.parametrize("claimed", [-1, 0, 5, 1 << 20, 0x7FFFFFFF])
def test_next_batch_is_found_after_a_batch_with_a_wrong_length(
    tmp_path: Path, claimed: int
) -> None:
    made = batches(5)
    bad = bytearray(made[1])
    bad[8:12] = claimed.to_bytes(4, "big", signed=True)
    write_segment(tmp_path, 0, made[0], bytes(bad), *made[2:])
    rows = rows_of(tmp_path)
    assert offsets(rows) == [*range(10), *range(20, 50)]
    [(offset, position, reason)] = damage(rows)
    assert (offset, position) == (10, len(made[0]))
    assert f"size of {claimed + 12} bytes" in reason


def test_garbage_of_any_length_between_batches_makes_one_row_of_kind_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", 4096)
    made = batches(4)
    rubbish = random.Random(1).randbytes(50_000)
    write_segment(tmp_path, 0, *made[:2], rubbish, *made[2:])
    rows = rows_of(tmp_path)
    assert offsets(rows) == list(range(40))
    assert [(d[0], d[1]) for d in damage(rows)] == [(20, len(made[0] + made[1]))]


def test_unreadable_segment_produces_one_row_with_the_kind_damaged(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, random.Random(2).randbytes(20_000))
    write_segment(tmp_path, 10, *batches(1, 10))
    rows = rows_of(tmp_path)
    assert offsets(rows) == list(range(10, 20))
    [(offset, position, reason)] = damage(rows)
    assert (offset, position) == (0, 0)
    assert "The rest of the segment can't be read" in reason


@pytest.mark.parametrize("kept", [11, 16, 17, 40, HEADER_BYTES, 200])
def test_torn_tail_of_the_last_segment_is_not_damage(tmp_path: Path, kept: int) -> None:
    """A running broker may still be writing the last batch. A crashed broker truncates a torn tail
    when it restarts."""
    made = batches(3)
    write_segment(tmp_path, 0, *made[:2], made[2][:kept])
    rows = rows_of(tmp_path)
    assert offsets(rows) == list(range(20))
    assert damage(rows) == []
    [torn] = [row for row in rows if row["kind"] == "torn_tail"]
    assert (torn["log_offset"], torn["damage"]["position"]) == (20, len(made[0] + made[1]))
    assert torn["damage"]["reason"].startswith("The log ends in the middle of a batch.")
    assert len(rows_of(tmp_path, "records")) == 20


def test_preallocated_space_after_the_last_batch_is_not_damage(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *batches(2), bytes(3_000_000))
    assert offsets(rows_of(tmp_path)) == list(range(20))
    assert damage(rows_of(tmp_path)) == []


@pytest.mark.parametrize("kept", [5, 40, 200])
def test_truncated_segment_before_the_last_is_damaged(tmp_path: Path, kept: int) -> None:
    made = batches(3)
    write_segment(tmp_path, 0, *made[:2], made[2][:kept])
    write_segment(tmp_path, 30, *batches(1, 30))
    rows = rows_of(tmp_path)
    assert offsets(rows) == [*range(20), *range(30, 40)]
    assert [(d[0], d[1]) for d in damage(rows)] == [(20, len(made[0] + made[1]))]


def test_batch_with_a_misplaced_base_offset_is_damaged(tmp_path: Path) -> None:
    """The checksum does not cover the base offset. A base offset is wrong if it is below the
    previous offset, or above the base offset of the next segment."""
    write_segment(tmp_path, 0, *batches(2), *batches(1), *batches(1, 20), *batches(1, 90))
    write_segment(tmp_path, 30, *batches(1, 30))
    rows = rows_of(tmp_path)
    assert offsets(rows) == list(range(40))
    assert [
        "offset 20 or more was expected" in d[2] or "next segment" in d[2] for d in damage(rows)
    ] == [True] * 2


def test_records_of_a_batch_with_a_too_high_record_count_are_read(tmp_path: Path) -> None:
    """The checksum of the batch is correct, so the wrong record count was written by the
    producer."""
    section = batch_of(0, commit("g", "t", range(10)))[HEADER_BYTES:]
    write_segment(tmp_path, 0, assemble_batch(section, 12, 0, NOON, NOON), *batches(1, 20))
    rows = rows_of(tmp_path)
    assert offsets(rows) == [*range(10), *range(20, 30)]
    [(offset, position, _)] = damage(rows)
    assert (offset, position) == (10, 0)


def test_files_with_suffix_swap_deleted_or_cleaned_are_handled_as_in_kafka(tmp_path: Path) -> None:
    folder = write_segment(tmp_path, 0, *batches(1)).parent
    write_segment(tmp_path, 10, *batches(1, 10))
    write_segment(tmp_path, 20, *batches(1, 20))
    name = "{:020d}.log{}".format
    (folder / name(5, ".deleted")).write_bytes(batches(1, 90)[0])
    (folder / name(0, ".swap")).write_bytes(
        b"".join(batch_of(base, commit("kept", "t", [7])) for base in (3, 13))
    )
    rows = rows_of(tmp_path)
    assert [(row["log_offset"], row["group_id"]) for row in rows][:2] == [(3, "kept"), (13, "kept")]
    assert offsets(rows) == [3, 13, *range(20, 30)]
    (folder / name(0, ".cleaned")).write_bytes(b"half")
    assert offsets(rows_of(tmp_path)) == list(range(30)), "its sources are the log still"


def test_segment_renamed_after_planning_is_read_under_its_deleted_name(tmp_path: Path) -> None:
    file = write_segment(tmp_path, 0, *batches(1))
    [segment], _ = plan({"path": str(tmp_path)})
    file.rename(f"{file}.deleted")
    assert sum(batch.num_rows for batch in read_segment(segment, OffsetRows(segment))) == 10
    os.remove(f"{file}.deleted")
    [batch] = read_segment(segment, OffsetRows(segment))
    [row] = batch.to_pylist()
    assert (row["kind"], row["log_offset"], row["damage"]["position"]) == ("damaged", 0, None)
    assert "No such file" in row["damage"]["reason"]
    with pytest.raises(PipelineError, match="can't open the segment"):
        list(read_segment(segment, StretchRows(segment)))


def test_empty_segment_has_no_rows(tmp_path: Path) -> None:
    write_segment(tmp_path, 0)
    assert rows_of(tmp_path) == []


def test_batches_that_are_larger_than_one_read_are_read_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", 100)
    write_segment(tmp_path, 0, *batches(3), batch_of(30, commit("g", "t", range(1000))))
    assert offsets(rows_of(tmp_path)) == list(range(1030))


def test_records_of_any_topic_are_read(tmp_path: Path) -> None:
    made = [
        Record(0, NOON, b"k", b"v", [("h", b"1"), ("h", None)]),
        Record(1, NOON + 1, None, b""),
        Record(2, NOON + 2, b"", None),
    ]
    stamped = encode_batch(
        [Record(3, NOON, b"k", b"v")], timestamp_type=LOG_APPEND_TIME, max_timestamp=NOON + 9
    )
    write_segment(tmp_path, 0, encode_batch(made, compression=4), stamped, topic="t")
    rows = rows_of(tmp_path, "records", topic="t")
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"k", b"v"), (None, b""), (b"", None), (b"k", b"v")
    ]  # fmt: skip
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows[1]["headers"] is None
    assert [row["timestampType"] for row in rows] == [0, 0, 0, 1]
    times = [round(row["timestamp"].timestamp() * 1000) - NOON for row in rows]
    assert times == [0, 1, 2, 9]
    assert {(row["topic"], row["partition"]) for row in rows} == {("t", 0)}


def test_rows_of_table_batches_come_from_batch_headers(tmp_path: Path) -> None:
    batch = encode_batch([Record(i, NOON + i, b"k", b"v") for i in range(5, 9)])
    old = message_set.encode([Record(i, NOON + i, b"k", b"v") for i in range(9, 12)], 1, 1)
    write_segment(tmp_path, 5, batch, old, topic="t", partition=2)
    first, second = rows_of(tmp_path, "batches", topic="*")
    assert (first["topic"], first["partition"]) == ("t", 2)
    spans = [(r["base_offset"], r["last_offset"], r["size_bytes"]) for r in (first, second)]
    assert spans == [(5, 8, len(batch)), (9, 11, len(old))]
    assert [round(first[n].timestamp() * 1000) - NOON for n in ("first_at", "last_at")] == [5, 8]
    assert second["first_at"] is None, "it is known only when the wrapper is opened"
    assert round(second["last_at"].timestamp() * 1000) - NOON == 11


def test_timestamp_that_a_broker_set_proves_when_the_log_end_offset_was_reached(
    tmp_path: Path,
) -> None:
    """A broker sets the timestamps of markers and of LogAppendTime records, so they show when the
    records were appended."""
    plain = encode_batch([Record(0, NOON, b"k", b"v")])
    stamped = [
        encode_batch(
            [Record(n, NOON, b"k", b"v")], timestamp_type=LOG_APPEND_TIME, max_timestamp=NOON + n
        )
        for n in (1, 2)
    ]
    write_segment(tmp_path, 0, plain, *stamped, topic="stamped")
    marker = encode_end_transaction(
        COMMIT, base_offset=1, timestamp=NOON + 5, producer_id=7, producer_epoch=0,
        coordinator_epoch=0,
    )  # fmt: skip
    last = encode_batch([Record(2, NOON, b"k", b"v")])
    write_segment(tmp_path, 0, plain, marker, last, topic="transacted")

    for topic, end, at_ms in (("stamped", 2, NOON + 1), ("transacted", 2, NOON + 5)):
        rows = rows_of(tmp_path, "batches", topic=topic)
        assert [row["base_offset"] for row in rows] == [0, 1, end, 2]
        [seen] = [row for row in rows if row["last_offset"] < row["base_offset"]]
        assert (seen["first_at"], seen["last_offset"]) == (None, end - 1)
        assert round(seen["last_at"].timestamp() * 1000) == at_ms


def test_unreadable_folder_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(options: dict[str, str]) -> str:
        with pytest.raises(PipelineError) as error:
            plan(options)
        return str(error.value)

    where = str(tmp_path)
    assert f"the folder {where}/absent does not exist" in refused({"path": f"{where}/absent"})
    assert "has no partition of __consumer_offsets" in refused({"path": where})
    (tmp_path / "file.tar").write_bytes(b"")
    assert "unpack an archive first" in refused({"path": f"{where}/file.tar"})
    assert "mount this folder on these machines" in refused({"path": "hdfs://host/logs"})
    write_segment(tmp_path, 0)
    with pytest.raises(PipelineError, match="as=rows"):
        SegmentsReader({"path": where, "as": "rows"})
    assert "partitions=a" in refused({"path": where, "partitions": "a"})
    assert "start_offset=-1" in refused({"path": where, "start_offset": "-1"})

    def forbidden(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", forbidden)
    assert f"{where} can't be read" in refused({"path": where})


def test_two_source_folders_of_different_clusters_are_rejected(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_segment(one, 0, *batches(1))
    write_segment(two, 0, *batches(1), partition=1)
    both = f"{one},{two}"
    assert sorted(partition_folders(both)) == [
        ("__consumer_offsets", 0),
        ("__consumer_offsets", 1),
    ]
    assert cluster_id_of(both) is None
    (one / "meta.properties").write_text("version=1\ncluster.id=first\n")
    assert cluster_id_of(both) == "first"
    assert cluster_id_of(str(one / "__consumer_offsets-0")) == "first"
    (two / "meta.properties").write_text("cluster.id=second\n")
    with pytest.raises(PipelineError, match="one cluster at a time"):
        cluster_id_of(both)
    write_segment(two, 0, *batches(1))
    with pytest.raises(PipelineError, match="are both folders of __consumer_offsets-0"):
        partition_folders(both)
