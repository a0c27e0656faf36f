"""Cleaning of compacted topics: the choice of the next log, concurrent readers and failures. Each
test uses the cleaner process of a broker."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from broker.topics.partition import Partition
from log.checkpoint import CLEANER_OFFSET, read_offsets
from log.cleaner.clean_job import (
    CleanedGroup,
    CleanJob,
    decode_answer,
    decode_job,
    encode_job,
    encode_producers,
)
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from log.segment import LOG
from log.values import Marker
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.broker.cleaned_logs import make_topic, no_process_is_left, opened, write
from tests.broker.edge import eventually
from tests.log.cleaning_tools import all_records, last_by_key
from tests.log.log_tools import batch


async def test_cleaning_keeps_the_last_value_per_key_and_writes_a_checkpoint(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        kept = make_topic(broker, "kept", cleanup_policy="delete")
        for some in (log, kept):
            write(some, random.Random(1), 100)
        before = last_by_key(all_records(log))
        assert len(log.segments) > 3
        broker.cleaning.start()
        await eventually(lambda: broker.cleaning.runs)
        await broker.cleaning.stop()

        assert last_by_key(all_records(log)) == before
        left = sum(segment.size for segment in log.segments[:-1])
        assert left < 10_000, "50 records of 120 bytes"
        assert kept.size_bytes > 400_000
        assert read_offsets(broker.fs, str(tmp_path / CLEANER_OFFSET)) == {
            ("t", 0): log.active.base_offset
        }
        assert broker.cleaning.checkpoint.dirty_bytes(log) == log.active.size
        assert not [n for n in os.listdir(log.directory) if n.endswith((".cleaned", ".swap"))]


@pytest.mark.campaign
async def test_consumers_and_shard_loads_read_every_live_record_during_cleaning(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        chance = random.Random(2)
        write(log, chance, 60)
        broker.cleaning.start()
        reader: Iterator[Any] = iter(())
        read_to = 0
        newest: dict[bytes | None, int] = {}
        while broker.cleaning.runs < 4:
            if log.size_bytes < 1_000_000:
                write(log, chance, 12)
            end = log.log_end_offset
            while read_to < end:  # a consumer, whose fetches are consecutive
                data = log.read(read_to, 30_000).data
                for header, _ in iter_stored(data, partial=True):
                    for record in records_of(data, header):
                        newest[record.key] = record.offset
                    read_to = header.last_offset + 1
            await asyncio.sleep(0)
            if next(reader, None) is None:  # a load, which can take long
                reader = log.scan(chunk_bytes=5000)
        await broker.cleaning.stop()

        assert newest == {key: r.offset for key, r in last_by_key(all_records(log)).items()}
        assert log.log_end_offset > 20_000
        assert log.size_bytes < 2_000_000


async def test_failed_cleaning_is_reported_and_repeated(tmp_path: Path) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(3), 100)
        path = Path(log.directory) / f"{0:020d}{LOG}"
        whole = path.read_bytes()
        path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        broker.cleaning.start()
        await eventually(lambda: broker.cleaning.failures)

        [reason] = broker.health()["uncleanable"].values()
        assert str(path) in reason
        assert broker.health()["state"] == "ready"
        assert log.segments[0].size == len(whole), "the log is as it was"
        path.write_bytes(whole)
        await eventually(lambda: broker.cleaning.runs)
        assert "uncleanable" not in broker.health()
        await broker.cleaning.stop()


async def test_cleaning_does_not_fail_when_its_topic_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(5), 100)
        broker.cleaning.start()
        real = broker.cleaning.swaps.replace

        async def deleted(cleaned: Partition, group: CleanedGroup, truncations: int) -> None:
            entry = broker.logs.topics.pop("t")
            broker.logs.retire(entry.topic, entry.partitions, "0" * 32)
            await real(cleaned, group, truncations)

        broker.cleaning.swaps.replace = deleted  # type: ignore[method-assign]
        await eventually(lambda: "t" not in broker.logs.topics)
        await broker.cleaning.stop()
        assert (broker.cleaning.failures, broker.cleaning.runs) == (0, 0)


async def test_broker_stops_when_the_replacement_of_segments_by_cleaned_segments_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "t-0"
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(7), 100)
        before = last_by_key(all_records(log))

        def fails(path: str) -> None:
            if list(directory.glob("*.swap")):
                raise OSError(5, "Input/output error", path)

        monkeypatch.setattr(broker.fs, "fsync_directory", fails, raising=False)
        broker.cleaning.start()
        await eventually(lambda: broker.fatal)
        await broker.cleaning.stop()
        assert "replacing the segments" in str(broker.fatal)
        assert last_by_key(all_records(log)) == before, "what is open is still the old log"
        monkeypatch.undo()
    assert [file.name for file in directory.glob("*.log.swap")] == [f"{0:020d}.log.swap"]

    again = PartitionLog.open(OsFileSystem(), str(directory), "t", 0, log.config)
    assert last_by_key(all_records(again)) == before
    assert again.log_end_offset == log.log_end_offset
    assert again.size_bytes < log.size_bytes
    assert not list(directory.glob("*.swap"))


async def test_min_compaction_lag_delays_cleaning_and_max_lag_overrides_dirty_ratio(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        young = make_topic(broker, "young", min_compaction_lag_ms="1000")
        old = make_topic(broker, "old", min_cleanable_dirty_ratio="1", max_compaction_lag_ms="500")
        for log in (young, old):
            write(log, random.Random(6), 100)
        cleaning = broker.cleaning

        judge = cleaning.checkpoint.judge
        assert not judge(young, 1999).dirty_bytes
        assert judge(young, 2000).dirty_bytes == sum(s.size for s in young.segments[:-1])
        assert not judge(old, 1500).overdue
        assert judge(old, 1501).overdue
        assert await cleaning.clean_dirtiest(), "both are due by today's clock"
        assert await cleaning.clean_dirtiest()
        assert not await cleaning.clean_dirtiest()
        assert old.active.size == 0, "what was overdue in the active segment was rolled"
        await cleaning.stop()


@pytest.mark.proves("transactions 30")
async def test_cleaning_stops_at_an_open_transaction_and_runs_again_when_the_transaction_ends(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        log, cleaning = make_topic(broker), broker.cleaning
        write(log, random.Random(6), 100)
        begins = log.log_end_offset
        log.append(batch(producer=(7, 0, 0), transactional=True), 0, 1)
        write(log, random.Random(7), 100)
        before = last_by_key(all_records(log))

        assert await cleaning.clean_dirtiest()
        assert (cleaning.runs, cleaning.checkpoint.cleaned_to("t", 0)) == (1, begins)
        behind = [segment for segment in log.segments if segment.base_offset > begins]
        for _ in range(3):
            assert not await cleaning.clean_dirtiest()
        assert cleaning.checkpoint.dirty_bytes(log) < log.segments.at(begins).size
        assert (cleaning.runs, cleaning._paused) == (1, {}), "nothing to do, and no trouble"
        assert log.segments[-len(behind) :] == behind, "nobody has touched them"

        log.append_marker(Marker(7, 0, 0, False), 0, 1)
        assert await cleaning.clean_dirtiest()
        assert cleaning.checkpoint.cleaned_to("t", 0) == log.active.base_offset
        after = last_by_key(all_records(log))
        assert {key: after[key] for key in before} == before
        await cleaning.stop()


async def test_cleanup_policy_compact_delete_cleans_the_log_and_deletes_old_segments(
    tmp_path: Path,
) -> None:
    """Retention deletes whole old segments. Cleaning removes superseded records from the remaining
    segments."""
    with opened(tmp_path) as broker:
        log = make_topic(broker, cleanup_policy="compact,delete", retention_bytes="200000")
        write(log, random.Random(9), 50, keys=1_000_000)
        write(log, random.Random(10), 100)
        assert await broker.cleaning.clean_dirtiest()
        cleaned = all_records(log)
        log.apply_retention(2000)
        assert log.size_bytes <= 300_000, "but for what is in the segment at the limit"
        kept = all_records(log)
        assert kept == cleaned[-len(kept) :], "the oldest went, whatever their keys"
        assert 0 < len(kept) < len(cleaned)

        write(log, random.Random(11), 50)
        await broker.cleaning.clean_dirtiest()
        closed = [record for record in all_records(log) if record.offset < log.active.base_offset]
        assert len({record.key for record in closed}) == len(closed)
        await broker.cleaning.stop()


async def test_cleaning_does_not_start_when_the_cleaner_is_disabled(tmp_path: Path) -> None:
    with opened(tmp_path, log_cleaner_enable="false") as broker:
        broker.cleaning.start()
        assert broker.cleaning._tasks == []


def test_cleaner_jobs_and_responses_round_trip_through_their_encoding() -> None:
    job = CleanJob("/d", [[0, 1, 2, 3, 4]], 5, 6, 7, 8, producers={3: (4, 0), 9: (-1, 2)})
    assert decode_job(encode_job(job)) == job
    lines = iter([encode_producers({5: (6, 0)}), encode_producers({8: (-1, 1)})])
    more = decode_job(encode_job(job), chain(lines, [encode_producers({}), b"the next job"]))
    assert more.producers == {3: (4, 0), 9: (-1, 2), 5: (6, 0), 8: (-1, 1)}
    with pytest.raises(KeyError):
        decode_answer(b'{"strange": {}}')


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    with no_process_is_left():
        yield
