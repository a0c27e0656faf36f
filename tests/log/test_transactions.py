"""Tests of a log whose transactions another broker wrote: the last stable offset and the aborted
transactions.

The model of a consumer follows the Java client. It fetches up to the last stable offset, skips the
batches of a producer with an aborted transaction, and delivers later batches of this producer after
the marker.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from log.partition_log import PartitionLog
from protocol.records.batch import ABORT, records_of
from protocol.records.stored import iter_stored
from tests.log.cleaning_tools import RandomLog, clean_log, committed
from tests.log.log_tools import DIRECTORY, forget_producers, open_log
from tests.log.test_cleaner import end, transactional
from tests.simulated_files import SimulatedFiles

SMALL: dict[str, Any] = {"segment_bytes": 900, "index_interval_bytes": 150}
INDEX_ENTRY = struct.Struct(">hqqqq")  # the format of Kafka's AbortedTxn
SEEDS = range(15)


def consumed(log: PartitionLog, max_bytes: int = 400) -> list[int]:
    """Returns the offsets of the records that the model of a read_committed consumer delivers."""
    return list(_consumed(log, max_bytes))


def _consumed(log: PartitionLog, max_bytes: int) -> Iterator[int]:
    offset = log.log_start_offset
    while data := log.read(offset, max_bytes, max_offset=log.first_unstable_offset).data:
        seen_to = max(header.last_offset for header, _ in iter_stored(data, partial=True)) + 1
        begun = log.aborted_between(offset, seen_to)
        aborted: set[int] = set()
        for header, _ in iter_stored(data, partial=True):
            while begun and begun[0][1] <= header.last_offset:
                aborted.add(begun.pop(0)[0])
            records = records_of(data, header)
            if header.is_control:
                if records and records[0].key == struct.pack(">hh", 0, ABORT):
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                yield from (r.offset for r in records if r.offset >= offset)
            offset = header.last_offset + 1


def due(log: PartitionLog) -> list[int]:
    """Returns the offsets that a read_committed consumer must deliver, computed from the whole
    log."""
    stable = first_open(log)
    return sorted(record.offset for record in committed(log) if record.offset < stable)


def first_open(log: PartitionLog) -> int:
    began: dict[int, int] = {}
    for _, header in log.scan():
        if header.is_control:
            began.pop(header.producer_id, None)
        elif header.is_transactional:
            began.setdefault(header.producer_id, header.base_offset)
    return min(began.values(), default=log.log_end_offset)


def aborted(log: PartitionLog) -> Iterator[tuple[int, int, int]]:
    began: dict[int, int] = {}
    for buffer, header in log.scan():
        if header.is_control:
            [marker] = records_of(buffer, header)
            since = began.pop(header.producer_id, None)
            if since is not None and marker.key == struct.pack(">hh", 0, ABORT):
                yield header.producer_id, since, header.base_offset
        elif header.is_transactional:
            began.setdefault(header.producer_id, header.base_offset)


def in_files(fs: SimulatedFiles, log: PartitionLog) -> list[tuple[int, int, int]]:
    """Returns the entries of the transaction index files, and asserts that the entries in memory
    are equal."""
    entries: list[tuple[int, int, int]] = []
    for segment in log.segments:
        path = segment.path(".txnindex")
        data = fs.written(path) if fs.exists(path) else b""
        in_file = [entry[1:] for entry in INDEX_ENTRY.iter_unpack(data)]
        assert in_file == list(segment.transactions)
        entries += [entry[:3] for entry in in_file]
    return entries


def remove(fs: SimulatedFiles, suffix: str) -> None:
    for name in fs.list(DIRECTORY):
        if name.endswith(suffix):
            fs.remove(f"{DIRECTORY}/{name}")


@pytest.mark.proves("transactions 16")
@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_restored_from_the_batches_of_a_log(seed: int) -> None:
    fs = SimulatedFiles()
    written = open_log(fs, **SMALL)
    RandomLog(written, random.Random(seed)).append(60)
    remove(fs, ".snapshot")

    log = open_log(fs, **SMALL)
    assert log.first_unstable_offset == first_open(log)
    assert in_files(fs, log) == [*aborted(log)]
    assert consumed(log) == due(log)

    log.close()
    again = open_log(fs, clean=True, recovery_point=log.log_end_offset, **SMALL)
    assert in_files(fs, again) == [*aborted(log)]
    assert again.first_unstable_offset == first_open(log)
    assert consumed(again) == due(log)


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_restored_from_files_of_kafka(seed: int) -> None:
    fs = SimulatedFiles()
    written = open_log(fs, **SMALL)
    RandomLog(written, random.Random(seed)).append(60)
    for segment in written.segments[:-1]:  # the last index is written at a roll
        entries = [e for e in aborted(written) if written.segments.at(e[2]) is segment]
        path = segment.path(".txnindex")
        fs.remove(path)
        data = b"".join(INDEX_ENTRY.pack(0, *entry, entry[2] + 1) for entry in entries)
        fs.open(path, create=True).write(0, data)

    log = open_log(fs, **SMALL)
    assert in_files(fs, log) == [*aborted(log)]
    assert consumed(log) == due(log)


@pytest.mark.parametrize("seed", SEEDS)
def test_read_committed_consumer_of_a_cleaned_log_gets_committed_records(seed: int) -> None:
    fs = SimulatedFiles()
    settings: dict[str, Any] = {**SMALL, "cleanup_policy": "compact", "delete_retention_ms": 1}
    writer = RandomLog(open_log(fs, **settings), random.Random(seed))
    writer.append(60)
    remove(fs, ".snapshot")
    writer.log = open_log(fs, **settings)
    seen = set(due(writer.shadow))
    for ms in (0, 10):  # the second cleaning removes the markers
        writer.log.roll()
        clean_log(writer.log, 0, writer.now_ms + ms)
        assert set(consumed(writer.log)) == {
            record.offset for record in committed(writer.log) if record.offset in seen
        }
        log = open_log(fs, **settings)
        assert consumed(log) == consumed(writer.log)


@pytest.mark.proves("transactions 16")
@pytest.mark.parametrize(
    "stops",
    ["in order", "in order, and it is gone with .index", "in order, and all are gone", "killed"],
)
@pytest.mark.parametrize("seed", range(5))
def test_lost_or_torn_transaction_index_is_rebuilt(seed: int, stops: str) -> None:
    """After a clean stop, either the index file of one segment is torn, or all index files are
    missing. As in Kafka, a segment without aborted transactions has no transaction index file."""
    fs = SimulatedFiles()
    log = open_log(fs, **SMALL)
    RandomLog(log, random.Random(seed)).append(60)
    entries, visible = [*aborted(log)], consumed(log)
    assert entries
    clean = stops != "killed"
    if clean:
        log.close()
    else:
        fs.kill()
    if stops == "in order":
        for name in fs.list(DIRECTORY):
            if name.endswith(".txnindex"):
                fs.put(f"{DIRECTORY}/{name}", fs.written(f"{DIRECTORY}/{name}")[:-10])
    else:
        remove(fs, ".txnindex")
        remove(fs, ".index")
        if stops != "in order, and it is gone with .index":
            remove(fs, ".timeindex")

    again = open_log(fs, clean=clean, **SMALL)

    assert in_files(fs, again) == entries
    assert consumed(again) == visible == due(again)


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    fs = SimulatedFiles()
    transactional(open_log(fs), 9, 0, b"a")
    reopened = open_log(fs)
    assert reopened.first_unstable_offset == 0
    forget_producers(reopened)
    assert reopened.first_unstable_offset == 0
    end(reopened, 9, ABORT)
    ended = open_log(fs)
    assert ended.first_unstable_offset == 2
    forget_producers(ended)
    assert ended.producers.get(9) is None
