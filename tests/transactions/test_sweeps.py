"""Tests of timeouts, expiries and loads, which run in several steps, and of the bounded size of the
stored state."""

from __future__ import annotations

import time
from collections import Counter

from protocol.errors import CONCURRENT_TRANSACTIONS, NONE
from protocol.now import Now
from protocol.records.section import Record
from tests.transactions.driver import Driver
from tests.uncollected import uncollected
from transactions.calls import (
    TV2,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
)
from transactions.config import TransactionConfig
from transactions.events import Cause, Transition
from transactions.outcome import SendMarkers
from transactions.producer_ids import ProducerIds
from transactions.record_codec import encode_key, encode_value, run_bytes_at_most, runs_of_records
from transactions.shard import TransactionShard
from transactions.states import State
from transactions.values import TransactionRun, TransactionValue

IDS = 100_000


def begun(driver: Driver, count: int) -> None:
    """Opens ``count`` transactions, each with its own transactional id."""
    for number in range(count):
        name = f"x{number}"
        reply = driver.answer(InitProducerId("i", name, 1000, -1, -1))
        owner = (name, reply.producer_id, reply.producer_epoch)
        driver.handle(AddPartitions("a", *owner, [("t", [number])], TV2))


def test_transaction_timeouts_are_handled_in_slices() -> None:
    driver = Driver()
    begun(driver, 25)
    driver.mono_ms = 10_000
    aborted = []
    while (due_ms := driver.shard.next_deadline()) is not None and due_ms <= driver.mono_ms:
        outcome = driver.take(driver.shard.expire(driver.now, 10))
        aborted.append(len(outcome.records))
    assert aborted == [10, 10, 5]
    assert len(driver.unsent) == 25
    assert all(isinstance(each, SendMarkers) and not each.committed for each in driver.unsent)


def test_next_deadline_is_none_when_no_transactional_id_exists() -> None:
    driver = Driver()
    assert driver.shard.next_deadline() is None
    driver.handle(InitProducerId("i", "x", 1000, -1, -1))
    assert driver.shard.next_deadline() == driver.config.expire_interval_ms
    driver.handle(AddPartitions("a", "x", 1000, 0, [("t", [0])], TV2))
    assert driver.shard.next_deadline() == driver.config.abort_interval_ms


def test_timeout_heap_has_one_entry_per_producer_after_many_transactions() -> None:
    driver = Driver()
    driver.handle(InitProducerId("i", "x", 60_000, -1, -1))
    for epoch in range(500):
        driver.mono_ms += 10
        driver.handle(AddPartitions("a", "x", 1000, epoch, [("t", [0])], TV2))
        driver.handle(EndTransaction("e", "x", 1000, epoch, True, TV2))
        driver.write_markers()
    state = driver.shard.view._state  # the internal state has the bound
    assert len(state.timeouts) == 1
    assert len(state.expiries) == 1


def test_tombstones_of_expired_transactional_ids_are_divided_into_batches_of_limited_size() -> None:
    driver = Driver(max_record_bytes=80_000, expiration_ms=1000)
    for number in range(9):
        driver.handle(InitProducerId("i", f"{number}" * 20_000, 1000, -1, -1))
    driver.mono_ms = driver.config.expire_interval_ms
    pieces = []
    while (due_ms := driver.shard.next_deadline()) is not None and due_ms <= driver.mono_ms:
        outcome = driver.take(driver.shard.expire(driver.now, 100))
        pieces.append([run.transactional_id for run in outcome.records])
    assert sum(map(len, pieces)) == 9
    room = driver.config.max_record_bytes - 61
    assert all(sum(run_bytes_at_most(name, ()) for name in piece) <= room for piece in pieces)
    assert not driver.shard.view.transactions


