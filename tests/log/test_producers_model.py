"""Random producers, transactions, restarts, truncations and disk failures: a log gives the same
answers as a model.

A play is a list of numbers, and each number determines one step. After a kill or a power loss the
log is reopened, and its producer state must match the records in its files.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import AppendRefused, LogPoisoned
from log.indexes.transaction_index import TransactionIndex
from log.partition_log import PartitionLog
from log.producers import producer_snapshot, producer_table
from log.producers.producer_snapshot import ProducerImage
from log.producers.producer_state import ProducerStates
from log.producers.producer_table import FIRST_BATCH, ProducerTable, State
from log.values import Ended, Marker
from tests.log.log_tools import DIRECTORY, NOW_MS, batch, open_log
from tests.log.producers_model import GAP, SEQUENCES, Batch, Model
from tests.simulated_files import SimulatedFiles

SETTINGS: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 150}
PRODUCERS = (3, 5, 8)


class Play:
    """Performs steps on a log and on a model of the log, and compares the two after each step. A
    list of numbers determines the steps."""

    def __init__(self, numbers: list[int]) -> None:
        self.chance = random.Random(repr(numbers))
        self.fs = SimulatedFiles()
        self.model = Model()
        self.flushed = 0
        self.image: ProducerImage | None = None
        self.log = self._opened()
        self.packing: Iterator[None] = iter(())

    def run(self, numbers: list[int]) -> None:
        steps = [
            *[self.send] * 10, *[self.end] * 6, self.repeat, self.flush, self.close, self.kill,
            self.lose_power, self.truncate, self.fail, self.lose_index, self.damage_snapshot,
            *[self.write_image] * 3,
        ]  # fmt: skip
        for number in numbers:
            self.chance = random.Random(number)
            steps[number % len(steps)]()
            self.compare()

    def _opened(self, clean: bool = False) -> PartitionLog:
        point = self.flushed
        self.image = None
        return open_log(self.fs, recovery_point=point, clean=clean, **SETTINGS)

    # -- appends

    def _drawn(self) -> Batch:
        """Returns the valid next batch of a producer, or a batch with a small error."""
        chance, model = self.chance, self.model
        producer = chance.choice(PRODUCERS)
        epoch = max(0, model.epoch(producer) + chance.choice([0, 0, 0, 0, 1, -1]))
        recent = model.recent(producer)
        due = (recent[-1].last_sequence + 1) % SEQUENCES if recent else 0
        if epoch != model.epoch(producer):
            due = 0
        if not model.of(producer) and chance.random() < 0.5:
            due = SEQUENCES - 2
        sequence = (due + chance.choice([0] * 8 + [1, 3])) % SEQUENCES
        transactional = chance.random() < 0.8
        return Batch(model.end, chance.randint(1, 3), producer, epoch, sequence, transactional)

    def send(self) -> None:
        self._append(self._drawn())

    def repeat(self) -> None:
        sent = [each for each in self.model.batches if each.outcome is None]
        if sent:
            self._append(self.chance.choice(sent[-6:])._replace(offset=self.model.end))

    def _append(self, drawn: Batch) -> None:
        expected = self.model.send(drawn)
        data = batch(
            0,
            *[b"v"] * drawn.count,
            producer=(drawn.producer, drawn.epoch, drawn.sequence),
            transactional=drawn.transactional,
        )
        try:
            info = self.log.append(data, 0, NOW_MS)
        except AppendRefused as refused:
            answer: int | str = refused.error_code
        else:
            answer = info.first_offset if info.duplicate else "+"
        if answer == GAP and isinstance(expected, int) and expected < self.model.forgotten:
            return  # a restart keeps only the last batch of each producer
        assert answer == expected, drawn
        if answer == "+":
            self.model.batches.append(drawn)

    def end(self) -> None:
        chance, model = self.chance, self.model
        producer, rules = chance.choice(PRODUCERS), chance.choice([1, 2])
        raised = chance.choice([0, 0, 0, 1, -1]) if rules == 1 else chance.choice([1, 1, 0, -1])
        epoch = max(0, model.epoch(producer) + raised)
        coordinator_epoch = max(0, model.coordinator_epoch(producer) + chance.choice([0, 0, 1, -1]))
        outcome = chance.random() < 0.4
        drawn = Batch(model.end, 1, producer, epoch, -1, True, outcome, coordinator_epoch)
        expected = model.end_of(drawn, rules)
        marker = Marker(producer, epoch, coordinator_epoch, outcome, rules)
        answer: int | str = "+"
        try:
            self.log.append_marker(marker, 0, NOW_MS)
        except AppendRefused as refused:
            answer = refused.error_code
        except LogPoisoned:
            self.fs.heal()
            if chance.random() < 0.5:
                self.log.probe()
            else:
                self.kill()
            return
        assert answer == expected, (drawn, rules)
        if answer == "+":
            model.batches.append(drawn)

    def fail(self) -> None:
        """Makes a write to the log or to the transaction index fail, and then ends a
        transaction."""
        self.fs.fail("write", self.chance.choice([".log", ".txnindex"]), partial_bytes=20)
        self.end()
        self.fs.heal()

    # -- the files

    def flush(self) -> None:
        self.flushed = self.log.flush()

    def close(self) -> None:
        self.log.close()
        self.flushed = self.log.log_end_offset
        self.log = self._opened(clean=True)
        self.model.forgotten = self.model.end

    def kill(self) -> None:
        self.fs.kill()
        self.log = self._opened()
        self.model.forgotten = self.model.end

    def lose_power(self) -> None:
        self.fs.lose_power(self.chance)
        self.log = self._opened()
        self.model.cut(self.log.log_end_offset)
        self.model.forgotten = self.model.end

    def truncate(self) -> None:
        if self.chance.random() < 0.5:
            return
        offset = self.chance.randint(max(0, self.model.end - 12), self.model.end)
        end = self.log.truncate_to(offset, NOW_MS)
        self.log.sync_cuts()
        self.flushed = min(self.flushed, end)
        self.model.cut(end)
        self.model.forgotten = self.model.end

    def lose_index(self) -> None:
        """Kills the process, and truncates the transaction index of the active segment at a random
        length."""
        path = self.log.active.path(".txnindex")
        self.fs.kill()
        if self.fs.exists(path):
            data = self.fs.written(path)
            self.fs.put(path, data[: self.chance.randint(0, len(data))])
        self.log = self._opened()
        self.model.forgotten = self.model.end

    def damage_snapshot(self) -> None:
        names = [name for name in self.fs.list(DIRECTORY) if name.endswith(".snapshot")]
        self.fs.kill()
        if names:
            path = f"{DIRECTORY}/{names[-1]}"
            data = bytearray(self.fs.written(path))
            data[self.chance.randrange(len(data))] ^= 0x11
            self.fs.put(path, bytes(data))
        self.log = self._opened()
        self.model.forgotten = self.model.end

    def write_image(self) -> None:
        """Performs one step of writing a producer snapshot after a roll. When the snapshot is
        written, asserts that it has the state of the producers at the time of the roll."""
        image = self.image or self.log.image
        if image is None:
            return
        if image is not self.image:
            self.image, self.packing = image, image.pack()
        for _ in islice(self.packing, self.chance.choice([1, 100, 1000])):
            pass
        if next(self.packing, self) is not self:
            return
        self.image = None
        fails = self.chance.random() < 0.1
        if fails:
            self.fs.fail("write", ".snapshot.tmp")
        with suppress(OSError):
            self.log.write_image(image)
            if self.log.image is image and not fails:
                self._compare_image(image.offset)
        self.fs.heal()
        self.log.image_written(image)

    def _compare_image(self, offset: int) -> None:
        states = ProducerStates()
        assert states.restore(self.fs.written(f"{DIRECTORY}/{offset:020}.snapshot"))
        then = Model()
        then.batches = self.model.batches.copy()
        then.cut(offset)
        for producer in PRODUCERS:
            self._compare_producer(producer, then, states)

    # -- comparison

    def compare(self) -> None:
        log, model = self.log, self.model
        assert log.log_end_offset == model.end
        first = model.first_open()
        assert log.first_unstable_offset == (model.end if first is None else first)
        aborted = model.aborted()
        found = [tuple(each) for segment in log.segments for each in segment.transactions]
        assert found == aborted
        for _ in range(3):
            offset = self.chance.randint(0, model.end)
            end = self.chance.randint(offset, model.end)
            assert log.aborted_between(offset, end) == sorted(
                [(each[0], each[1]) for each in aborted if each[2] >= offset and each[1] < end],
                key=lambda entry: entry[1],
            )
        for producer in PRODUCERS:
            self._compare_producer(producer, model, log.producers)

    def _compare_producer(self, producer: int, model: Model, states: ProducerStates) -> None:
        known = states.get(producer)
        if not model.of(producer):
            assert known is None
            return
        assert known is not None
        recent = model.recent(producer)
        assert known.epoch == model.epoch(producer)
        assert known.last_sequence == (recent[-1].last_sequence if recent else -1)
        assert known.coordinator_epoch == model.coordinator_epoch(producer)
        since = model.open_since(producer)
        assert states.open_transactions.get(producer) == since
        assert states.in_transaction(producer, known.epoch) == (since is not None)


def play(numbers: list[int]) -> None:
    """Performs the steps that ``numbers`` determine, in two runs. Snapshots are written at once in
    the first run, and in steps in the second run."""
    Play(numbers).run(numbers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_table, "SPREAD_ABOVE", 1)
        Play(numbers).run(numbers)


def numbers_of(seed: int, count: int = 90) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(1 << 20) for _ in range(count)]


@pytest.mark.proves("transactions 36")
@pytest.mark.parametrize("seed", range(60))
def test_producer_state_equals_the_state_of_the_model_after_long_histories(seed: int) -> None:
    play(numbers_of(seed))


@settings(max_examples=60)
@given(st.lists(st.integers(0, (1 << 20) - 1), max_size=60))
def test_producer_state_equals_that_of_the_model_after_short_histories(numbers: list[int]) -> None:
    play(numbers)


# -- planted faults: some play must find each fault


def _stable_past_a_commit(patch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.end

    def end(self: ProducerStates, ended: Ended) -> None:
        real(self, ended)
        if ended.marker.committed:
            self.open_transactions.clear()

    patch.setattr(ProducerStates, "end", end)


def _index_off_by_one(patch: pytest.MonkeyPatch) -> None:
    real = TransactionIndex._count_below
    patch.setattr(TransactionIndex, "_count_below", lambda self, offset: real(self, offset + 1))


def _no_epoch_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "check_marker", lambda *_: None)


def _sequence_restored_wrong(patch: pytest.MonkeyPatch) -> None:
    real = producer_snapshot._state

    def state(fields: tuple[int, ...]) -> tuple[int, State]:
        producer_id, found = real(fields)
        if len(found) > FIRST_BATCH:
            *others, _, first_offset, timestamp_ms = found
            found = (*others, 0, first_offset, timestamp_ms)
        return producer_id, found

    patch.setattr(producer_snapshot, "_state", state)


def _transactions_restored_in_any_order(patch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.restore

    def restore(self: ProducerStates, data: bytes) -> bool:
        done = real(self, data)
        began = dict(self.open_transactions)
        self.open_transactions.clear()
        self.open_transactions.update(sorted(began.items()))
        return done

    patch.setattr(ProducerStates, "restore", restore)


def _nothing_is_frozen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerTable, "_thaw", lambda *_: None)


def _truncation_forgets_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionIndex, "truncate_to", lambda *_: None)
    patch.setattr(TransactionIndex, "settle", lambda *_: None)


@pytest.mark.planted("model of producers")
@pytest.mark.parametrize(
    "plant",
    [
        _stable_past_a_commit,
        _index_off_by_one,
        _no_epoch_check,
        _sequence_restored_wrong,
        _transactions_restored_in_any_order,
        _truncation_forgets_the_index,
        _nothing_is_frozen,
    ],
)
def test_log_with_a_planted_fault_differs_from_the_model(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(60):
        try:
            play(numbers_of(seed))
        except AssertionError:
            return
    pytest.fail("60 plays went by without a difference")
