"""A disk that becomes full at any write loses no acknowledged operation.

The test runs the same two sequences of operations on a broker again and again. In repetition n, the
disk becomes full at the n-th write, for a number of calls or until the end of the sequence. After
each sequence the broker is stopped or killed. The kill comes either at once, or after the disk has
free space and the broker has written again. After each restart every acknowledged record is
present, no deleted topic reappears, and each topic contains only its own records and offsets.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any

import pytest

from broker.broker import Broker
from broker.cores.groups import dropped_offsets
from broker.cores.groups.dropped_offsets import DroppedOffsets
from broker.cores.hosted_shard import Phase
from broker.topics import deletions, partition
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from broker.topics.registry import OFFSETS_TOPIC
from log.segment import Segment
from tests.broker.filling_disk import FillingFiles, Life
from tests.broker.serving import asked, eventually, serving
from tests.wire import Wire

pytestmark = pytest.mark.proves("faults 2")

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "log.cleaner.enable": "false",
    "log.segment.bytes": "700",
    "log.retention.ms": "-1",
    "log.index.size.max.bytes": "64",
    "auto.create.topics.enable": "false",
    "file.delete.delay.ms": "0",
}
DATA = "/data"
FOR_HOW_MANY = (1, 3, 40, 1 << 30)
"""The numbers of consecutive calls during which the disk is full. With the last number, the disk
stays full until the end of the sequence of operations."""


class End(Enum):
    """The ways in which a broker ends after a sequence of operations."""

    STOPPED = "stopped"
    KILLED = "killed"
    KILLED_LATER = "killed later"
    """The disk gets free space, the broker writes, and then the broker is killed."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the intervals of all retries."""
    monkeypatch.setattr(partition, "PROBE_MS_FIRST", 1)
    monkeypatch.setattr(partition, "PROBE_MS_MAX", 20)
    monkeypatch.setattr(deletions, "RETRY_MS_FIRST", 5)
    monkeypatch.setattr(deletions, "RETRY_MS_MAX", 20)
    monkeypatch.setattr(dropped_offsets, "_RETRY_S", 0.01)


def first_chapter(life: Life, wire: Wire) -> None:
    life.create(wire, "kept")
    life.create(wire, "again", **{"segment.bytes": "5000"})
    life.create(wire, "rolls", **{"retention.bytes": "800"})
    wire.call("FindCoordinator", 1, {"key": "g", "key_type": 0})
    for group in ("g", "h"):
        life.commit(wire, group, "kept")
        life.commit(wire, group, "again")
    life.produce(wire, "kept", 8)  # rolls several segments
    life.produce(wire, "again", 4)
    life.produce(wire, "rolls", 9)
    life.commit(wire, "old", "kept", 0)
    life.producer_id(wire)
    life.join(wire, "joined")


def second_chapter(life: Life, wire: Wire) -> None:
    life.delete(wire, "again")
    life.create(wire, "again")
    life.produce(wire, "again", 3)
    life.commit(wire, "h", "again")
    life.alter(wire, "kept", "777000000000000")
    life.delete_records(wire, "kept", 3)
    life.create(wire, "more")
    life.produce(wire, "more", 2)
    life.delete(wire, "more")
    life.commit(wire, "old", "kept", 0)
    life.produce(wire, "kept", 3)
    life.produce(wire, "rolls", 5)
    life.commit(wire, "g", "kept")


async def upkeep(broker: Broker) -> None:
    """Runs the periodic work of the broker: retention, checkpoints and due flushes."""
    for work in (broker.maintenance.run_retention, broker.maintenance.write_checkpoints):
        with suppress(OSError):  # the broker's task would log the error and retry
            await work()
    await broker.maintenance.flush_overdue()


@asynccontextmanager
async def started(fs: FillingFiles) -> AsyncIterator[Broker]:
    """Yields a started broker. If the start fails because the disk is full, frees space and starts
    the broker again."""
    running = serving(DATA, SETTINGS, fs=fs)
    try:
        broker = await running.__aenter__()
    except OSError as error:
        if error.errno != errno.ENOSPC or not fs.full:
            raise
        fs.full = range(0)
        fs.kill()
        running = serving(DATA, SETTINGS, fs=fs)
        broker = await running.__aenter__()
    try:
        yield broker
    finally:
        await running.__aexit__(None, None, None)


async def with_room(fs: FillingFiles, broker: Broker) -> None:
    """Frees space on the disk, and waits until the broker accepts writes."""
    fs.has_room_again()
    broker.producer_ids.refill()
    await eventually(
        "every log takes writes, ids are there, and nothing is left of the deleted topics",
        lambda: (
            broker.producer_ids.ids.left
            and not any(each.log.poisoned for each in broker.logs.all())
            and all(hosted.phase is Phase.ACTIVE for hosted in broker.groups.hosted_shards)
            and not broker.registry.dying
        ),
    )
    assert not broker.stopped.is_set(), broker.fatal


