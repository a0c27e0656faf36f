"""Tests of transactions in a cleaned log: their records, their markers, and the index of aborted
transactions.

A read_committed consumer receives the same records before and after the cleaning.
"""

from __future__ import annotations

from typing import Any

import pytest

from log.cleaner.clean_plan import Cleanable, SegmentFacts, cleanable
from log.config import LogConfig
from log.partition_log import PartitionLog
from log.values import Marker
from protocol.records.batch import ABORT, COMMIT
from tests.log.cleaning_tools import RETENTION_MS, SETTINGS, all_records, clean_log
from tests.log.log_tools import NOW_MS, forget_producers, open_log
from tests.log.test_cleaner import batches, end, put, transactional
from tests.log.test_transactions import consumed
from tests.simulated_files import SimulatedFiles

LARGE: dict[str, Any] = {**SETTINGS, "segment_bytes": 5000}


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in all_records(log)]


def entries(log: PartitionLog) -> list[tuple[int, int, int]]:
    """Returns the producer id, the first offset and the marker offset of each entry in the
    transaction index."""
    return [entry[:3] for segment in log.segments for entry in segment.transactions]


@pytest.mark.proves("transactions 30")
def test_records_aborted_by_a_marker_in_the_active_segment_are_removed() -> None:
    """The cleaner reads the transaction index of the active segment, but does not change the
    batches of this segment."""
    log = open_log(SimulatedFiles(), **LARGE)
    put(log, (b"a", b"1"))
    transactional(log, 9, 0, b"a")
    put(log, (b"b", b"1"))
    log.roll()
    put(log, (b"c", b"1"))
    end(log, 9, ABORT)
    forget_producers(log)

    assert clean_log(log, 0, NOW_MS).end_offset == 3, "nothing is open"

    assert offsets(log) == [0, 2, 3], "the aborted value of a displaced none"
    assert entries(log) == [(9, 1, 4)], "its marker is there still"
    assert consumed(log) == [0, 2, 3]


def test_record_committed_in_the_active_segment_supersedes_older_records() -> None:
    log = open_log(SimulatedFiles(), **LARGE)
    put(log, (b"a", b"1"))
    transactional(log, 9, 0, b"a")
    log.roll()
    end(log, 9, COMMIT)
    assert clean_log(log, 0, NOW_MS).end_offset == 2
    assert offsets(log) == [1]


@pytest.mark.parametrize(("late_go", "left"), [(False, [2]), (True, [0])])
def test_transactional_batch_after_its_marker_supersedes_no_record(
    late_go: bool, left: list[int]
) -> None:
    """The batch is after the marker of its transaction, so its records are not committed. If they
    superseded an older record, no committed record of the key would remain."""
    log = open_log(SimulatedFiles(), **LARGE)
    put(log, (b"a", b"1"))
    end(log, 9, ABORT, epoch=1)
    transactional(log, 9, 0, b"a")
    end(log, 9, COMMIT, epoch=2)
    forget_producers(log)
    log.roll()

    clean_log(log, 0, NOW_MS, late_go=late_go)

    assert offsets(log) == left


