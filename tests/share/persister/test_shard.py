"""Tests of the shard of the share coordinator: errors, snapshots, deletions and loads."""

from __future__ import annotations

import pytest

from protocol.errors import (
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    WriteState,
)
from share.persister.record_codec import encode_key
from share.persister.shard import SnapshotsMissing
from share.persister.values import ShareStateRun, SnapshotValue, UpdateValue
from share.values import SharePartitionKey, StateBatch, StoredState
from tests.share.persister.driver import KEY, WALL_MS, Driver, states

OTHER = KEY._replace(partition=1)
NEGATIVE = KEY._replace(partition=-1)
THIRD = SharePartitionKey("h", b"u" * 16, 2)
FREE = StateBatch(5, 9, 0, 1)
COLD_MS = 300_000


@pytest.mark.parametrize(
    ("stored", "epoch", "error"),
    [(5, 4, FENCED_STATE_EPOCH), (5, 5, NONE), (5, 6, NONE), (5, -1, NONE), (0, 0, NONE)],
)
def test_initialize_share_group_state_with_a_lower_state_epoch_is_fenced(
    stored: int, epoch: int, error: int
) -> None:
    driver = Driver()
    assert driver.initialize(state_epoch=stored) == NONE
    assert driver.initialize(state_epoch=epoch, start_offset=7) == error
    assert len(driver.log) == (2 if error == NONE else 1)


@pytest.mark.parametrize(
    ("epoch", "error", "records"),
    [(2, FENCED_LEADER_EPOCH, 0), (3, NONE, 0), (-1, NONE, 0), (4, NONE, 1)],
)
def test_read_with_a_lower_leader_epoch_is_fenced_and_a_newer_epoch_is_stored(
    epoch: int, error: int, records: int
) -> None:
    driver = Driver()
    driver.initialize()
    driver.read(leader_epoch=3)
    before = len(driver.log)
    reply = driver.read(leader_epoch=epoch)
    assert reply.error_code == error
    assert len(driver.log) == before + records
    if error == NONE:
        assert reply.state == driver.shard.view.state(KEY)
        assert driver.read(leader_epoch=-1).state == StoredState(1, max(epoch, 3), 0, 0)


@pytest.mark.parametrize(
    ("state_epoch", "leader_epoch", "error"),
    [
        (1, 3, NONE),
        (2, 4, NONE),
        (-1, -1, NONE),
        (1, 2, FENCED_LEADER_EPOCH),
        (0, 3, FENCED_STATE_EPOCH),
        (0, 2, FENCED_LEADER_EPOCH),
    ],
)
def test_share_state_write_with_a_lower_epoch_is_fenced_and_higher_epochs_are_not_stored(
    state_epoch: int, leader_epoch: int, error: int
) -> None:
    driver = Driver()
    driver.initialize()
    driver.read(leader_epoch=3)
    assert driver.write(FREE, epochs=(state_epoch, leader_epoch)) == error
    batches = (FREE,) if error == NONE else ()
    assert driver.shard.view.state(KEY) == StoredState(1, 3, 0, 0, batches)


def test_read_or_write_of_a_share_partition_without_a_state_is_an_error() -> None:
    driver = Driver()
    assert driver.read().error_code == INVALID_REQUEST
    assert driver.write(FREE) == INVALID_REQUEST
    summary = driver.answer(ReadStateSummary("t", KEY, 0))
    assert (summary.error_code, summary.state) == (NONE, StoredState(0, 0, -1, -1))
    assert driver.answer(DeleteState("t", KEY)).error_code == NONE
    assert driver.log == []


def test_write_without_a_start_offset_keeps_the_start_offset() -> None:
    driver = Driver()
    driver.initialize(start_offset=4)
    assert driver.write((2, 3, 2, 1), FREE, start_offset=-1, complete=2) == NONE
    state = StoredState(1, 0, 4, 2, (FREE,))
    assert driver.shard.view.state(KEY) == state


@pytest.mark.proves("share 15")
def test_repeated_share_state_write_does_not_move_the_start_offset_back() -> None:
    driver = Driver()
    driver.initialize()
    assert driver.write((10, 14, 2, 1), start_offset=5, complete=5) == NONE
    assert driver.write(start_offset=20, complete=0) == NONE
    assert driver.write((10, 14, 2, 1), (21, 21, 2, 1), start_offset=5, complete=5) == NONE
    state = driver.shard.view.state(KEY)
    assert state is not None
    assert (state.start_offset, state.delivery_complete_count) == (20, 0)
    assert state.batches == (StateBatch(21, 21, 2, 1),)
    assert states(driver.reloaded()) == states(driver.shard)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (InitializeState("t", KEY, 1, 0, exists=False), UNKNOWN_TOPIC_OR_PARTITION),
        (InitializeState("t", KEY, 0, 0, exists=False), FENCED_STATE_EPOCH),
        (ReadState("t", KEY, 5, exists=False), UNKNOWN_TOPIC_OR_PARTITION),
        (ReadState("t", KEY, 3, exists=False), FENCED_LEADER_EPOCH),
        (ReadState("t", OTHER, 4, exists=False), INVALID_REQUEST),
        (ReadStateSummary("t", OTHER, 0, exists=False), UNKNOWN_TOPIC_OR_PARTITION),
        (WriteState("t", KEY, 1, 4, 0, 0, (), exists=False), UNKNOWN_TOPIC_OR_PARTITION),
        (WriteState("t", KEY, 0, 3, 0, 0, (), exists=False), FENCED_LEADER_EPOCH),
        (WriteState("t", KEY, 0, 4, 0, 0, (), exists=False), FENCED_STATE_EPOCH),
        (WriteState("t", OTHER, 0, 4, 0, 0, (), exists=False), INVALID_REQUEST),
        (DeleteState("t", OTHER), NONE),
        (InitializeState("t", NEGATIVE, 1, 0), INVALID_REQUEST),
        (ReadState("t", NEGATIVE, 0), INVALID_REQUEST),
        (ReadStateSummary("t", NEGATIVE, 0, exists=False), INVALID_REQUEST),
        (WriteState("t", NEGATIVE, 1, 0, 0, 0, ()), INVALID_REQUEST),
        (DeleteState("t", NEGATIVE), INVALID_REQUEST),
    ],
)
def test_share_state_call_with_several_faults_returns_the_same_error_as_kafka(
    call: Call, error: int
) -> None:
    driver = Driver()
    driver.initialize()
    driver.read(leader_epoch=4)
    records = len(driver.log)
    assert driver.answer(call).error_code == error
    assert len(driver.log) == records