async def live(full_from: int, full_calls: int, end: End) -> FillingFiles:
    """Runs `first_chapter` and `second_chapter` on a disk without free space for ``full_calls`` of
    the calls that need space, beginning with call number ``full_from``. Returns the disk."""
    fs, life = FillingFiles(), Life()
    fs.full = range(full_from, full_from + full_calls)
    for chapter in (first_chapter, second_chapter):
        async with started(fs) as broker:
            await asked(broker, lambda wire, chapter=chapter: chapter(life, wire))
            await upkeep(broker)
            if end is End.KILLED_LATER:
                await goes_on(fs, life, broker)
            killed = fs.as_killed()
        if end is not End.STOPPED:
            fs = killed
        async with started(fs) as broker:
            await goes_on(fs, life, broker)
    return fs


async def goes_on(fs: FillingFiles, life: Life, broker: Broker) -> None:
    """Frees space on the disk. Checks that acknowledged operations are present and that the broker
    accepts writes."""
    await with_room(fs, broker)
    await broker.topics.ensure(OFFSETS_TOPIC)
    await asked(broker, lambda wire: life.check(wire, broker))
    await asked(broker, lambda wire: write_everywhere(life, wire))
    await asked(broker, lambda wire: life.check(wire, broker))
    fs.checked = False


def write_everywhere(life: Life, wire: Wire) -> None:
    refused = life.refused
    for name in life.topics:
        life.produce(wire, name, 1)
        life.commit(wire, "g", name)
    assert life.refused == refused


async def how_many_calls() -> int:
    """Runs the test's operations on a disk that is never full. Returns how many of their file calls
    need disk space."""
    return (await live(1 << 40, 0, End.STOPPED)).asked


async def test_full_disk_check_passes_when_the_disk_is_never_full() -> None:
    """A check that always fails would seem to find each planted fault, so the check must pass
    here."""
    assert await how_many_calls() > 100


SAMPLES = 24
ENDS = tuple(End)


@pytest.mark.parametrize("sample", range(SAMPLES))
async def test_acknowledged_operations_survive_a_full_disk_at_sampled_writes(sample: int) -> None:
    """The soak test covers every write, not only a sample."""
    calls = await how_many_calls()
    full_from = (2 * sample + 1) * calls // (2 * SAMPLES)
    full_calls = FOR_HOW_MANY[sample % len(FOR_HOW_MANY)]
    await live(full_from, full_calls, ENDS[sample // len(FOR_HOW_MANY) % len(ENDS)])


async def test_start_accepts_an_empty_file_of_version_0_offsets() -> None:
    """The file is empty if the disk is full when the first version 0 commit creates the file."""
    fs, life = FillingFiles(), Life()
    async with started(fs) as broker:
        await asked(broker, lambda wire: life.create(wire, "kept"))
        fs.full = range(fs.asked + 1, 1 << 60)  # the creation of the file still succeeds
        await asked(broker, lambda wire: life.commit(wire, "old", "kept", 0))
        assert fs.written(f"{DATA}/consumers.offsets") == b""
        fs.full = range(0)
        await asked(broker, lambda wire: life.create(wire, "again"))  # writes the topic list
        fs = fs.as_killed()
    async with started(fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, lambda wire: life.check(wire, broker))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("end", End)
@pytest.mark.parametrize("full_calls", FOR_HOW_MANY)
async def test_acknowledged_operations_survive_a_full_disk_at_each_write(
    full_calls: int, end: End
) -> None:
    for full_from in range(await how_many_calls()):
        try:
            await live(full_from, full_calls, end)
        except BaseException:
            print(f"the disk is full from call {full_from} on")
            raise


# -- planted faults, which the checker must find


def a_failed_append_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    def release_all(self: Partition, _: Exception) -> None:
        while self._waiting:
            self._deliver(self._waiting.popleft()[2])

    patch.setattr(Partition, "fail_unwritten", release_all)


def the_new_topic_lies_in_the_old_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogManager, "retire", lambda *_: [])
    patch.setattr("broker.topics.logs.LOG", ".none")


def offsets_outlive_their_topic(patch: pytest.MonkeyPatch) -> None:
    async def drop(*_: Any) -> None:
        pass

    patch.setattr(DroppedOffsets, "drop", drop)


def half_a_batch_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segment, "cut_back", lambda self: setattr(self, "size", self.file.size()))


@pytest.mark.planted("full disk at each write")
@pytest.mark.parametrize(
    "plant",
    [
        a_failed_append_is_acknowledged,
        the_new_topic_lies_in_the_old_directory,
        offsets_outlive_their_topic,
        half_a_batch_stays,
    ],
    ids=lambda plant: plant.__name__,
)
async def test_full_disk_check_finds_each_planted_fault(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = await how_many_calls()
    plant(monkeypatch)
    for sample in range(0, calls, 4):
        try:
            await live(sample, FOR_HOW_MANY[sample // 4 % len(FOR_HOW_MANY)], End.KILLED_LATER)
        except Exception:  # noqa: BLE001 - an assertion, or whatever it breaks
            return
    pytest.fail(f"{calls // 4} lives found nothing wrong")
