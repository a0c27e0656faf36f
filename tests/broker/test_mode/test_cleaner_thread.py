"""For logs in memory, the cleaner thread does the work of the cleaner process, which cleans logs on
disk."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from pathlib import Path

import pytest

from broker.test_mode.cleaner_thread import CleanerThread
from broker.test_mode.files.memory_files import MemoryFiles
from broker.time import Time
from broker.topics.cleaner.cleaner_worker import CleanerWorker, CleaningFailed
from log.checkpoint import CLEANER_OFFSET, read_offsets
from log.cleaner.clean_job import CleanDone, CleanedGroup, CleanJob
from log.cleaner.cleaner import remove_cleaned
from log.files.filesystem import FileSystem, OsFileSystem
from tests.broker.cleaned_logs import make_topic, no_process_is_left, opened, write
from tests.broker.edge import eventually
from tests.log.cleaning_tools import all_records, last_by_key

DATA = Path("/no/such/data")


def cleaners() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("cleaner")]


async def test_log_in_memory_is_cleaned_without_a_cleaner_process() -> None:
    fs = MemoryFiles(Time())
    with no_process_is_left(), opened(DATA, fs) as broker:
        log = make_topic(broker)
        write(log, random.Random(1), 100)
        before = last_by_key(all_records(log))
        broker.cleaning.start()
        await eventually(lambda: broker.cleaning.runs)
        await broker.cleaning.stop()

        assert last_by_key(all_records(log)) == before
        assert sum(segment.size for segment in log.segments[:-1]) < 10_000
        assert read_offsets(fs, str(DATA / CLEANER_OFFSET)) == {("t", 0): log.active.base_offset}
        assert not [n for n in fs.list(log.directory) if n.endswith((".cleaned", ".swap"))]
    assert not DATA.exists()


async def test_cleaner_thread_and_cleaner_process_have_equal_results(tmp_path: Path) -> None:
    """The test compares the counts, and the bytes of each group of segments that the cleaner
    replaces together."""
    process = await _cleaned(tmp_path / "process", None)
    thread = await _cleaned(tmp_path / "thread", OsFileSystem())
    assert process == thread
    assert len(process[1]) > 3


async def _cleaned(
    directory: Path, fs: FileSystem | None
) -> tuple[CleanDone, list[tuple[CleanedGroup, bytes]]]:
    """Cleans a log that is the same in each call. Returns the counts, and each group of cleaned
    segments with its bytes."""
    groups: list[tuple[CleanedGroup, bytes]] = []
    with opened(directory, fs, log_segment_bytes="20000") as broker:
        log = make_topic(broker)
        write(log, random.Random(3), 100)

        async def note(group: CleanedGroup) -> None:
            path = Path(log.directory) / f"{group.base_offset:020d}.log.cleaned"
            groups.append((group, path.read_bytes()))

        time = broker.time
        worker = CleanerWorker(time) if fs is None else CleanerThread(time, fs)
        job = broker.cleaning._job(log, broker.cleaning.checkpoint.judge(log, 1000))
        job.segment_bytes = 6000
        done = await worker.clean(job, note, log.producers.last_batches())
        await worker.stop()
        remove_cleaned(broker.fs, log.directory)
    assert done.milliseconds >= 0
    done.milliseconds = 0
    return done, groups


async def test_failed_cleaning_in_memory_is_reported_and_repeated() -> None:
    fs = MemoryFiles(Time())
    with opened(DATA, fs) as broker:
        log = make_topic(broker)
        write(log, random.Random(3), 100)
        file = fs.open(log.segments[0].file.path)
        right = file.read(5000, 1)
        file.write(5000, bytes([right[0] ^ 1]))
        broker.cleaning.start()
        await eventually(lambda: broker.cleaning.failures)
        [reason] = broker.health()["uncleanable"].values()
        assert f"CorruptLog: {file.path}" in reason

        file.write(5000, right)
        await eventually(lambda: broker.cleaning.runs)
        assert "uncleanable" not in broker.health()
        await broker.cleaning.stop()


def job_of(fs: FileSystem, seed: int) -> CleanJob:
    """Starts a broker, writes a log, stops the broker, and returns the cleaning job for the log."""
    with opened(DATA, fs) as broker:
        log = make_topic(broker)
        write(log, random.Random(seed), 100)
        return broker.cleaning._job(log, broker.cleaning.checkpoint.judge(log, 1000))


async def test_long_cleaning_in_memory_ends_when_cancelled() -> None:
    fs = MemoryFiles(Time())
    worker, job = CleanerThread(Time(), fs), job_of(fs, 4)
    job.bytes_per_second = 1.0
    cleaning = asyncio.create_task(worker.clean(job, lambda _: asyncio.sleep(0)))
    await eventually(cleaners)
    assert worker.busy
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    assert not worker.busy
    await worker.stop()
    await eventually(lambda: not cleaners())


async def test_running_cleaning_fails_when_the_cleaner_thread_is_stopped() -> None:
    fs = MemoryFiles(Time())
    worker, job = CleanerThread(Time(), fs), job_of(fs, 4)
    job.bytes_per_second = 1.0
    cleaning = asyncio.create_task(worker.clean(job, lambda _: asyncio.sleep(0)))
    await eventually(cleaners)
    await worker.stop()
    with pytest.raises(CleaningFailed, match="Stopped: cleaning was cancelled"):
        await cleaning


async def test_cleaner_thread_works_after_its_callback_raised_an_exception() -> None:
    fs = MemoryFiles(Time())
    worker, job = CleanerThread(Time(), fs), job_of(fs, 4)
    job.segment_bytes = 6000

    async def fails(_: CleanedGroup) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await worker.clean(job, fails)
    groups: list[CleanedGroup] = []

    async def note(group: CleanedGroup) -> None:
        groups.append(group)

    done: CleanDone = await worker.clean(job, note)
    assert done.end_offset == job.end_offset
    assert len(groups) > 3
    await worker.stop()


async def test_cleaner_thread_does_not_exceed_the_configured_rate() -> None:
    fs = MemoryFiles(Time())
    worker, job = CleanerThread(Time(), fs), job_of(fs, 6)
    size = fs.open(os.path.join(job.directory, f"{0:020d}.log")).size()
    # The job reads and writes about six times the size of the log.
    job.bytes_per_second = size * 10
    done = await worker.clean(job, lambda _: asyncio.sleep(0))
    assert done.milliseconds >= 100
    await worker.stop()
