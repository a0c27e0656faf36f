"""The broker reports and replaces a cleaner process that died, hangs or sent an invalid line."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from asyncio.subprocess import Process
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import broker.topics.cleaner.segment_swaps as broker_swaps
from broker.time import Time
from broker.topics.cleaner.cleaner_worker import CleanerWorker, CleaningFailed
from broker.topics.cleaner.cleaning import OWNED_RETRY_MS
from broker.topics.registry import OFFSETS_TOPIC
from log.cleaner.clean_job import CleanDone, CleanedGroup, CleanJob
from log.cleaner.cleaner import remove_cleaned
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from tests.broker.cleaned_logs import make_topic, no_process_is_left, opened, write
from tests.broker.edge import eventually
from tests.broker.partitions import partition_of
from tests.log.cleaning_tools import all_records, last_by_key


async def under_way(worker: CleanerWorker, job: CleanJob) -> asyncio.Task[CleanDone]:
    """Starts a cleaning that would take days, and waits until the cleaner process runs."""
    job.bytes_per_second = 1.0
    cleaning = asyncio.create_task(worker.clean(job, lambda _: asyncio.sleep(0)))
    await eventually(lambda: worker.pid)
    return cleaning


async def test_killed_cleaner_process_is_reported_and_replaced(tmp_path: Path) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(4), 100)
        worker = CleanerWorker(Time())
        job = broker.cleaning._job(log, broker.cleaning.checkpoint.judge(log, 1000))
        cleaning = await under_way(worker, job)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(CleaningFailed, match="exited with status -9"):
            await cleaning
        job.bytes_per_second = 0.0
        job.segment_bytes = 6000
        groups: list[CleanedGroup] = []

        async def note(group: CleanedGroup) -> None:
            groups.append(group)

        done = await worker.clean(job, note)
        assert done.end_offset == log.active.base_offset
        assert [group.sources for group in groups] == [
            [segment.base_offset] for segment in log.segments[:-1]
        ]
        await worker.stop()
        assert worker.pid is None
        remove_cleaned(broker.fs, log.directory)


async def test_running_cleaner_process_ends_when_its_broker_ends(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(8), 100)
        worker = CleanerWorker(Time())
        job = broker.cleaning._job(log, broker.cleaning.checkpoint.judge(log, 1000))
        cleaning = await under_way(worker, job)
        process = worker._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()  # as the kernel does when a broker is killed

        assert await asyncio.wait_for(process.wait(), 30) == 0
        with pytest.raises(CleaningFailed, match="exited"):
            await cleaning
        remove_cleaned(broker.fs, log.directory)


async def test_hanging_cleaner_process_is_reported_killed_and_replaced(tmp_path: Path) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(5), 100)
        worker = broker.cleaning.workers[1]
        worker.silence_s = 0.3

        async def hangs() -> Process:
            process = await real()
            os.kill(process.pid, signal.SIGSTOP)  # before the process has a job
            return process

        real, worker._started = worker._started, hangs  # type: ignore[method-assign]
        before = last_by_key(all_records(log))
        broker.cleaning.start()
        await eventually(lambda: broker.cleaning.failures)
        [reason] = broker.health()["uncleanable"].values()
        assert "did not report for 0.3 s" in reason
        assert worker.pid is None

        worker._started = real  # type: ignore[method-assign]
        worker.silence_s = 20.0
        await eventually(lambda: broker.cleaning.runs)
        assert "uncleanable" not in broker.health()
        assert last_by_key(all_records(log)) == before
        await broker.cleaning.stop()


@pytest.mark.campaign
async def test_cleaner_process_with_a_long_cleaning_is_not_killed_as_hanging(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, log_segment_bytes="2000000") as broker:
        log = make_topic(broker)
        write(log, random.Random(6), 100)
        log.roll()
        worker = CleanerWorker(Time())
        worker.silence_s = 4.0
        job = broker.cleaning._job(log, broker.cleaning.checkpoint.judge(log, 1000))
        job.bytes_per_second = log.size_bytes / 5  # so that reading alone takes 5 s
        done = await worker.clean(job, lambda _: asyncio.sleep(0))
        assert done.milliseconds > 4500
        await worker.stop()
        remove_cleaned(broker.fs, log.directory)


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b'{"done": {"strange": 1}}\n', b'{"gro'])
async def test_cleaning_fails_when_the_cleaner_process_sends_an_invalid_line(line: bytes) -> None:
    worker = CleanerWorker(Time())
    await worker._started()
    process = worker._process
    assert process is not None
    assert process.stdout is not None
    process.stdout.feed_data(line)
    process.stdout.feed_eof()
    with pytest.raises(CleaningFailed):
        await worker.clean(CleanJob("/nowhere", [], 0, 0, 0, 0), lambda _: asyncio.sleep(0))
    await worker.stop()


@pytest.mark.parametrize("error", [ValueError("a bug"), CorruptLog("f", 5, "zeros")])
async def test_broker_stops_after_an_exception_in_the_replacement_of_segments_by_cleaned_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(7), 100)
        before = last_by_key(all_records(log))

        def fails(*_: Any) -> None:
            raise error

        monkeypatch.setattr(broker_swaps, "exchange", fails)
        broker.cleaning.start()
        await eventually(lambda: broker.fatal)
        await broker.cleaning.stop()
        assert str(error) in str(broker.fatal)
        assert last_by_key(all_records(log)) == before, "what is open is still the old log"

    again = PartitionLog.open(broker.fs, log.directory, "t", 0, log.config)
    assert last_by_key(all_records(again)) == before
    assert again.size_bytes < log.size_bytes


async def test_retention_deletes_no_segment_while_cleaned_segments_replace_old_segments(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker, cleanup_policy="compact,delete", retention_ms="1")
        write(log, random.Random(8), 100)
        worker, swaps = CleanerWorker(Time()), broker.cleaning.swaps
        decided: list[asyncio.Task[None]] = []

        async def decide(group: CleanedGroup) -> None:
            before = list(log.segments)
            decided.append(
                asyncio.ensure_future(swaps.replace(partition_of(broker, "t"), group, 0))
            )
            await asyncio.sleep(0)  # the exchange is decided and has not begun
            assert list(log.segments) == before
            assert log.apply_retention(10**13) == []
            await decided[-1]

        done = await worker.clean(
            broker.cleaning._job(log, broker.cleaning.checkpoint.judge(log, 1000)), decide
        )
        assert done.end_offset == log.active.base_offset
        assert decided
        assert log.apply_retention(10**13)[:1] == [0], "afterwards it is"
        await worker.stop()


async def test_cleaning_does_not_fail_when_retention_deletes_a_segment_during_the_cleaning(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker, cleanup_policy="compact,delete", retention_ms="1000000000")
        write(log, random.Random(9), 100)
        cleaning = broker.cleaning
        real = cleaning.workers[1].clean

        async def late(job: CleanJob, on_group: Any, producers: Any) -> CleanDone:
            log.delete_records(log.segments[1].base_offset)
            assert log.apply_retention(1000) == [0]
            return await real(job, on_group, producers)

        cleaning.workers[1].clean = late  # type: ignore[method-assign]
        assert not await cleaning.clean_dirtiest()
        assert (cleaning.failures, cleaning.troubles) == (0, {})
        cleaning.workers[1].clean = real  # type: ignore[method-assign]
        assert await cleaning.clean_dirtiest()
        await cleaning.stop()


async def test_failed_cleaning_of_the_offsets_topic_is_repeated_soon(tmp_path: Path) -> None:
    """The offsets topic must stay small: commits can add a hundred megabytes in 15 s."""
    with opened(tmp_path, log_cleaner_backoff_ms="15000") as broker:
        cleaning = broker.cleaning
        for name, first_ms in ((OFFSETS_TOPIC, OWNED_RETRY_MS), ("t", 15_000)):
            log = make_topic(broker, name)
            now_ms = broker.time.now().mono_ms
            cleaning._failed(log, "of the test")
            assert 0 <= cleaning.troubles[name, 0].retry_ms - now_ms - first_ms < 1000
            assert not cleaning._may_try(log)


async def test_partition_is_uncleanable_after_its_cleaning_raised_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as broker:
        log = make_topic(broker)
        write(log, random.Random(10), 100)
        monkeypatch.setattr(broker.cleaning, "_job", lambda *_: {}["no such key"])
        assert not await broker.cleaning.clean_dirtiest()
        assert broker.health()["uncleanable"] == {"t-0": "'no such key'"}
        assert not await broker.cleaning.clean_dirtiest(), "and waits before it is tried again"
        assert broker.cleaning.failures == 1


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    with no_process_is_left():
        yield
