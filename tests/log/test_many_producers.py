"""Tests of a partition with many producers: snapshots are written outside the event loop, and idle
producers are removed.

Durations are measured as CPU times of the test's thread, because other load on the machine must not
fail a test.
"""

from __future__ import annotations

import gc
import random
import time
import weakref
from collections.abc import Iterator

import pytest

from log.partition_log import PartitionLog
from log.producers import producer_table
from log.producers.producer_snapshot import ProducerImage
from log.producers.producer_state import ProducerStates
from log.producers.producer_table import SPREAD_ABOVE
from log.values import Marker
from protocol.records.batch import encode_batch, read_header
from protocol.records.section import Record
from tests.log.log_tools import DIRECTORY, NOW_MS, batch, open_log, snapshot_of
from tests.simulated_files import SimulatedFiles
from tests.uncollected import uncollected

MANY = 100_000
STEP_S = 0.01
"""The maximum duration in seconds of one step of work in the event loop."""


def enter(producers: ProducerStates, count: int, timestamp_ms: int = NOW_MS) -> None:
    """Appends one batch for each of ``count`` producers."""
    header = read_header(
        encode_batch(
            [Record(0, timestamp_ms, None, b"v")],
            producer_id=0,
            producer_epoch=0,
            base_sequence=0,
        )
    )
    for producer_id in range(count):
        header.producer_id = producer_id
        producers.note(header)


def send(log: PartitionLog, producer: int, sequence: int, transactional: bool = False) -> int:
    data = batch(0, b"v", producer=(producer, 0, sequence), transactional=transactional)
    return log.append(data, 0, NOW_MS).first_offset


def longest_step(steps: Iterator[None]) -> float:
    longest = 0.0
    with uncollected():
        while True:
            began = time.thread_time()
            over = next(steps, longest) is not None
            longest = max(longest, time.thread_time() - began)
            if over:
                return longest


def write(log: PartitionLog, image: ProducerImage | None) -> None:
    assert image is not None
    for _ in image.pack():
        pass
    log.write_image(image)
    log.image_written(image)


def snapshots(fs: SimulatedFiles) -> list[int]:
    names = fs.list(DIRECTORY)
    return sorted(int(name.partition(".")[0]) for name in names if name.endswith(".snapshot"))


@pytest.fixture
def _every_log_has_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_table, "SPREAD_ABOVE", 1)


def rolled(fs: SimulatedFiles) -> PartitionLog:
    """Returns a log that has rolled at offset 4. The producer snapshot of the roll is not yet
    written."""
    log = open_log(fs, segment_bytes=1000)
    for producer in range(4):
        send(log, producer, 0)
    log.roll()
    assert log.image is not None
    assert log.image.offset == 4
    return log


def test_steps_of_a_snapshot_of_100_000_producers_take_under_10_ms() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    send(log, 0, 0)
    enter(log.producers, MANY)
    then = snapshot_of(log.producers)

    with uncollected():
        began = time.thread_time()
        log.roll()
        assert time.thread_time() - began < STEP_S
    image = log.image
    assert image is not None
    began = time.thread_time()
    for producer in range(300):  # the appends copy each part of the table
        send(log, MANY + producer, 0)
    assert (time.thread_time() - began) / 300 < STEP_S
    steps = image.pack()
    assert longest_step(steps) < STEP_S
    log.write_image(image)
    log.image_written(image)

    assert log.image is None
    assert fs.written(f"{DIRECTORY}/{1:020}.snapshot") == then
    assert len(log.producers) == MANY + 300


