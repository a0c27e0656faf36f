"""Tests of a follower that appends batches of its leader. The follower checks the batches, updates
its producer state, and stores the bytes unchanged."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import LogBusy, LogPoisoned
from log.partition_log import PartitionLog
from log.replicated import AT_ONCE, BelowEnd
from log.values import Marker
from protocol.records.batch import encode_batch
from protocol.records.corrupt import CorruptRecords
from protocol.records.message_set import encode
from protocol.records.section import Record
from tests.log.log_tools import NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles


def follower(**config: Any) -> PartitionLog:
    return open_log(SimulatedFiles(), **config)


def stored(log: PartitionLog) -> bytes:
    found = b""
    for segment in log.segments:
        found += segment.file.read(0, segment.size)
    return found


def message(offset: int, value: bytes = b"v", magic: int = 1) -> bytes:
    return encode([Record(offset, NOW_MS, None, value)], magic)


def test_method_append_replicated_stores_the_leaders_bytes() -> None:
    log = follower()
    data = batch(0, b"a", b"b", leader_epoch=3) + batch(2, b"c", leader_epoch=5)

    assert log.append_replicated(data, NOW_MS) == len(data)

    assert stored(log) == data
    assert log.log_end_offset == 3
    assert log.epochs.entries[-2:] == [(3, 0), (5, 2)]


def test_offsets_of_replicated_batches_can_have_gaps() -> None:
    log = follower()
    log.append_replicated(batch(0, b"a") + batch(7, b"b"), NOW_MS)
    log.append_replicated(batch(20, b"c"), NOW_MS)
    assert log.log_end_offset == 21
    assert [header.base_offset for _, header in log.scan()] == [0, 7, 20]


@pytest.mark.parametrize("cut", [1, 12, 17, 40, 61, 66])
def test_partial_batch_at_the_end_of_a_response_is_ignored(cut: int) -> None:
    log = follower()
    first = batch(0, b"a")
    assert log.append_replicated(first + batch(1, b"b")[:cut], NOW_MS) == len(first)
    assert log.log_end_offset == 1


def test_empty_fetch_response_appends_no_batch() -> None:
    log = follower()
    assert log.append_replicated(b"", NOW_MS) == 0


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (flipped(batch(5), -1 % len(batch(5))), "CRC"),
        (batch(4), "begins at offset 4, expected 5"),
        (batch(5, leader_epoch=2) + batch(5, leader_epoch=2), "begins at offset 5, expected 6"),
        (batch(5, leader_epoch=1), "leader epoch 1, lower than epoch 2 of"),
        (batch(5, leader_epoch=3) + batch(6, leader_epoch=2), "leader epoch 2, lower than"),
        (message(4), "has offset 4, expected 5"),
        (message(5) + message(5), "has offset 5, expected 6"),
        (flipped(message(5), 16), "magic"),
        (batch(5)[:16] + b"\x07" + batch(5)[17:], "magic 7"),
    ],
)
def test_invalid_fetch_response_is_refused_without_an_append(data: bytes, why: str) -> None:
    log = follower()
    log.append_replicated(batch(0, *[b"v"] * 5, leader_epoch=2), NOW_MS)
    before = stored(log)

    with pytest.raises(CorruptRecords, match=why if why != "magic" else ".") as refused:
        log.append_replicated(data, NOW_MS)

    assert not isinstance(refused.value, BelowEnd)
    assert (stored(log), log.log_end_offset, log.epochs.latest) == (before, 5, 2)


def test_batch_that_begins_below_the_log_end_offset_raises_exception_below_end() -> None:
    """A leader sends such a batch if the follower was reset to the log start offset of the leader,
    and this offset is inside the batch."""
    log = follower()
    log.start_at(5, NOW_MS)
    with pytest.raises(BelowEnd) as below:
        log.append_replicated(batch(3, *[b"v"] * 4), NOW_MS)
    assert below.value.first_offset == 3

    log.start_at(3, NOW_MS)
    log.append_replicated(batch(3, *[b"v"] * 4), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (3, 7)


def test_replicated_messages_of_magic_0_and_1_have_no_leader_epoch() -> None:
    log = follower()
    data = message(0, magic=0) + message(1) + message(2)
    log.append_replicated(data, NOW_MS)
    assert stored(log) == data
    assert log.log_end_offset == 3
    assert log.epochs.latest == 0


def test_follower_rolls_its_segments_according_to_its_own_settings() -> None:
    one = batch(0, b"x" * 100)
    log = follower(segment_bytes=3 * len(one))
    log.append_replicated(b"".join(batch(n, b"x" * 100) for n in range(10)), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert [header.base_offset for _, header in log.scan()] == list(range(10))


def test_one_call_of_append_replicated_appends_a_bounded_number_of_batches() -> None:
    log = follower()
    data = b"".join(batch(n) for n in range(AT_ONCE + 10))
    taken = log.append_replicated(data, NOW_MS)
    assert log.log_end_offset == AT_ONCE
    assert taken + log.append_replicated(data[taken:], NOW_MS) == len(data)
    assert stored(log) == data


def test_replicated_batch_may_be_larger_than_a_segment() -> None:
    log = follower(segment_bytes=200)
    log.append_replicated(batch(0, b"a") + batch(1, b"x" * 500) + batch(2, b"b"), NOW_MS)
    assert log.log_end_offset == 3


def led_log() -> PartitionLog:
    """Returns a leader's log with a committed, an aborted and an open transaction, and with an
    idempotent batch."""
    log = follower()
    for producer_id, committed in ((7, True), (8, False)):
        log.append(batch(0, b"t", producer=(producer_id, 0, 0), transactional=True), 4, NOW_MS)
        log.append(batch(0, b"i", producer=(9, 1, producer_id)), 4, NOW_MS)
        log.append_marker(Marker(producer_id, 0, 3, committed), 4, NOW_MS)
    log.append(batch(0, b"o", producer=(10, 0, 0), transactional=True), 5, NOW_MS)
    return log


def facts(log: PartitionLog) -> Any:
    """Returns the state that the log derives from the headers of its batches."""
    producers = log.producers
    image = producers.freeze(0)
    for _ in image.pack():
        pass
    producers.thaw()
    return (
        bytes(image.data()),
        dict(producers.open_transactions),
        log.aborted_between(0, log.log_end_offset),
        log.epochs.entries[-2:],
        log.first_unstable_offset,
    )


@pytest.mark.parametrize("at_once", [True, False])
def test_follower_has_the_leaders_producers_transactions_and_epochs(at_once: bool) -> None:
    leader, log = led_log(), follower()
    data = stored(leader)
    if at_once:
        log.append_replicated(data, NOW_MS)
    else:
        for buffer, header in leader.scan():
            log.append_replicated(bytes(buffer[header.position : header.end]), NOW_MS)
    assert facts(log) == facts(leader)
    assert log.aborted_between(0, 9) == [(8, 3)]


def test_replicated_producer_state_survives_reopening() -> None:
    fs = SimulatedFiles()
    open_log(fs).append_replicated(stored(led_log()), NOW_MS)
    assert facts(open_log(fs)) == facts(led_log())


@pytest.mark.parametrize("offset", range(8))
def test_truncated_follower_equals_its_leader_after_new_appends(offset: int) -> None:
    leader, log = led_log(), follower()
    log.append_replicated(stored(leader), NOW_MS)
    end_offset = log.truncate_to(offset, NOW_MS)
    assert end_offset == offset
    rest = leader.read(end_offset, 1 << 20).data if offset < 7 else b""
    log.append_replicated(rest, NOW_MS)
    assert facts(log) == facts(leader)
    assert stored(log) == stored(leader)


def test_replicated_marker_batch_without_records_updates_the_producer_epoch() -> None:
    emptied = encode_batch(
        [], base_offset=0, last_offset=0, base_timestamp=NOW_MS, max_timestamp=NOW_MS,
        producer_id=7, producer_epoch=4, is_transactional=True, is_control=True,
    )  # fmt: skip
    log = follower()
    log.append_replicated(emptied, NOW_MS)
    producer = log.producers.get(7)
    assert producer is not None
    assert (producer.epoch, dict(log.producers.open_transactions)) == (4, {})


def test_full_disk_poisons_a_replicated_log_until_a_probe_write_succeeds() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    log.append_replicated(batch(0), NOW_MS)
    fs.fail("write", ".log", code=errno.ENOSPC)
    with pytest.raises(LogPoisoned):
        log.append_replicated(batch(1), NOW_MS)
    assert log.log_end_offset == 1
    log.probe()
    log.append_replicated(batch(1), NOW_MS)
    assert log.log_end_offset == 2


def test_failed_append_does_not_keep_the_leader_epochs_of_its_batches() -> None:
    """If the log kept leader epoch 2 of the failed batches, it would refuse the later retry,
    because the retry begins with a batch of epoch 1."""
    fs = SimulatedFiles(capacity_bytes=4_000)
    log = open_log(fs)
    log.append_replicated(batch(0, leader_epoch=1), NOW_MS)
    two = batch(1, b"v" * 1_000, leader_epoch=1) + batch(2, leader_epoch=2)
    fs.capacity_bytes -= fs.room(0) - 500
    with pytest.raises(LogPoisoned):
        log.append_replicated(two, NOW_MS)
    assert (log.log_end_offset, log.epochs.latest) == (1, 1)
    assert open_log(fs.as_killed()).epochs.latest == 1
    fs.capacity_bytes += 4_000
    log.probe()
    log.append_replicated(two, NOW_MS)
    assert (log.log_end_offset, log.epochs.entries[-1]) == (3, (2, 2))
    assert open_log(fs).epochs.entries[-1] == (2, 2)


def test_new_leader_epoch_is_written_before_its_first_batch() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    log.append_replicated(batch(0, leader_epoch=2), NOW_MS)
    log.start_epoch(5)
    log.start_epoch(4)
    assert open_log(fs).epochs.entries[-1] == (5, 1)
    assert log.epochs.end_offset_for(2, log.log_end_offset) == (2, 1)
    log.drop_empty_epochs()
    assert log.epochs.latest == 2


def test_log_method_start_at_empties_the_log_and_forgets_producers_and_transactions() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=200)
    log.append_replicated(b"".join(batch(n, b"x" * 50) for n in range(10)), NOW_MS)
    log.append_replicated(batch(10, b"t", producer=(7, 0, 0), transactional=True), NOW_MS)
    log.start_at(500, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, len(log.producers)) == (500, 500, 0)
    assert (stored(log), len(log.segments), log.first_unstable_offset) == (b"", 1, 500)
    again = open_log(fs, segment_bytes=200)
    assert (again.log_start_offset, again.log_end_offset) == (500, 500)


def test_truncation_is_refused_while_a_cleaning_replaces_segments() -> None:
    log = follower()
    log.append_replicated(batch(0) + batch(1), NOW_MS)
    log.segments.swapping = True
    with pytest.raises(LogBusy):
        log.truncate_to(1, NOW_MS)
    with pytest.raises(LogBusy):
        log.start_at(5, NOW_MS)
    log.segments.swapping = False
    assert log.truncate_to(1, NOW_MS) == 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_byte_of_a_fetch_response_is_never_stored(data: st.DataObject) -> None:
    """The checksum of a batch does not cover its base offset. If the base offset is damaged, the
    offsets of the batches are not in order, so that the follower detects the damage."""
    whole = batch(0, b"a", b"b", leader_epoch=1) + batch(2, b"c", leader_epoch=1)
    position = data.draw(st.integers(0, len(whole) - 1))
    damaged = flipped(whole, position)
    log = follower()
    try:
        log.append_replicated(damaged, NOW_MS)
    except CorruptRecords:
        assert log.log_end_offset == 0
        return
    kept = stored(log)
    assert damaged.startswith(kept)
