"""Muster opens directories that Apache Kafka wrote, and reads all records that Kafka
acknowledged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from log.checkpoint import (
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    read_clean_shutdown,
    read_offsets,
    write_offsets,
)
from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.missed import Expected
from log.partition_log import PartitionLog
from log.segment import Segment
from protocol.records.stored import stored_records
from tests.log.log_tools import KAFKA_DIRECTORIES, unpack_kafka_directory

FS = OsFileSystem()


def open_partitions(data: Path, clean: bool) -> dict[tuple[str, int], PartitionLog]:
    points = read_offsets(FS, str(data / RECOVERY_POINT))
    logs = {}
    for directory in sorted(data.glob("*-[0-9]*")):
        topic, _, partition = directory.name.rpartition("-")
        place = topic, int(partition)
        logs[place] = PartitionLog.open(
            FS, str(directory), *place, LogConfig(), expected=Expected(points.get(place, 0)),
            clean=clean,
        )  # fmt: skip
    return logs


@pytest.fixture(params=sorted(path.name for path in KAFKA_DIRECTORIES.glob("kafka-*")))
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict]:
    data = unpack_kafka_directory(request.param, tmp_path)
    return data, json.loads((KAFKA_DIRECTORIES / request.param / "expect.json").read_text())


def test_log_of_a_kafka_directory_has_every_record_that_kafka_acknowledged(
    kafka: tuple[Path, dict],
) -> None:
    data, expect = kafka
    logs = open_partitions(data, read_clean_shutdown(FS, str(data)))

    seen = 0
    for topic, partitions in expect["topics"].items():
        for partition, acknowledged in partitions.items():
            found = {
                record.offset: [
                    record.offset,
                    None if record.key is None else record.key.decode(),
                    None if record.value is None else record.value.decode(),
                ]
                for buffer, header in logs[topic, int(partition)].scan()
                for record in stored_records(buffer, header)
            }
            for entry in acknowledged:
                assert found[entry[0]] == entry
                seen += 1
    assert seen > 1000


def test_log_end_offsets_equal_kafkas_checkpoints(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-clean", tmp_path)
    ends = {place: log.log_end_offset for place, log in open_partitions(data, True).items()}

    assert ends == read_offsets(FS, str(data / HIGH_WATERMARK))
    assert ends == read_offsets(FS, str(data / RECOVERY_POINT))
    assert read_offsets(FS, str(data / LOG_START_OFFSET)) == {}


def test_padded_indexes_of_a_killed_kafka_are_rebuilt(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-killed", tmp_path)
    padded = data / "t-none-0" / "00000000000000000000.index"
    assert padded.stat().st_size == 65536

    log = open_partitions(data, clean=False)["t-none", 0]
    assert log.recovery.checked_bytes == log.size_bytes
    assert log.recovery.cuts == []
    log.close()

    assert padded.read_bytes() == bytes.fromhex("00000067 00001397")


def test_kafkas_indexes_locate_the_same_batches_as_rebuilt_indexes(
    kafka: tuple[Path, dict],
) -> None:
    data, expect = kafka
    entries = 0
    for path in sorted(data.glob("*-[0-9]*")):
        theirs = Segment(FS, str(path), 0, 1 << 20, create=False)
        assert theirs.load_indexes() is None
        end_offset = theirs.load_tail()
        ours = Segment(FS, str(path), 0, 1 << 20, create=False)
        assert ours.rebuild_indexes(interval_bytes=4096) == end_offset

        entries += theirs.index.count
        offsets = range(end_offset + 1)
        assert [*map(theirs.locate, offsets)] == [*map(ours.locate, offsets)]
        assert theirs.max_timestamp_ms == ours.max_timestamp_ms
        if expect["kafka"] == "kafka-0.10.2.2":
            continue  # 0.10.2.2 indexes the first offset of an append, 4.3.1 the last offset
        assert [*map(theirs.index.lookup, offsets)] == [*map(ours.index.lookup, offsets)]
        times = [theirs.time_index.entry(index) for index in range(theirs.time_index.count)]
        # Kafka adds the largest timestamp a second time when it closes a segment.
        ours.time_index.append(ours.max_timestamp_ms, ours.max_timestamp_offset)
        assert times == [ours.time_index.entry(index) for index in range(len(times))]
        assert theirs.max_timestamp_offset == ours.max_timestamp_offset
    assert entries > 5


def test_records_of_kafka_are_found_by_timestamp(kafka: tuple[Path, dict]) -> None:
    data, _ = kafka
    for (topic, _), log in open_partitions(data, read_clean_shutdown(FS, str(data))).items():
        if topic.startswith("__") or not log.size_bytes:
            continue
        records = [r for buffer, header in log.scan() for r in stored_records(buffer, header)]
        latest = max(record.timestamp for record in records)
        for wanted in records[:: len(records) // 20]:
            first = next(r for r in records if r.timestamp >= wanted.timestamp)
            found = log.offset_for_timestamp(wanted.timestamp)
            assert found is not None
            assert (found.timestamp_ms, found.offset) == (first.timestamp, first.offset)
        assert log.offset_for_timestamp(latest + 1) is None
        newest = log.offset_of_max_timestamp()
        assert newest is not None
        assert newest.timestamp_ms == latest


def test_close_writes_the_same_index_bytes_as_kafka(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-clean", tmp_path)
    kafkas = {path: path.read_bytes() for path in data.glob("*/*index")}
    for path in kafkas:
        path.unlink()

    for log in open_partitions(data, clean=True).values():
        assert len(log.recovery.rebuilt) == 1
        log.close()

    assert {path: path.read_bytes() for path in kafkas} == kafkas


def test_producer_snapshot_without_producers_has_the_same_bytes_as_in_kafka(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-clean", tmp_path)
    snapshot = data / "t-none-0" / "00000000000000000265.snapshot"
    kafkas = snapshot.read_bytes()
    snapshot.unlink()
    open_partitions(data, clean=True)["t-none", 0].close()

    assert snapshot.read_bytes() == kafkas


def test_recovery_point_checkpoint_has_the_same_bytes_as_in_kafka(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-clean", tmp_path)
    path = str(data / RECOVERY_POINT)
    kafkas = Path(path).read_bytes()
    write_offsets(FS, path, read_offsets(FS, path))

    assert Path(path).read_bytes() == kafkas
    assert os.path.basename(path) == "recovery-point-offset-checkpoint"


def test_leader_epoch_file_of_kafka_is_read_and_written_unchanged(tmp_path: Path) -> None:
    data = unpack_kafka_directory("kafka-4.3.1-clean", tmp_path)
    checkpoint = data / "t-none-0" / "leader-epoch-checkpoint"
    kafkas = checkpoint.read_bytes()
    log = open_partitions(data, clean=True)["t-none", 0]

    assert log.epochs.entries == [(0, 0)]
    assert log.epochs.end_offset_for(0, log.log_end_offset) == (0, 265)
    log.epochs.save()
    assert checkpoint.read_bytes() == kafkas