def test_steps_of_an_iteration_over_100_000_producers_take_under_10_ms() -> None:
    producers = ProducerStates()
    enter(producers, MANY)

    assert longest_step(None for _ in producers.last_batches()) < STEP_S
    assert longest_step(None for _ in producers.forget_idlest(MANY // 2)) < STEP_S
    assert len(producers) == MANY // 2
    assert longest_step(producers.expire(NOW_MS + 1)) < STEP_S
    assert len(producers) == 0


def test_memory_of_producers_is_freed_with_their_log() -> None:
    """The producers must not be part of a reference cycle: `gc.freeze` may have excluded them from
    garbage collection."""
    while gc.collect():  # finalizers of other tests' objects can create garbage
        pass
    with uncollected():
        producers = ProducerStates()
        enter(producers, SPREAD_ABOVE + 1)
        gone = weakref.ref(producers)
        del producers
        assert gone() is None
        assert gc.collect() == 0


def test_snapshot_of_few_producers_is_written_at_the_roll() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    send(log, 0, 0)
    enter(log.producers, SPREAD_ABOVE)
    log.roll()

    assert log.image is None
    assert snapshots(fs) == [1]


@pytest.mark.usefixtures("_every_log_has_many")
def test_crash_before_a_snapshot_write_loses_no_producer() -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    send(log, 1, 1, transactional=True)
    known, opened = snapshot_of(log.producers), dict(log.producers.open_transactions)
    fs.kill()

    again = open_log(fs, segment_bytes=1000)

    assert snapshots(fs) == []
    assert snapshot_of(again.producers) == known
    assert dict(again.producers.open_transactions) == opened == {1: 4}


@pytest.mark.usefixtures("_every_log_has_many")
def test_producer_snapshot_has_the_producer_state_at_the_time_of_the_segment_roll() -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    then = snapshot_of(log.producers)
    image = log.image
    assert image is not None
    packing = image.pack()
    next(packing)
    send(log, 0, 1)
    send(log, 3, 1, transactional=True)
    log.append_marker(Marker(2, 1, 0, committed=False), 0, NOW_MS)
    send(log, 9, 0)
    for _ in log.producers.expire(NOW_MS + 1):
        pass
    for _ in packing:
        pass
    log.write_image(image)

    assert fs.written(f"{DIRECTORY}/{4:020}.snapshot") == then


@pytest.mark.usefixtures("_every_log_has_many")
@pytest.mark.parametrize("cut_to", [4, 3, 0])
def test_unwritten_snapshot_is_dropped_when_the_log_is_truncated(cut_to: int) -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    image = log.image
    assert image is not None
    send(log, 3, 1)
    log.truncate_to(cut_to, NOW_MS)
    for number in range(6):
        send(log, 20 + number, 0)
    known = snapshot_of(log.producers)
    write(log, image)

    assert log.image is None
    assert snapshots(fs) == []
    fs.kill()
    assert snapshot_of(open_log(fs, segment_bytes=1000).producers) == known


@pytest.mark.usefixtures("_every_log_has_many")
def test_close_during_a_snapshot_of_producers_writes_only_the_final_snapshot() -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    image = log.image
    send(log, 3, 1)
    log.close()
    known = snapshot_of(log.producers)
    write(log, image)

    assert snapshots(fs) == [5]
    again = open_log(fs, clean=True, recovery_point=5, segment_bytes=1000)
    assert snapshot_of(again.producers) == known


@pytest.mark.usefixtures("_every_log_has_many")
def test_two_segment_rolls_while_a_producer_snapshot_is_written_cause_one_more_snapshot() -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    first = log.image
    for sequence in (1, 2):
        send(log, 3, sequence)
        log.roll()
    send(log, 3, 3)
    assert log.image is first
    write(log, first)

    second = log.image
    assert second is not None
    assert second.offset == 7
    known = snapshot_of(log.producers)
    write(log, second)
    assert log.image is None
    assert snapshots(fs) == [4, 7]
    assert fs.written(f"{DIRECTORY}/{7:020}.snapshot") == known


@pytest.mark.usefixtures("_every_log_has_many")
def test_producer_snapshot_is_not_retried_before_the_next_roll_when_its_write_fails() -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    image = log.image
    assert image is not None
    for _ in image.pack():
        pass
    fs.fail("write", ".snapshot.tmp")
    with pytest.raises(OSError, match="snapshot"):
        log.write_image(image)
    log.image_written(image)
    fs.heal()
    send(log, 3, 1)
    log.roll()
    write(log, log.image)

    assert snapshots(fs) == [5]


@pytest.mark.usefixtures("_every_log_has_many")
def test_retention_keeps_a_segment_until_a_producer_snapshot_includes_its_records() -> None:
    fs = SimulatedFiles()
    log = rolled(fs)
    write(log, log.image)
    send(log, 1, 1)
    log.roll()
    send(log, 2, 1)
    log.roll()
    log.delete_records(6)
    image = log.image

    assert log.apply_retention(NOW_MS) == [0]
    known = snapshot_of(log.producers)
    fs.kill()
    again = open_log(fs, log_start_offset=6, segment_bytes=1000)
    assert sorted(again.producers.ids()) == [0, 1, 2, 3]
    assert snapshot_of(again.producers) == known

    log = again
    send(log, 3, 1)
    log.roll()
    image = log.image
    write(log, image)
    assert log.apply_retention(NOW_MS) == [4, 5]


def test_function_forget_idlest_does_not_remove_producers_with_an_open_transaction() -> None:
    log = open_log(SimulatedFiles())
    numbers = list(range(10_000))
    random.Random(3).shuffle(numbers)
    for age, producer in enumerate(numbers):
        enter_one(log.producers, producer, NOW_MS - age, transactional=not age % 10)
    open_ones = {producer for age, producer in enumerate(numbers) if not age % 10}
    assert log.producers.without_transaction == 9000

    forgotten = sum(log.producers.forget_idlest(3000))

    kept = set(log.producers.ids())
    assert open_ones <= kept
    left = log.producers.without_transaction
    assert 2800 <= left <= 3200
    assert forgotten == 9000 - left
    closed = [producer for age, producer in enumerate(numbers) if age % 10]
    assert kept == open_ones | set(closed[:left])


def enter_one(
    producers: ProducerStates, producer_id: int, timestamp_ms: int, transactional: bool
) -> None:
    data = batch(
        0, b"v", producer=(producer_id, 0, 0), transactional=transactional,
        timestamp_ms=timestamp_ms,
    )  # fmt: skip
    producers.note(read_header(data))


def test_function_forget_idlest_removes_only_the_necessary_number_of_producers() -> None:
    producers = ProducerStates()
    enter(producers, 5000)
    for _ in producers.forget_idlest(4000):
        pass
    assert len(producers) == 4000
