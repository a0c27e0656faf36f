"""How `muster consume` handles aborted transactions, control records and offset gaps."""

from __future__ import annotations

from typing import Any

import pytest

from cli.client.offsets_at import READ_COMMITTED, READ_UNCOMMITTED
from cli.errors import CommandError
from cli.topics.reading import Consumer
from protocol.records.batch import encode_batch
from protocol.records.section import Record

WHERE = ("orders", 0)


def batch(offset: int, producer: int = -1, *, control: bool = False, count: int = 1) -> bytes:
    key = b"\0\0\0\0" if control else None  # version 0, an ABORT marker
    records = [Record(offset + i, 0, key, b"%d" % (offset + i)) for i in range(count)]
    return encode_batch(
        records, producer_id=producer, is_transactional=producer >= 0, is_control=control
    )


def read(answer: dict[str, Any], isolation: int = READ_COMMITTED, **state: Any) -> list[int]:
    consumer = Consumer(None, isolation)  # type: ignore[arg-type]
    consumer.positions = {WHERE: state.get("position", 0)}
    consumer.ends = state.get("ends")
    offsets = []
    for where, record in consumer._records(WHERE, answer):
        offsets.append(record.offset)
        consumer.passed(where, record)
    state.get("positions", {}).update(consumer.positions)
    return offsets


ABORTED = {
    # Producer 7: records 0 and 2, ABORT at 3, record 5. Producer 8: record 1, marker at 4.
    "records": batch(0, 7)
    + batch(1, 8)
    + batch(2, 7)
    + batch(3, 7, control=True)
    + batch(4, 8, control=True)
    + batch(5, 7),
    "aborted_transactions": [{"producer_id": 7, "first_offset": 0}],
}


def test_read_committed_omits_aborted_records_and_markers() -> None:
    assert read(ABORTED) == [1, 5]
    assert read(ABORTED, READ_UNCOMMITTED) == [0, 1, 2, 5]


def test_records_before_the_first_offset_of_an_aborted_transaction_are_returned() -> None:
    answer = {
        "records": batch(0, 7) + batch(1, 7, control=True) + batch(2, 7) + batch(3, 7),
        "aborted_transactions": [{"producer_id": 7, "first_offset": 2}],
    }
    assert read(answer) == [0]


def test_consume_starts_at_its_position_and_skips_offset_gaps() -> None:
    positions: dict[Any, int] = {}
    thinned = encode_batch([Record(4, 0, None, b"4")], base_offset=4, last_offset=9)
    answer = {"records": batch(0, count=3) + thinned, "aborted_transactions": None}

    assert read(answer, position=2, positions=positions) == [2, 4]
    assert positions == {WHERE: 10}


def test_consume_stops_at_the_given_end_offset() -> None:
    positions: dict[Any, int] = {}
    answer = {"records": batch(0, count=5), "aborted_transactions": []}

    assert read(answer, ends={WHERE: 3}, positions=positions) == [0, 1, 2]
    assert positions == {WHERE: 3}


def test_error_about_a_damaged_batch_names_its_offset() -> None:
    damaged = bytearray(batch(3, count=2))
    damaged[-6] = 0x7F
    with pytest.raises(CommandError, match="orders:0: the batch at offset 3 can't be read: "):
        read({"records": bytes(damaged), "aborted_transactions": []})
