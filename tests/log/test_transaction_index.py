"""The index of aborted transactions: lookups, the file, and truncation."""

from __future__ import annotations

import random

import pytest

from log.indexes.transaction_index import Aborted, TransactionIndex
from log.partition_log import PartitionLog
from log.values import Marker
from protocol.records.stored import iter_stored
from tests.log.log_tools import DIRECTORY, NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles

PATH = f"{DIRECTORY}/00000000000000000000.txnindex"


def entries(count: int, seed: int = 0) -> list[Aborted]:
    """Returns overlapping transactions. Some of the transactions begin long before their end."""
    chance = random.Random(seed)
    made = []
    for number in range(1, count + 1):
        last = 10 * number
        first = max(0, last - chance.choice([3, 5, 40, 40, 700, 9000]))
        made.append(Aborted(number % 7, first, last, last + 1))
    return made


def made(count: int, fs: SimulatedFiles) -> tuple[TransactionIndex, list[Aborted]]:
    fs.make_directory(DIRECTORY)
    index, aborted = TransactionIndex(fs, PATH), entries(count)
    for entry in aborted:
        index.append([entry])
    return index, aborted


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 129, 4096, 4097, 9000])
def test_transaction_index_lookup_equals_a_linear_search(count: int) -> None:
    fs = SimulatedFiles()
    index, aborted = made(count, fs)
    loaded = TransactionIndex(fs, PATH)
    assert not count or loaded.load()
    chance = random.Random(count)
    for _ in range(60):
        offset = chance.randint(0, 10 * count + 5)
        end = offset + chance.choice([1, 20, 500, 100_000])
        expected = [e for e in aborted if e.last_offset >= offset and e.first_offset < end]
        assert index.overlapping(offset, end) == expected
        assert loaded.overlapping(offset, end) == expected


def test_transaction_index_lookup_reads_a_bounded_number_of_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lookup reads the first 64 entries after the offset, and then only entries near the
    result."""
    index = TransactionIndex(SimulatedFiles(), PATH)
    index._take(bytearray(b"".join(_packed(n) for n in range(100_000))))
    looked = 0
    real = TransactionIndex._pass_over

    def counted(self: TransactionIndex, position: int, end: int) -> int:
        nonlocal looked
        looked += 1
        return real(self, position, end)

    monkeypatch.setattr(TransactionIndex, "_pass_over", counted)
    assert len(index.overlapping(30, 60)) == 10
    assert looked < 400


def _packed(number: int) -> bytes:
    entry = (5, 3 * number, 3 * number + 1, 3 * number + 2)
    return b"\0\0" + b"".join(value.to_bytes(8, "big") for value in entry)


@pytest.mark.parametrize("count", [70, 5000])
@pytest.mark.parametrize("offset", [0, 5, 10, 11, 640, 650, 49_990, 50_001])
def test_transaction_index_truncation_removes_entries_whose_marker_is_truncated(
    count: int, offset: int
) -> None:
    fs = SimulatedFiles()
    index, aborted = made(count, fs)
    index.truncate_to(offset)
    left = [entry for entry in aborted if entry.last_offset < offset]
    assert list(index) == left
    assert len(fs.written(PATH)) == 34 * len(left)
    late = Aborted(9, 3, 10 * count + 5, 10 * count + 6)
    index.append([late])
    assert index.overlapping(0, 1 << 40) == [*left, late]


@pytest.mark.parametrize("cut", [0, 1, 33, 34, 35, 67, 68, 69])
def test_complete_entries_of_a_torn_transaction_index_are_kept(cut: int) -> None:
    fs = SimulatedFiles()
    _, aborted = made(2, fs)
    data = fs.written(PATH)
    fs.put(PATH, (data + b"\0" * 34)[:cut])
    index = TransactionIndex(fs, PATH)
    assert index.load() == (cut in (0, 34, 68))
    assert list(index) == aborted[: cut // 34]


def ended(log: PartitionLog, producer_id: int, committed: bool = False) -> None:
    """Appends a transaction of one record and the marker of the transaction."""
    producer = (producer_id, 0, 0)
    log.append(batch(producer=producer, transactional=True), 0, NOW_MS)
    log.append_marker(Marker(producer_id, 0, 0, committed), 0, NOW_MS)


def test_transaction_index_entries_are_removed_with_their_segments() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=150, file_delete_delay_ms=0)
    for producer_id in range(1, 7):
        ended(log, producer_id)
    assert log.aborted_between(0, 99) == [(n, 2 * (n - 1)) for n in range(1, 7)]
    assert len(log.segments) == 6
    log.delete_records(5)
    log.apply_retention(NOW_MS)
    assert log.aborted_between(0, 99) == [(n, 2 * (n - 1)) for n in range(3, 7)]
    log.apply_retention(NOW_MS)
    assert not fs.exists(PATH)
    assert len([name for name in fs.list(DIRECTORY) if ".txnindex" in name]) == 4


@pytest.mark.proves("transactions 17")
def test_aborted_transaction_over_several_segments_is_found_from_each_segment() -> None:
    log = open_log(SimulatedFiles(), segment_bytes=150)
    log.append(batch(producer=(99, 0, 0), transactional=True), 0, NOW_MS)
    for producer_id in range(1, 5):
        ended(log, producer_id, committed=True)
    log.append_marker(Marker(99, 0, 0, False), 0, NOW_MS)
    assert len(log.segments) > 3
    for offset in range(log.log_end_offset):
        assert log.aborted_between(offset, offset + 1) == [(99, 0)]
        info = log.read(offset, 1 << 20)
        assert log.aborted_in(info, offset, log.log_end_offset) == [(99, 0)]


def test_read_of_a_replaced_segment_returns_the_aborted_transactions_of_the_segment() -> None:
    log = open_log(SimulatedFiles(), segment_bytes=150)
    ended(log, 1)
    ended(log, 2, committed=True)
    info = log.read(0, 1 << 20)
    cleaned = log.segments[0].transactions
    log.segments.exchange(log.segments[:1], open_log(SimulatedFiles()).active)
    assert len(cleaned) == 1
    assert log.aborted_in(info, 0, log.log_end_offset) == [(1, 0)]


@pytest.mark.parametrize("sealed", [False, True])
def test_partial_read_returns_only_overlapping_aborted_transactions(sealed: bool) -> None:
    """If ``max_bytes`` limits a read, the end offset of the read comes from the offset index. The
    index is in memory or, for a sealed segment, in its file."""
    log = open_log(SimulatedFiles(), index_interval_bytes=300)
    for producer_id in range(1, 101):
        ended(log, producer_id)
    if sealed:
        log.active.seal()
    size = log.size_bytes
    for most in range(1, size, size // 37):
        info = log.read(40, most)
        behind = max(header.last_offset for header, _ in iter_stored(info.data, partial=True)) + 1
        told = log.aborted_in(info, 40, log.log_end_offset)
        needed = log.aborted_between(40, behind)
        assert told[: len(needed)] == needed
        assert len(told) <= len(needed) + 3
