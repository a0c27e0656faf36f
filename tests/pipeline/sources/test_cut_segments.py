"""Tests of truncated logs: the reader reports the position of the truncation and the missing
offsets."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from pipeline.model.events import DAMAGED, TORN
from pipeline.sources.folder import FolderSource
from pipeline.sources.segment_files import segments_of
from pipeline.sources.segment_rows import OffsetRows, read_segment
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.pipeline.small_logs import (
    KAFKA_DIR_NAMES,
    NOON,
    batch_of,
    commit,
    rows_of,
    unpacked,
    write_segment,
)

FIRST = "00000000000000000000"


def unreadable(data: Path, partition: int | None = None) -> list[tuple[str, int, int | None, str]]:
    """Returns kind, log offset, position and reason of each unreadable range in a data folder."""
    partitions = None if partition is None else [partition]
    found: list[dict[str, Any]] = [
        row
        for part in FolderSource(str(data)).event_parts(partitions)
        for batch in part.read()
        for row in batch.to_pylist()
        if row["kind"] in (DAMAGED, TORN)
    ]
    return [
        (row["kind"], row["log_offset"], row["damage"]["position"], row["damage"]["reason"])
        for row in found
    ]


def boundaries(log: Path) -> list[tuple[int, int]]:
    """Returns, for each batch, the position of its end and the next log offset."""
    data = log.read_bytes()
    return [(header.end, header.last_offset + 1) for header, _ in iter_stored(data)]


@pytest.mark.parametrize("name", KAFKA_DIR_NAMES)
def test_complete_logs_of_kafka_have_no_damage(name: str, tmp_path: Path) -> None:
    assert unreadable(unpacked(name, tmp_path)) == []


@pytest.mark.parametrize("name", KAFKA_DIR_NAMES)
@pytest.mark.parametrize("into_a_batch", [0, 20])
def test_truncated_log_of_kafka_is_reported_damaged_at_its_end(
    name: str, into_a_batch: int, tmp_path: Path
) -> None:
    data = unpacked(name, tmp_path)
    log = data / "__consumer_offsets-1" / f"{FIRST}.log"
    ends = boundaries(log)
    position, due = next(each for each in ends if each[0] > log.stat().st_size // 3)
    os.truncate(log, position + into_a_batch)

    [(kind, offset, cut_at, reason)] = unreadable(data)

    assert (kind, offset, cut_at) == (DAMAGED, due, position)
    assert f"Offsets {due} to " in reason
    assert "are missing" in reason
    if into_a_batch:
        assert "A batch claims" in reason
    if "clean" in name:
        assert f"{due} to {ends[-1][1] - 1} are missing" in reason
        assert "according to replication-offset-checkpoint" in reason


def test_loss_of_records_in_a_copied_folder_is_detected_without_checkpoint(tmp_path: Path) -> None:
    data = unpacked("kafka-4.3.1-clean", tmp_path)
    folder = data / "__consumer_offsets-1"
    log = folder / f"{FIRST}.log"
    end = boundaries(log)[-1][1]
    for file in data.glob("*checkpoint"):
        file.unlink()
    os.truncate(log, 8000)

    [(_, _, _, reason)] = unreadable(folder)
    assert f"to {end - 1} are missing: according to {end:020d}.snapshot they were written" in reason

    (folder / f"{end:020d}.snapshot").unlink()
    [(_, _, _, reason)] = unreadable(folder)
    assert "are missing: according to the segment's index they were written" in reason

    (folder / f"{FIRST}.index").unlink()
    [(kind, _, _, reason)] = unreadable(folder)
    assert kind == TORN, "nothing says that there was more than a batch"
    assert "the segment has" in reason


def test_pipeline_reports_the_missing_offsets_of_a_log_file_truncated_to_zero(
    tmp_path: Path,
) -> None:
    data = unpacked("kafka-4.3.1-killed", tmp_path)
    os.truncate(data / "__consumer_offsets-2" / f"{FIRST}.log", 0)
    [(kind, offset, position, reason)] = unreadable(data)
    assert (kind, offset, position) == (DAMAGED, 0, 0)
    assert "Offsets 0 to 250 are missing: according to replication-offset-checkpoint" in reason


def test_deleted_partition_is_reported_missing(tmp_path: Path) -> None:
    data = unpacked("kafka-4.3.1-killed", tmp_path)
    shutil.rmtree(data / "__consumer_offsets-2")
    [(kind, offset, position, reason)] = unreadable(data)
    assert (kind, offset, position) == (DAMAGED, 0, None)
    assert reason == (
        "can't open the segment: No such file or directory; according to"
        " replication-offset-checkpoint, offsets up to 250 were written"
    )
    assert unreadable(data, 2) != []
    assert unreadable(data, 1) == []


def test_missing_segments_are_reported_as_damage_when_a_checkpoint_lists_their_partition(
    tmp_path: Path,
) -> None:
    data = unpacked("kafka-4.3.1-killed", tmp_path)
    for segment in (data / "__consumer_offsets-2").glob("*.log"):
        segment.unlink()
    [(kind, offset, position, reason)] = unreadable(data)
    assert (kind, offset, position) == (DAMAGED, 0, None)
    assert "offsets up to 250 were written" in reason


def test_partition_folder_without_segments_and_checkpoints_produces_no_rows(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    assert rows_of(tmp_path) == []
    source = FolderSource(str(tmp_path))
    assert (source.starts(), source.records_estimate(), source.event_parts(None)) == ({}, 0, [])
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert unreadable(tmp_path) == [], "an epoch that began before the first record says nothing"


def batches(first: int, behind: int) -> list[bytes]:
    return [batch_of(base, commit("g", "t", range(10))) for base in range(first, behind, 10)]


def cleaned(data: Path, offset: int) -> None:
    (data / "cleaner-offset-checkpoint").write_text(f"0\n1\n__consumer_offsets 0 {offset}\n")


def test_gap_before_the_next_segment_is_damage_unless_the_log_was_cleaned(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *batches(0, 20))
    write_segment(tmp_path, 40, *batches(40, 50))
    size = sum(map(len, batches(0, 20)))
    missing = (
        DAMAGED, 20, size,
        "Offsets 20 to 39 are missing: according to the next segment's name they were written.",
    )  # fmt: skip
    assert unreadable(tmp_path) == [missing]
    cleaned(tmp_path, 0)
    assert unreadable(tmp_path) == [missing], "no cleaner has been there"
    cleaned(tmp_path, 40)
    assert unreadable(tmp_path) == [], "compaction takes the last records of a segment too"


def test_missing_end_of_a_cleaned_segment_is_detected_from_its_index(tmp_path: Path) -> None:
    value = struct.pack(">hqihq", 3, 9, -1, 0, NOON)
    left = encode_batch(
        [Record(3, NOON, b"\0\1\0\1g\0\1t\0\0\0\0", value)], base_offset=0, last_offset=9
    )
    write_segment(tmp_path, 0, left)
    write_segment(tmp_path, 40, *batches(40, 50))
    assert unreadable(tmp_path) == []
    (tmp_path / "__consumer_offsets-0" / f"{FIRST}.index").write_bytes(
        struct.pack(">iiii", 9, 0, 29, 4000) + bytes(800)
    )
    [(kind, offset, _, reason)] = unreadable(tmp_path)
    assert (kind, offset) == (DAMAGED, 10)
    assert "Offsets 10 to 29 are missing: according to the segment's index" in reason


def test_single_missing_record_at_the_end_of_a_log_is_reported(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *batches(0, 20))
    (tmp_path / "__consumer_offsets-0" / "leader-epoch-checkpoint").write_text("0\n1\n4 21\n")
    [(_, _, _, reason)] = unreadable(tmp_path)
    assert reason == (
        "The record at offset 20 is missing: according to leader-epoch-checkpoint it was written."
    )


@pytest.mark.parametrize("text", ["", "0\n", "1\n1\n4 90\n", "0\n1\n4 x\n", "0\n1\n4\n", "\xff"])
def test_unreadable_checkpoint_is_ignored(tmp_path: Path, text: str) -> None:
    write_segment(tmp_path, 0, *batches(0, 20))
    folder = tmp_path / "__consumer_offsets-0"
    (folder / "leader-epoch-checkpoint").write_text(text)
    (tmp_path / "replication-offset-checkpoint").write_text(text)
    (folder / f"{FIRST}.index").write_bytes(b"\0\0\0")
    assert unreadable(tmp_path) == []


def test_log_that_changed_after_planning_is_not_reported_damaged(tmp_path: Path) -> None:
    """Between planning and reading, a cleaner can replace files, and a running broker can add
    segments."""
    write_segment(tmp_path, 0, *batches(0, 20))
    folder = tmp_path / "__consumer_offsets-0"
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n4 60\n")
    [segment] = segments_of("__consumer_offsets", 0, str(folder))
    write_segment(tmp_path, 20, *batches(20, 60))
    [batch] = read_segment(segment, OffsetRows(segment))
    assert set(batch.column("kind").to_pylist()) == {"commit"}
