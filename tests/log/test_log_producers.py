"""Idempotent producers: a log recognizes duplicates and refuses sequence gaps and old epochs, as
Kafka does."""

from __future__ import annotations

import struct

import pytest

from log.batch_scan import Header, headers
from log.errors import AppendRefused
from log.producers.producer_state import ProducerStates
from log.values import Ended, Marker
from protocol.errors import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER
from protocol.records.batch import TRANSACTIONAL_BIT
from protocol.records.crc import crc32c
from tests.log.log_tools import DIRECTORY, NOW_MS, batch, open_log, snapshot_of, values
from tests.simulated_files import SimulatedFiles

INT_MAX = 2**31 - 1


def sent(epoch: int, sequence: int, records: int = 1, producer_id: int = 7) -> bytes:
    return batch(0, *[b"v"] * records, producer=(producer_id, epoch, sequence))


# The batches that producer 7 has written (epoch, first sequence, records), its next batch, and the
# answer: "+" for an append at the end, the offset of the duplicate, or the error code.
ROWS = [
    ([], (0, 0, 1), "+"),
    ([], (0, 5, 1), "+"),  # the log does not know the producer, whose records can have been deleted
    ([(0, 0, 1)], (0, 1, 1), "+"),
    ([(0, 0, 3)], (0, 3, 2), "+"),
    ([(0, 0, 1)], (0, 0, 1), 0),
    ([(0, 0, 3), (0, 3, 2)], (0, 0, 3), 0),
    ([(0, 0, 3), (0, 3, 2)], (0, 3, 2), 3),
    ([(0, 0, 3), (0, 3, 2)], (0, 3, 1), OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([(0, 0, 1)], (0, 2, 1), OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([(0, n, 1) for n in range(5)], (0, 0, 1), 0),
    ([(0, n, 1) for n in range(6)], (0, 1, 1), 1),
    # the log remembers only five batches
    ([(0, n, 1) for n in range(6)], (0, 0, 1), OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([(1, 0, 1)], (0, 1, 1), INVALID_PRODUCER_EPOCH),
    ([(1, 0, 1)], (0, 0, 1), INVALID_PRODUCER_EPOCH),
    ([(0, 0, 1)], (1, 0, 1), "+"),
    ([(0, 0, 1)], (1, 1, 1), OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([(0, 0, 1), (1, 0, 1)], (1, 0, 1), 1),
    ([(0, INT_MAX, 1)], (0, 0, 1), "+"),  # sequence numbers wrap
    ([(0, INT_MAX - 1, 3)], (0, 1, 1), "+"),
    ([(0, INT_MAX - 1, 3)], (0, INT_MAX - 1, 3), 0),
    ([(0, INT_MAX, 1)], (0, 1, 1), OUT_OF_ORDER_SEQUENCE_NUMBER),
]


@pytest.mark.proves("transactions 13")
@pytest.mark.parametrize("after", ["at once", "a restart", "a crash"])
@pytest.mark.parametrize(("written", "sends", "answer"), ROWS)
def test_result_of_an_idempotent_append_depends_on_the_producer_history(
    written: list[tuple[int, int, int]],
    sends: tuple[int, int, int],
    answer: int | str,
    after: str,
) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    for entry in written:
        log.append(sent(*entry), 0, NOW_MS)
    if after == "a restart":
        log.close()
        log = open_log(fs, clean=True)
        if isinstance(answer, int) and sends in written[:-1]:
            answer = (
                OUT_OF_ORDER_SEQUENCE_NUMBER  # a snapshot, as in Kafka, has only the last batch
            )
    elif after == "a crash":
        log = open_log(fs)
    end_offset = log.log_end_offset
    size = log.size_bytes

    if answer in (OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH):
        with pytest.raises(AppendRefused) as caught:
            log.append(sent(*sends), 0, NOW_MS)
        assert caught.value.error_code == answer
        assert "7" in caught.value.message
        assert (log.log_end_offset, log.size_bytes) == (end_offset, size)
        return
    info = log.append(sent(*sends), 0, NOW_MS)
    if answer == "+":
        assert (info.first_offset, info.duplicate) == (end_offset, False)
        assert info.last_offset == end_offset + sends[2] - 1 == log.log_end_offset - 1
    else:
        assert (info.first_offset, info.last_offset) == (answer, answer + sends[2] - 1)
        assert info.duplicate
        assert (log.log_end_offset, log.size_bytes) == (end_offset, size)


def test_sequence_numbers_are_checked_separately_for_each_producer() -> None:
    log = open_log(SimulatedFiles())
    log.append(sent(0, 0, producer_id=1), 0, NOW_MS)
    log.append(sent(3, 9, producer_id=2), 0, NOW_MS)
    log.append(sent(0, 1, producer_id=1), 0, NOW_MS)
    log.append(sent(3, 10, producer_id=2), 0, NOW_MS)
    log.append(batch(0, b"no producer"), 0, NOW_MS)

    assert log.log_end_offset == 5
    assert len(log.producers) == 2
    assert log.producers.highest_id == 2


def test_refused_batch_does_not_change_the_state_of_its_producer() -> None:
    log = open_log(SimulatedFiles())
    log.append(sent(0, 0), 0, NOW_MS)
    for epoch, sequence in ((0, 5), (1, 5)):
        with pytest.raises(AppendRefused):
            log.append(sent(epoch, sequence), 0, NOW_MS)
    assert log.append(sent(0, 1), 0, NOW_MS).first_offset == 1


def test_failed_write_does_not_change_the_state_of_its_producer() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    log.append(sent(0, 0), 0, NOW_MS)
    fs.fail("write", ".log")
    with pytest.raises(Exception, match="Input/output"):
        log.append(sent(0, 1), 0, NOW_MS)
    log.probe()
    info = log.append(sent(0, 1), 0, NOW_MS)
    assert (info.first_offset, info.duplicate) == (1, False)


def test_idle_producer_expires_after_its_expiration_time() -> None:
    log = open_log(SimulatedFiles(), producer_id_expiration_ms=1000, retention_ms=-1)
    log.append(sent(0, 0), 0, NOW_MS)

    for after_ms, left in ((1000, 1), (1001, 0)):
        for _ in log.expire_producers(NOW_MS + after_ms):
            pass
        assert len(log.producers) == left

    assert log.append(sent(0, 8), 0, NOW_MS).first_offset == 1


def test_producer_snapshot_is_written_at_a_roll_and_restored() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100)
    log.append(sent(0, 0), 0, NOW_MS)
    log.append(sent(0, 1), 0, NOW_MS)

    snapshot = fs.written(f"{DIRECTORY}/00000000000000000001.snapshot")
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 0, 0, 0, 0, NOW_MS, -1, -1)
    assert snapshot == struct.pack(">hI", 1, crc32c(body)) + body

    again = open_log(fs, segment_bytes=100)
    assert snapshot_of(again.producers) == snapshot_of(log.producers)


def test_log_without_records_has_no_producer_snapshot() -> None:
    fs = SimulatedFiles()
    open_log(fs).close()
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".snapshot")]


