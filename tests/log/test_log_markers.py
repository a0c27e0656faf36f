"""Tests which appends of transactional producers and of coordinators a log accepts.

Each row is a history of producer 7 and the expected answer to the last step of the history: "+" for
an append at the log end, the offset of the earlier batch for a duplicate, or an error code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from log.errors import AppendRefused, LogPoisoned
from log.partition_log import PartitionLog
from log.values import Marker
from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_COORDINATOR_FENCED,
)
from protocol.records.batch import read_header, records_of
from tests.log.log_tools import DIRECTORY, NOW_MS, batch, open_log
from tests.simulated_files import SimulatedFiles

INT_MAX = 2**31 - 1
PRODUCER = 7


class Send(NamedTuple):
    """A transactional produce request. ``sizes`` lists the number of records of each batch."""

    epoch: int
    sequence: int
    sizes: tuple[int, ...] = (1,)
    transactional: bool = True
    from_zero: bool = False


class End(NamedTuple):
    epoch: int
    rules: int = 1
    coordinator_epoch: int = 0
    committed: bool = True


def plain(epoch: int, sequence: int, *sizes: int) -> Send:
    return Send(epoch, sequence, sizes or (1,), transactional=False)


def step(log: PartitionLog, what: Send | End) -> int | str:
    """Performs one step of a history. Returns "+" for an append at the log end, the base offset of
    the earlier batch for a duplicate, or the error code of a refusal."""
    end_offset, size = log.log_end_offset, log.size_bytes
    refused: AppendRefused | None = None
    try:
        if isinstance(what, End):
            marker = Marker(
                PRODUCER, what.epoch, what.coordinator_epoch, what.committed, what.rules
            )
            info = log.append_marker(marker, 0, NOW_MS)
        else:
            sequence, data = what.sequence, b""
            for count in what.sizes:
                data += batch(
                    0,
                    *[b"v"] * count,
                    producer=(PRODUCER, what.epoch, sequence),
                    transactional=what.transactional,
                )
                sequence = (sequence + count) & INT_MAX
            info = log.append(data, 0, NOW_MS, from_zero=what.from_zero)
    except AppendRefused as error:
        refused = error
    if refused is not None:
        assert (log.log_end_offset, log.size_bytes) == (end_offset, size)
        assert "roducer 7" in refused.message
        return refused.error_code
    if info.duplicate:
        assert (log.log_end_offset, log.size_bytes) == (end_offset, size)
        return info.first_offset
    assert info.first_offset == end_offset
    assert info.last_offset == log.log_end_offset - 1
    return "+"


FENCED, GAP = INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER
STATE, OLD_COORDINATOR = INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED

BATCHES: list[tuple[Sequence[Send | End], Send, int | str]] = [
    # A producer unknown to the log can begin at any sequence number, except when each transaction
    # has its own epoch.
    ([], Send(0, 0), "+"),
    ([], Send(0, 5), "+"),
    ([], Send(0, 5, from_zero=True), GAP),
    ([], Send(0, 0, from_zero=True), "+"),
    ([Send(0, 0)], Send(0, 1, from_zero=True), "+"),
    # Under TV1 sequence numbers continue over transactions.
    ([Send(0, 0), End(0)], Send(0, 1), "+"),
    ([Send(0, 0), End(0)], Send(0, 2), GAP),
    ([Send(0, 0), End(0)], Send(0, 0), 0),  # the repeated batch is committed now
    ([Send(0, 0, (3,)), End(0), Send(0, 3)], Send(0, 0, (3,)), 0),
    ([Send(0, 0), End(0)], plain(0, 1), "+"),
    # After a marker without a batch, the only valid sequence number is 0.
    ([End(0)], Send(0, 0), "+"),
    ([End(0)], Send(0, 1), GAP),
    ([End(3)], Send(4, 0), "+"),
    ([End(3)], Send(4, 1), GAP),
    ([End(3)], Send(2, 0), FENCED),
    # Under TV2 the marker raises the epoch.
    ([Send(0, 0), End(1, 2)], Send(1, 0), "+"),
    ([Send(0, 0), End(1, 2)], Send(1, 1), GAP),
    ([Send(0, 0), End(1, 2)], Send(0, 1), FENCED),
    ([Send(0, 0), End(1, 2)], Send(0, 0), FENCED),  # batches of the former epoch are refused
    ([Send(0, 0), End(1, 2)], Send(2, 0), "+"),
    # A higher epoch of the producer itself.
    ([Send(0, 0), End(0)], Send(1, 0), "+"),
    ([Send(0, 0), End(0)], Send(1, 1), GAP),
    # the open transaction continues, because its marker is expected
    ([Send(0, 0)], Send(1, 0), "+"),
    ([Send(1, 0)], Send(0, 0), FENCED),
    ([Send(1, 4), Send(2, 0)], Send(1, 4), FENCED),
    # A plain batch while a transaction is open.
    ([Send(0, 0)], plain(0, 1), STATE),
    ([Send(0, 0)], plain(1, 0), STATE),
    ([Send(0, 0)], plain(0, 2), GAP),  # sequence numbers are checked first
    ([Send(1, 0)], plain(0, 1), FENCED),  # epochs are checked before sequence numbers
    ([Send(0, 0)], plain(0, 0), 0),  # a duplicate, whatever its attributes
    # Each batch of a request is checked as if the previous batches were already in the log.
    ([], Send(0, 0, (1, 2, 3)), "+"),
    ([Send(0, 0, (2,))], Send(0, 2, (1, 2)), "+"),
    ([Send(0, 0, (2,))], Send(0, 3, (1, 2)), GAP),
    ([Send(0, 0, (1, 2))], Send(0, 1, (2,)), 1),
    ([Send(0, 0, (1, 2, 3))], Send(0, 6), "+"),
    ([End(3)], Send(3, 0, (1, 1)), "+"),
    ([End(3)], Send(3, 1, (1, 1)), GAP),
    # 0 follows 2^31-1, also inside a batch.
    ([Send(0, INT_MAX)], Send(0, 0), "+"),
    ([Send(0, INT_MAX - 1, (4,))], Send(0, 2), "+"),
    ([Send(0, INT_MAX - 1, (4,))], Send(0, 3), GAP),
    ([Send(0, INT_MAX - 1, (4,))], Send(0, INT_MAX - 1, (4,)), 0),
    ([Send(0, INT_MAX - 1, (2,))], Send(0, 0, (2, 2)), "+"),
    ([], Send(0, INT_MAX - 1, (1, 1, 1)), "+"),
]

MARKERS: list[tuple[Sequence[Send | End], End, int | str]] = [
    ([], End(0), "+"),
    ([], End(5, 2), "+"),
    # TV1: the marker has the epoch of the transaction, or a higher epoch.
    ([Send(3, 0)], End(3), "+"),
    ([Send(3, 0)], End(4), "+"),
    ([Send(3, 0)], End(2), FENCED),
    ([Send(3, 0), End(3)], End(3), "+"),
    ([Send(3, 0), End(3)], End(2), FENCED),
    ([Send(3, 0), End(3)], End(3, committed=False), "+"),
    # TV2: the marker has a higher epoch; the same epoch is accepted when no transaction is open or
    # no higher epoch exists.
    ([Send(3, 0)], End(4, 2), "+"),
    ([Send(3, 0)], End(3, 2), FENCED),
    ([Send(3, 0)], End(2, 2), FENCED),
    ([Send(3, 0), End(4, 2)], End(4, 2), "+"),
    ([Send(3, 0), End(4, 2)], End(3, 2), FENCED),
    (
        [Send(3, 0), End(4, 2), Send(4, 0)],
        End(4, 2),
        FENCED,
    ),  # a late marker does not end a new transaction
    ([Send(32766, 0)], End(32767, 2), "+"),
    ([Send(32767, 0)], End(32767, 2), "+"),
    ([End(32767, 2)], End(32767, 2), "+"),
    # The coordinator epoch never decreases.
    ([End(0, 1, 5)], End(0, 1, 4), OLD_COORDINATOR),
    ([End(0, 1, 5)], End(0, 1, 5), "+"),
    ([End(0, 1, 5)], End(0, 1, 6), "+"),
    ([End(3, 1, 5)], End(2, 1, 4), FENCED),  # epochs are checked first
    ([Send(0, 0), End(0, 1, 5), Send(0, 1)], End(0, 1, 4), OLD_COORDINATOR),
    # the producer's new epoch does not reset the coordinator epoch
    ([End(0, 1, 5), Send(1, 0)], End(2, 2, 4), OLD_COORDINATOR),
    ([Send(0, 0)], End(0, 1, 0, committed=False), "+"),  # an operator sends such a marker
    ([Send(0, 0), End(0, 1, 5), Send(0, 1)], End(0, 1, 5, committed=False), "+"),
]


@pytest.mark.proves(
    "transactions 13", "transactions 16", "transactions 22", "transactions 33", "transactions 34"
)
@pytest.mark.parametrize("after", ["at once", "a restart", "a crash"])
@pytest.mark.parametrize(("history", "last", "answer"), [*BATCHES, *MARKERS])
def test_result_of_a_transactional_append_depends_on_earlier_batches_of_its_producer(
    history: Sequence[Send | End], last: Send | End, answer: int | str, after: str
) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    for what in history:
        assert step(log, what) == "+"
    if after == "a restart":
        log.close()
        log = open_log(fs, clean=True)
        if isinstance(answer, int) and answer < len(history) and last in history[:-2]:
            answer = GAP  # a snapshot, as in Kafka, has only the last batch
    elif after == "a crash":
        fs.kill()
        log = open_log(fs)
    assert step(log, last) == answer


@pytest.mark.proves("transactions 34")
@pytest.mark.parametrize(("rules", "epoch"), [(1, 3), (2, 4)])
def test_appended_marker_updates_the_state_of_its_producer(rules: int, epoch: int) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    step(log, Send(3, 0, (2,)))
    assert log.producers.in_transaction(PRODUCER, 3)
    assert not log.producers.in_transaction(PRODUCER, 4)
    marker = Marker(PRODUCER, epoch, 9, False, rules)
    assert log.append_marker(marker, 1, NOW_MS + 50) == (2, 2, -1, 0, False)
    for seen in (log, open_log(fs)):
        producer = seen.producers.get(PRODUCER)
        assert producer is not None
        assert (producer.epoch, producer.coordinator_epoch) == (epoch, 9)
        assert producer.last_timestamp_ms == NOW_MS + 50
        assert producer.last_sequence == (1 if rules == 1 else -1)
        assert not seen.producers.in_transaction(PRODUCER, epoch)
        assert seen.first_unstable_offset == seen.log_end_offset == 3
        assert seen.epochs.latest == 1


def test_appended_marker_has_the_same_bytes_as_in_kafka() -> None:
    log = open_log(SimulatedFiles())
    log.append_marker(Marker(PRODUCER, 3, 9, True), 4, NOW_MS)
    log.append_marker(Marker(PRODUCER, 3, 9, False), 4, NOW_MS)
    data = log.read(0, 1000).data
    assert len(data) == 2 * 78
    for offset, key in ((0, b"\0\0\0\1"), (1, b"\0\0\0\0")):
        header = read_header(data, offset * 78)
        assert (header.base_offset, header.attributes) == (offset, 0x30)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
        assert (header.partition_leader_epoch, header.max_timestamp) == (4, NOW_MS)
        [record] = records_of(data, header)
        assert (record.key, record.value) == (key, b"\0\0\0\0\0\x09")


def entries(fs: SimulatedFiles, base_offset: int = 0) -> bytes:
    path = f"{DIRECTORY}/{base_offset:020d}.txnindex"
    return fs.written(path) if fs.exists(path) else b""


@pytest.mark.proves("transactions 35")
def test_transaction_index_entry_has_the_last_stable_offset_at_the_abort() -> None:
    """The last stable offset in an index entry is the first offset of the oldest open transaction,
    or the offset after the marker if no transaction is open. Kafka stops a lookup in the index at
    the first entry whose last stable offset is at or after the end of the read."""
    fs = SimulatedFiles()
    log = open_log(fs)
    for producer_id in (1, 2, 3):
        log.append(batch(producer=(producer_id, 0, 0), transactional=True), 0, NOW_MS)
    for producer_id, committed in ((2, False), (1, True), (3, False), (3, False)):
        log.append_marker(Marker(producer_id, 0, 0, committed), 0, NOW_MS)
    expected = [(2, 1, 3, 0), (3, 2, 5, 6)]
    assert list(log.active.transactions) == expected
    assert entries(fs) == b"".join(
        b"\0\0" + b"".join(number.to_bytes(8, "big") for number in entry) for entry in expected
    )


@pytest.mark.proves("transactions 21")
def test_marker_without_a_transaction_is_not_indexed() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    step(log, End(0, committed=False))
    step(log, Send(0, 0))
    step(log, End(0))
    step(log, End(0, committed=False))
    assert not fs.exists(log.active.path(".txnindex"))
    assert log.aborted_between(0, 10) == []


def test_transaction_index_entry_is_in_the_segment_of_the_abort_marker() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, segment_bytes=100)
    step(log, Send(0, 0))
    step(log, End(0, committed=False))
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert (entries(fs, 0), len(entries(fs, 1))) == (b"", 34)
    assert log.aborted_between(0, 1) == [(PRODUCER, 0)], "it is found from two segments earlier"


@pytest.mark.parametrize("suffix", [".log", ".txnindex"])
@pytest.mark.parametrize("crash", [False, True])
def test_failed_abort_leaves_no_marker_and_no_index_entry(suffix: str, crash: bool) -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    step(log, Send(0, 0))
    fs.fail("write", suffix)
    with pytest.raises(LogPoisoned):
        step(log, End(0, committed=False))
    assert log.first_unstable_offset == 0
    assert log.producers.in_transaction(PRODUCER, 0)
    fs.heal()
    if crash:
        fs.kill()
        log = open_log(fs)
    else:
        log.probe()
    assert (entries(fs), log.aborted_between(0, 9), log.first_unstable_offset) == (b"", [], 0)
    assert step(log, End(0)) == "+"
    assert open_log(fs).aborted_between(0, 9) == [], "the transaction was committed in the end"


def test_transaction_index_entry_without_its_marker_is_removed_after_a_crash() -> None:
    fs = SimulatedFiles()
    log = open_log(fs)
    step(log, Send(0, 0))
    fs.open(log.active.path(".txnindex"), create=True).write(
        0, b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (PRODUCER, 0, 1, 2))
    )
    fs.kill()
    log = open_log(fs)
    assert log.aborted_between(0, 9) == []
    assert step(log, End(0)) == "+"
    fs.kill()
    assert open_log(fs).aborted_between(0, 9) == []
