"""Random histories of a share partition. After each step, the share partition must equal a naive
model.

Members acquire and acknowledge records. Time passes. Writes succeed, fail or are lost in a crash.
The log grows, is compacted and loses its first records. The settings change. At the end of a
history, each record of the log must have been delivered.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from share.partition.locks import Lock
from share.partition.settings import ShareSettings
from share.partition.share_partition import SharePartition
from share.partition.values import AckBatch, Change, FetchedBatch, FetchedRecords
from share.values import SharePartitionKey, StateBatch, StoredState
from tests.share.partition.share_model import (
    FINAL,
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    Model,
    ModelChange,
    PerOffset,
    batches_of,
    split,
)
from tests.share.partition.share_partitions import NOON_MS, at

MEMBERS = ["a", "b", "c"]
KEY = SharePartitionKey("group", bytes(16), 0)
SEEDS = 40


class History:
    """A share partition with its model, its log and its stored state."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now_ms = 0
        self.log: list[tuple[FetchedBatch, bool]] = []
        """The batches of the log, each with True if it belongs to an aborted transaction."""
        self.log_end = self.stored_start = chance.choice([0, 0, 7])
        self.stored: PerOffset = {}
        self.settings = self.some_settings()
        self.pending: list[tuple[Change, ModelChange]] = []
        self.fetched: FetchedRecords | None = None
        self.delivered: set[int] = set()
        self.finished: set[int] = set()
        """Offsets whose acceptance or rejection is stored."""
        self.codes: set[int] = set()
        self.load()

    def some_settings(self) -> ShareSettings:
        choose = self.chance.choice
        return ShareSettings(choose([10, 30]), choose([2, 3, 5, 6, 9]), choose([4, 12, 40]))

    def load(self) -> None:
        batches = tuple(StateBatch(*batch) for batch in batches_of(self.stored))
        state = StoredState(1, 1, self.stored_start, -1, batches)
        self.partition = SharePartition(KEY, state, self.settings)
        self.model = Model(self.stored_start, self.settings)
        self.model.load(self.stored)
        self.pending = []
        self.fetched = None

    def step(self, chance: random.Random) -> None:
        self.chance = chance
        chance.choices(
            [
                self.append,
                self.acquire,
                self.acknowledge,
                self.acknowledge_anything,
                self.release_member,
                self.pass_time,
                self.settle,
                self.crash,
                self.compact,
                self.move_log_start,
                self.configure,
            ],
            [6, 14, 14, 3, 2, 5, 12, 1, 1, 1, 1],
        )[0]()
        self.compare()

    def append(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            base = self.log_end + self.chance.choice([0, 0, 0, 0, 1, 3])
            last = base + self.chance.randint(0, 6)
            self.log.append((FetchedBatch(base, last), self.chance.random() < 0.15))
            self.log_end = last + 1

    def fetch(self) -> FetchedRecords | None:
        offset = self.partition.next_fetch_offset()
        found = [each for each in self.log if each[0].last_offset >= offset]
        found = found[: self.chance.randint(1, 8)]
        if not found:
            return None
        read_committed = self.chance.random() < 0.8
        return FetchedRecords(
            offset,
            [batch for batch, _ in found],
            [(a, b) for (a, b), aborted in found if aborted and read_committed],
        )

    def acquire(self) -> None:
        fetched = self.fetched if self.fetched and self.chance.random() < 0.5 else self.fetch()
        self.fetched = self.fetch()
        if fetched is None:
            return
        member_id = self.chance.choice(MEMBERS)
        max_records = self.chance.choice([1, 3, 5, 20])
        batch_size = self.chance.choice([1, 4, 100])
        mode = self.chance.choice([0, 1])
        ranges = self.partition.acquire(
            member_id, fetched, max_records, batch_size, mode, at(self.now_ms)
        )
        acquired = self.model.acquire(member_id, fetched, max_records, mode, self.now_ms)
        assert ranges == split(acquired, fetched, batch_size, mode)
        if mode == 1:
            assert len(acquired) <= max_records
        offsets = {offset for offset, _ in acquired}
        assert not offsets & self.finished
        self.delivered |= offsets

    def acknowledge(self) -> None:
        member_id = self.chance.choice(MEMBERS)
        held = [
            offset
            for offset, record in self.model.records.items()
            if record.member_id == member_id and not record.change
        ]
        batches: list[AckBatch] = []
        while held and len(batches) < 3:
            first = last = self.chance.choice(held)
            while last + 1 in held and self.chance.random() < 0.8:
                last += 1
            held = [offset for offset in held if offset > last]
            if first == self.partition.start_offset:
                first -= self.chance.choice([0, 0, 1, 2])
            last += self.chance.random() < 0.05
            types = [self.type() for _ in range(self.chance.choice([1, last - first + 1]))]
            batches.append(AckBatch(first, last, types))
        if self.chance.random() < 0.1:
            member_id = self.chance.choice(MEMBERS)
        self.acknowledge_batches(member_id, batches, True)

    def type(self) -> int:
        return self.chance.choice([0, 1, 1, 1, 2, 2, 3, 4])

    def acknowledge_anything(self) -> None:
        offset = self.partition.start_offset - 3
        batches = []
        for _ in range(self.chance.randint(1, 3)):
            first = offset + self.chance.randint(-1, 6)
            last = first + self.chance.randint(-1, 8)
            length = self.chance.choice([0, 1, 1, 1, 1, 2, max(last - first + 1, 0)])
            types = [self.chance.choice([1, 1, 1, 1, 2, 3, 4, 5, -1]) for _ in range(length)]
            batches.append(AckBatch(first, last, types))
            offset = last + 1
        member_id = self.chance.choice(MEMBERS)
        self.acknowledge_batches(member_id, batches, self.chance.random() < 0.5)

    def acknowledge_batches(self, member_id: str, batches: list[AckBatch], is_renew: bool) -> None:
        acknowledged = self.partition.acknowledge(member_id, batches, at(self.now_ms), is_renew)
        code, change = self.model.acknowledge(member_id, batches, self.now_ms, is_renew)
        assert acknowledged.error_code == code, acknowledged.error_message
        assert (acknowledged.error_message is None) == (code == 0)
        self.codes.add(code)
        self.changed(acknowledged.change, change)

    def release_member(self) -> None:
        member_id = self.chance.choice(MEMBERS)
        self.changed(self.partition.release_member(member_id), self.model.release_member(member_id))

    def pass_time(self) -> None:
        self.now_ms += self.chance.choice([1, 5, 10, 30])
        if self.chance.random() < 0.8:
            self.expire()

    def expire(self) -> None:
        self.changed(self.partition.expire(self.now_ms), self.model.expire(self.now_ms))
        deadline = self.partition.next_deadline()
        assert deadline is None or deadline > self.now_ms

    def changed(self, change: Change | None, expected: ModelChange | None) -> None:
        assert (change is None) == (expected is None)
        if change is not None and expected is not None:
            assert change.start_offset == expected.start_offset
            assert change.delivery_complete_count == expected.delivery_complete_count
            assert list(change.batches) == batches_of(expected.records)
            self.pending.append((change, expected))

    def settle(self, may_fail: bool = True) -> None:
        if not self.pending:
            return
        change, expected = self.pending.pop(0)
        fails = may_fail and self.chance.random() < 0.3
        if not fails or self.chance.random() < 0.3:  # A write that timed out may be stored.
            self.store(expected)
        if fails:
            self.partition.failed(change, at(self.now_ms))
            self.model.failed(expected.number, self.now_ms)
            return
        self.partition.written(change, at(self.now_ms))
        self.model.written(expected.number)
        self.finished |= {
            offset for offset, (state, _) in expected.records.items() if state in FINAL
        }

    def store(self, change: ModelChange) -> None:
        self.stored_start = change.start_offset
        self.stored |= change.records
        for offset in [each for each in self.stored if each < change.start_offset]:
            del self.stored[offset]

    def crash(self) -> None:
        for _, change in self.pending[: self.chance.randint(0, 3)]:
            self.store(change)
        self.load()

    def compact(self) -> None:
        kept = [each for each in self.log if self.chance.random() < 0.7]
        self.log = kept + [each for each in self.log[-1:] if each not in kept]
        self.fetched = None

    def move_log_start(self) -> None:
        if len(self.log) < 2:
            return
        self.log = self.log[self.chance.randrange(len(self.log)) :]
        self.fetched = None
        self.partition.log_start_moved(self.log[0][0].base_offset)
        self.model.log_start_moved(self.log[0][0].base_offset)

    def configure(self) -> None:
        self.settings = self.model.settings = self.some_settings()
        self.partition.configure(self.settings)

    def compare(self) -> None:
        partition, model = self.partition, self.model
        assert (partition.start_offset, partition.end_offset) == (model.start, model.end - 1)
        assert partition.next_fetch_offset() == model.next_fetch_offset()
        assert partition.can_acquire() == model.can_acquire()
        seen: dict[int, tuple[Any, ...]] = {}
        before: Any = None
        for each in partition.in_flight():
            assert before is None or each.first_offset == before.last_offset + 1
            # Neighbours of one value are joined; locks of one member may end at one time.
            assert before is None or each[2:] != before[2:] or each.member_id
            before = each
            for offset in range(each.first_offset, each.last_offset + 1):
                seen[offset] = tuple(each[2:])
        assert seen == {
            offset: (
                record.state,
                record.count,
                record.member_id,
                NOON_MS + record.lock_begins_ms if record.member_id else -1,
                record.lock_ends_ms,
                bool(record.change),
            )
            for offset, record in model.records.items()
        }
        ends = [record.lock_ends_ms for record in model.records.values() if record.member_id]
        unpopped = [end for end in ends if end > self.now_ms]
        deadline = partition.next_deadline()
        assert not unpopped or (deadline is not None and deadline <= min(unpopped))
        assert partition.in_flight_count() == sum(
            record.state not in FINAL for record in model.records.values()
        )

        self.check_locks()

    def check_locks(self) -> None:
        """Asserts that each lock counts its records correctly, and that these records are between
        the lock's first and last offset."""
        held: dict[Lock, int] = {}
        for each in self.partition._ranges:
            if (lock := each.lock) is not None:
                held[lock] = held.get(lock, 0) + len(each)
                assert lock.last_offset >= each.last
                assert lock.first_offset <= each.first
        locks = self.partition._ranges.locks
        known = {lock for member_id in MEMBERS for lock in locks.of_member(member_id)}
        assert {lock: lock.records for lock in known} == held

    def finish(self) -> None:
        """Lets the members acquire and accept records until the start offset has reached the end of
        the log."""
        for _ in range(400):
            self.settle(False)
            if not self.pending and self.partition.start_offset >= self.log_end:
                break
            self.now_ms += 30
            self.expire()
            self.settle(False)
            self.acquire()
            for member_id in MEMBERS:
                held = [
                    AckBatch(offset, offset, [1])
                    for offset, record in sorted(self.model.records.items())
                    if record.member_id == member_id and not record.change
                ]
                self.acknowledge_batches(member_id, held, False)
            self.compare()
        end = self.partition.start_offset
        assert end >= self.log_end
        assert self.partition.next_deadline() is None or not self.partition.expire(self.now_ms + 99)
        for batch, aborted in self.log:
            if not aborted:
                assert set(range(batch.base_offset, batch.last_offset + 1)) <= self.delivered


def play(numbers: list[int]) -> History:
    history = History(random.Random(numbers[0] if numbers else 0))
    for number in numbers[1:]:
        history.step(random.Random(number))
    history.finish()
    return history


def numbers_of(seed: int, count: int = 120) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(1 << 20) for _ in range(count)]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.proves("share 1")
def test_share_partition_equals_the_model_after_long_histories(seed: int) -> None:
    play(numbers_of(seed))


@settings(max_examples=40)
@given(st.lists(st.integers(0, (1 << 20) - 1), max_size=60))
@pytest.mark.proves("share 1")
def test_share_partition_equals_the_model_after_short_histories(numbers: list[int]) -> None:
    play(numbers)


def test_random_histories_cause_every_error_code() -> None:
    """Otherwise the tests with random histories would leave some error codes untested."""
    codes = set()
    for seed in range(5):
        codes |= play(numbers_of(seed)).codes
    assert codes == {0, INVALID_REQUEST, INVALID_RECORD_STATE}