@pytest.mark.proves("transactions 30")
def test_markers_with_equal_keys_do_not_supersede_each_other() -> None:
    log = open_log(SimulatedFiles(), **LARGE)
    for producer_id in (7, 8, 9):
        transactional(log, producer_id, 0, b"%d" % producer_id)
        end(log, producer_id, COMMIT)
    log.roll()
    clean_log(log, 0, NOW_MS)
    assert [batch[0] for batch in batches(log)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.proves("transactions 41")
def test_index_entry_of_an_aborted_transaction_is_removed_one_cleaning_after_its_records() -> None:
    """As in Kafka, the first cleaning removes the aborted records and keeps the index entry. The
    next cleaning removes the entry. The marker stays until a still later cleaning, because a
    consumer that has already read the entry waits for the marker."""
    fs = SimulatedFiles()
    log = open_log(fs, **LARGE)
    transactional(log, 9, 0, b"a")
    transactional(log, 9, 1, b"b")
    end(log, 9, ABORT)
    put(log, (b"c", b"1"))
    forget_producers(log)
    log.roll()

    now_ms = NOW_MS
    clean_log(log, 0, now_ms)
    assert (offsets(log), entries(log)) == ([3], [(9, 0, 2)])
    assert fs.exists(log.segments[0].path(".txnindex"))
    put(log, (b"d", b"1"))
    log.roll()
    clean_log(log, 4, now_ms)
    assert entries(log) == []
    assert not fs.exists(log.segments[0].path(".txnindex"))
    assert batches(log)[0] == (2, 2, 1, now_ms + RETENTION_MS), "the marker has its time now"
    put(log, (b"e", b"1"))
    log.roll()
    clean_log(log, 5, now_ms + RETENTION_MS + 1)
    assert [batch[0] for batch in batches(log)] == [3, 4, 5]
    assert consumed(open_log(fs, **LARGE)) == [3, 4, 5]


@pytest.mark.proves("transactions 41")
def test_transaction_index_entries_of_merged_segments_are_in_one_index() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, **LARGE)
    for producer_id in (7, 8):
        transactional(log, producer_id, 0, b"k%d" % producer_id)
        end(log, producer_id, ABORT)
        log.roll()
    clean_log(log, 0, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert entries(log) == [(7, 0, 1), (8, 2, 3)]
    assert [name for name in fs.list("/data/t-0") if "txnindex" in name] == [f"{0:020d}.txnindex"]
    assert consumed(log) == []


def test_last_transactional_batch_of_a_producer_keeps_its_index_entry() -> None:
    log = open_log(SimulatedFiles(), **LARGE)
    transactional(log, 9, 0, b"a")
    end(log, 9, ABORT)
    put(log, (b"b", b"1"))
    log.roll()
    for _ in range(3):
        clean_log(log, 0, NOW_MS + 5 * RETENTION_MS)
    assert [batch[:3] for batch in batches(log)] == [(0, 0, 0), (1, 1, 1), (2, 2, 1)]
    assert entries(log) == [(9, 0, 1)]
    assert consumed(log) == [2]


def test_cleaned_marker_batch_keeps_its_epoch_and_ends_no_transaction() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, **LARGE)
    transactional(log, 9, 0, b"a")
    log.append_marker(Marker(9, 1, 0, False, 2), 0, NOW_MS)
    put(log, (b"b", b"1"))
    log.roll()
    now_ms = NOW_MS
    for dirty in (0, 3, 4, 5):
        clean_log(log, dirty, now_ms)
        put(log, (b"%d" % dirty, b"1"))
        log.roll()
        now_ms += 2 * RETENTION_MS
    assert batches(log)[0][:3] == (1, 1, 0), "no sequence is left, and its epoch stands here alone"
    for name in fs.list("/data/t-0"):
        if name.endswith(".snapshot"):
            fs.remove(f"/data/t-0/{name}")
    again = open_log(fs, **LARGE)
    producer = again.producers.get(9)
    assert producer is not None
    assert (producer.epoch, producer.batches) == (1, [])
    assert again.first_unstable_offset == again.log_end_offset
    assert consumed(again) == consumed(log)


def judged(stable: tuple[int, int]) -> Cleanable:
    sizes = (100, 200, 400, 800)
    facts = [SegmentFacts(10 * n, size, NOW_MS, 8, 8) for n, size in enumerate(sizes)]
    return cleanable(facts, 10, 0, LogConfig(), NOW_MS, stable)


@pytest.mark.parametrize(
    ("stable", "end_offset", "dirty_bytes"),
    [
        ((1 << 62, 0), 30, 600),
        ((35, 700), 30, 600),
        ((30, 0), 30, 600),
        ((25, 150), 30, 350),
        ((20, 0), 20, 200),
        ((15, 60), 20, 60),
        ((10, 0), 10, 0),
        ((5, 50), 10, 0),
    ],
)
def test_dirty_part_of_a_log_ends_at_the_start_of_an_open_transaction(
    stable: tuple[int, int], end_offset: int, dirty_bytes: int
) -> None:
    found = judged(stable)
    assert (found.end_offset, found.dirty_bytes, found.clean_bytes) == (
        end_offset,
        dirty_bytes,
        100,
    )