@pytest.mark.parametrize("cut", range(0, 56, 5))
def test_damaged_snapshot_is_rebuilt_from_the_log(cut: int) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    log.append(sent(0, 0), 0, NOW_MS)
    log.close()
    path = f"{DIRECTORY}/00000000000000000001.snapshot"
    whole = fs.written(path)
    assert len(whole) == 56
    assert ProducerStates().restore(whole)
    assert not ProducerStates().restore(whole[:cut])
    fs.names[path].data[cut] ^= 0x40

    log = open_log(fs, clean=True)

    assert snapshot_of(log.producers) == whole
    assert values(log) == [(0, b"v")]
    assert log.append(sent(0, 0), 0, NOW_MS).duplicate


def test_truncation_restores_the_earlier_producer_state() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    for sequence in range(3):
        log.append(sent(0, sequence), 0, NOW_MS)

    assert log.truncate_to(1, NOW_MS) == 1

    assert [batch.base_sequence for batch in headers(log.active.file, 0, log.active.size)] == [0]
    assert log.append(sent(0, 1), 0, NOW_MS).first_offset == 1


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [1, 2, 3])
def test_deletion_of_records_preserves_producer_sequence_numbers(start: int, clean: bool) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    for sequence in range(3):
        log.append(sent(0, sequence), 0, NOW_MS)
    log.delete_records(start)
    if clean:
        log.close()
    fs.kill()

    again = open_log(fs, log_start_offset=start, clean=clean)

    assert again.log_start_offset == start
    assert again.append(sent(0, 2), 0, NOW_MS).duplicate
    assert again.append(sent(0, 3), 0, NOW_MS).first_offset == 3


def test_snapshot_before_the_first_segment_is_removed() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100, file_delete_delay_ms=0)
    for sequence in range(4):
        log.append(sent(0, sequence), 0, NOW_MS)
    log.delete_records(4)
    log.apply_retention(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [4]
    fs.kill()
    old = f"{DIRECTORY}/00000000000000000001.snapshot"
    fs.rename(f"{DIRECTORY}/00000000000000000004.snapshot", old)

    again = open_log(fs, log_start_offset=4)

    assert len(again.producers) == 0
    assert not fs.exists(old)
    assert again.append(sent(0, 9), 0, NOW_MS).first_offset == 4


def test_rebuilt_leader_epochs_begin_at_the_log_start_offset() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    for epoch in (0, 2, 2, 3):
        log.append(batch(), epoch, NOW_MS)
    fs.lose(f"{DIRECTORY}/leader-epoch-checkpoint")

    again = open_log(fs, log_start_offset=2)

    assert again.epochs.entries == [(2, 2), (3, 3)]


@pytest.mark.parametrize("kept", [True, False])
def test_older_epoch_in_the_log_does_not_lower_the_producers_epoch(kept: bool) -> None:
    """An earlier version of Muster, and a Kafka without KIP-890, could append a batch with an older
    epoch."""
    fs = SimulatedFiles()
    log = open_log(fs)
    log.append(batch(0, b"a", producer=(7, 5, 0)), 0, NOW_MS)
    late = Header(0, 0, 1, 1, 0, TRANSACTIONAL_BIT, NOW_MS, 7, 4, 9)
    states = log.producers

    states.note(late)
    if kept:
        states.note(late._replace(base_offset=2, last_offset=2, attributes=0, base_sequence=10))

    known = states.get(7)
    assert known is not None
    assert (known.epoch, known.last_sequence) == (5, 0)
    assert dict(states.open_transactions) == {7: 1}
    assert not states.in_transaction(7, 4)
    states.end(Ended(Marker(7, 4, 0, committed=False), 3, NOW_MS))
    known = states.get(7)
    assert known is not None
    assert (known.epoch, known.last_sequence) == (5, 0)
    assert not states.open_transactions