def test_state_that_does_not_fit_into_a_record_is_refused() -> None:
    driver = Driver(max_record_bytes=2000)
    driver.initialize()
    many = [StateBatch(offset, offset, 2, 1) for offset in range(0, 120, 2)]
    assert driver.write(*many) == UNKNOWN_SERVER_ERROR
    assert driver.write(*many[:20]) == NONE
    assert driver.write(*many[20:]) == UNKNOWN_SERVER_ERROR
    assert len(driver.log) == 2
    assert len(driver.log[1].value or b"") < 2000


# -- snapshots


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_snapshot_is_written_after_the_configured_number_of_updates(limit: int) -> None:
    driver = Driver(updates_per_snapshot=limit)
    driver.initialize()
    for offset in range(2 * (limit + 1)):
        driver.write((offset, offset, 2, 1), complete=offset + 1)
    kinds = [record.key[1] for record in driver.log[1:] if record.key]
    assert kinds == ([1] * limit + [0]) * 2
    value = driver.shard.view.snapshot(KEY)
    assert value is not None
    assert value.snapshot_epoch == 2
    assert value.batches == (StateBatch(0, 2 * limit + 1, 2, 1),)


def test_idle_share_partition_gets_a_snapshot_while_another_share_partition_is_active() -> None:
    driver = Driver()
    driver.initialize()
    driver.write(FREE)
    driver.mono_ms = COLD_MS - 1
    driver.initialize(OTHER)
    (outcome,) = driver.advance(1)
    ((run,)) = outcome.records
    cold_ms = WALL_MS + COLD_MS
    assert run == ShareStateRun(KEY, SnapshotValue(1, 1, 0, 0, WALL_MS, cold_ms, (FREE,), 0))
    (later,) = driver.advance(COLD_MS)
    assert {each.key for each in later.records} == {KEY, OTHER}
    assert not driver.advance(3 * COLD_MS)[-1].records, "all states are cold"
    driver.initialize(THIRD)
    (again,) = driver.advance(COLD_MS)
    assert [each.key for each in again.records] == [KEY, OTHER, THIRD]


def test_snapshots_of_idle_share_partitions_are_written_in_slices() -> None:
    driver = Driver()
    keys = [KEY._replace(partition=partition) for partition in range(25)]
    for key in keys:
        driver.initialize(key)
    outcomes = driver.advance(COLD_MS, budget=10)
    assert [len(outcome.records) for outcome in outcomes] == [10, 10, 5]
    assert driver.shard.next_deadline() == 2 * COLD_MS


def test_share_state_shard_without_share_partitions_has_no_next_deadline() -> None:
    driver = Driver()
    assert driver.shard.next_deadline() is None
    driver.initialize()
    assert driver.shard.next_deadline() == COLD_MS
    driver.answer(DeleteState("t", KEY))
    assert driver.shard.next_deadline() is None


# -- loads and pruning


def test_records_before_the_newest_snapshot_of_every_share_partition_are_redundant() -> None:
    driver = Driver()
    assert driver.redundant() == 0
    driver.initialize()  # 0
    driver.write(FREE)
    driver.initialize(OTHER)  # 2
    assert driver.redundant() == 0
    driver.initialize()  # 3
    driver.write(FREE)
    assert driver.redundant() == 2
    assert states(driver.reloaded(2)) == states(driver.shard)
    driver.answer(DeleteState("t", OTHER))
    assert driver.redundant() == 3
    driver.answer(DeleteState("t", KEY))
    assert driver.redundant() == len(driver.log) == 7


def test_load_ignores_and_reports_share_state_updates_without_a_snapshot() -> None:
    driver = Driver()
    driver.initialize()
    driver.write(FREE)
    driver.initialize(OTHER)
    driver.write(FREE, key=OTHER)
    driver.initialize(OTHER)
    shard = driver.reloaded(1)
    assert shard.view.state(KEY) is None
    outcome = shard.loaded(driver.now)
    assert outcome.events == (SnapshotsMissing([KEY]),)
    whole = driver.reloaded(3)
    assert list(whole.view.known_keys) == [OTHER]
    assert whole.loaded(driver.now).events == ()


def test_number_of_live_records_counts_snapshots_and_their_updates() -> None:
    driver = Driver()
    driver.initialize()
    driver.write(FREE)
    driver.write(FREE)
    driver.initialize(OTHER)
    assert (driver.shard.view.known(), driver.shard.view.live_records()) == (2, 4)


def test_key_of_a_share_state_record_begins_with_its_type() -> None:
    update = UpdateValue(0, 0, 0)
    assert encode_key(ShareStateRun(KEY, update))[:2] == b"\0\1"
    assert encode_key(ShareStateRun(KEY, None))[:2] == b"\0\0"