def test_expired_transactional_id_has_cause_expired_and_a_tombstone() -> None:
    driver = Driver(expiration_ms=1000)
    driver.handle(InitProducerId("i", "x", 1000, -1, -1))
    [outcome] = driver.advance(driver.config.expire_interval_ms)
    [event] = outcome.events
    assert isinstance(event, Transition)
    assert (event.cause, event.new, event.old) == (Cause.EXPIRED, State.DEAD, State.EMPTY)
    assert driver.log[-1].value is None
    driver.reload()
    assert not driver.shard.view.transactions


def test_transaction_does_not_time_out_early_when_the_clock_is_set_back() -> None:
    driver = Driver()
    begun(driver, 1)
    driver.wall_offset_ms -= 3_600_000
    assert not any(outcome.records for outcome in driver.advance(60_000))
    driver.wall_offset_ms += 3_600_000
    assert any(outcome.records for outcome in driver.advance(10_000))


def test_log_of_1000_requests_that_each_add_one_partition_is_smaller_than_2_2_mb() -> None:
    driver = Driver()
    driver.handle(InitProducerId("i", "x", 60_000, -1, -1))
    for number in range(1000):
        assert driver.error(AddPartitions("a", "x", 1000, 0, [("topic", [number])], TV2)) == NONE
    size = sum(len(each.key or b"") + len(each.value or b"") for each in driver.log)
    assert size < 2_200_000, "each record has all partitions: half a million numbers of four bytes"
    assert len(driver.get("x").partitions[0][1]) == 1000


def test_markers_of_a_transaction_with_10_000_partitions_are_sent_together() -> None:
    driver = Driver()
    driver.handle(InitProducerId("i", "x", 60_000, -1, -1))
    call = AddPartitions("a", "x", 1000, 0, [("topic", range(10_000))], TV2)
    assert driver.error(call) == NONE
    driver.handle(EndTransaction("e", "x", 1000, 0, True, TV2))
    [markers] = driver.unsent
    assert sorted(markers.partitions[0][1]) == list(range(10_000))
    assert driver.error(InitProducerId("i", "x", 60_000, -1, -1)) == CONCURRENT_TRANSACTIONS


def test_a_hundred_thousand_transactional_ids_are_loaded_within_three_seconds() -> None:
    value = TransactionValue(5, 3, 60_000, State.COMPLETE_COMMIT, (), 1_000_000, 900_000, 5, -1, 2)
    data = encode_value(value, 1)
    records = [Record(i, 0, encode_key(f"producer-{i}"), data) for i in range(IDS)]
    shard = TransactionShard(TransactionConfig("markers", ProducerIds()))
    began = time.thread_time()
    for offset, run in runs_of_records(records, Counter()):
        shard.replay(run, offset)
    while shard.wake(Now(0, 1_000_000), 1000):
        pass
    shard.loaded(Now(0, 1_000_000))
    took_s = time.thread_time() - began
    assert shard.view.known() == IDS
    assert took_s < 3.0
    with uncollected():
        began = time.thread_time()
        shard.expire(Now(10_000, 1_010_000), 100)
        assert shard.next_deadline() is not None
        assert time.thread_time() - began < 0.01, "a sweep looks at what is due, not at all"


def test_load_of_a_shard_sends_markers_of_prepared_transactions_in_slices() -> None:
    shard = TransactionShard(TransactionConfig("markers", ProducerIds()))
    for number in range(250):
        state = State.PREPARE_COMMIT if number % 2 else State.ONGOING
        value = TransactionValue(5, 3, 60_000, state, (("t", (0,)),), 1, 1, 5)
        shard.replay(TransactionRun(f"x{number}", value), number)
    assert [shard.wake(Now(0, 1), 100) for _ in range(4)] == [100, 100, 50, 0]
    assert len(shard.loaded(Now(0, 1)).replies) == 125
    listed = shard.handle(ListTransactions("t", frozenset({"Ongoing"}), frozenset(), -1), Now(0, 1))
    [(_, reply)] = listed.replies
    assert len(reply.transactions) == 125  # type: ignore[union-attr]
