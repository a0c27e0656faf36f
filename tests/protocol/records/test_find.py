"""Tests of find_record, which returns the record at an offset. In every format, the result equals
that of decoding the whole batch."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records import find, message_set
from protocol.records.batch import LOG_APPEND_TIME, encode_batch
from protocol.records.budget import OverBudget
from protocol.records.compression import DecompressedTooLarge
from protocol.records.corrupt import CorruptRecords
from protocol.records.find import Found, find_record
from protocol.records.section import Record
from protocol.records.stored import read_stored, stored_records

NOON = 1_700_000_000_000
HEADERS = (("trace", b"abc"), ("empty", b""), ("none", None))
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < 4 or magic == 2]


def made(magic: int, codec: int, records: list[Record]) -> bytes:
    if magic == 2:
        return encode_batch(records, compression=codec)
    return message_set.encode([each._replace(headers=()) for each in records], magic, codec)


def taken(found: Found | None) -> Record | None:
    """Converts the result of find_record to a `Record`."""
    if found is None:
        return None
    headers = tuple(
        (bytes(name).decode(), None if value is None else bytes(value))
        for name, value in found.headers
    )
    key = None if found.key is None else bytes(found.key)
    value = None if found.value is None else bytes(found.value)
    return Record(found.offset, found.timestamp, key, value, headers)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    base=st.integers(0, 2**40),
    texts=st.lists(st.none() | st.binary(max_size=40), min_size=1),
)
def test_function_find_record_returns_the_record_that_decoding_returns(
    magic: int, codec: int, gaps: list[int], base: int, texts: list[bytes | None]
) -> None:
    records, offset = [], base
    for number, gap in enumerate(gaps):
        key, value = texts[number % len(texts)], texts[-number % len(texts)]
        records.append(Record(offset, NOON + number, key, value, HEADERS[: number % 4]))
        offset += gap
    if magic < 2 and codec == 0:
        records = records[:1]  # a plain message has no other records in its entry
    data = made(magic, codec, records)
    header = read_stored(data)
    whole = stored_records(data, header)
    for wanted in range(base - 1, records[-1].offset + 2):
        expected = next((each for each in whole if each.offset >= wanted), None)
        if expected is not None:
            expected = expected._replace(headers=tuple(expected.headers))
        assert taken(find_record(data, header, wanted, 10)) == expected


@pytest.mark.parametrize(("magic", "codec"), [(1, 1), (2, 0), (2, 4)])
def test_function_find_record_returns_the_append_time_of_the_batch(magic: int, codec: int) -> None:
    records = [Record(i, NOON + i, None, b"v") for i in range(3)]
    if magic == 2:
        data = encode_batch(records, compression=codec, timestamp_type=LOG_APPEND_TIME)
    else:
        data = message_set.encode(records, 1, codec, timestamp_type=LOG_APPEND_TIME)
    found = find_record(data, read_stored(data), 1, 0)
    assert found is not None
    assert found.timestamp == stored_records(data, read_stored(data))[1].timestamp


def test_function_find_record_decodes_few_headers_and_returns_the_header_count() -> None:
    headers = [(f"h{i}", b"x") for i in range(5000)]
    data = encode_batch([Record(7, NOON, b"k", b"v", headers)])
    found = find_record(data, read_stored(data), 7, 3)
    assert found is not None
    assert (len(found.headers), found.header_count) == (3, 5000)
    assert found.headers[2] == (b"h2", b"x")


def test_batch_above_the_limit_is_not_decompressed() -> None:
    data = encode_batch([Record(0, NOON, None, bytes(100_000))], compression=1)
    with pytest.raises(DecompressedTooLarge):
        find_record(data, read_stored(data), 0, 1, limit=50_000)


@pytest.mark.parametrize("magic", [1, 2])
def test_function_find_record_skips_a_bounded_number_of_records(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "PASSED_MAX", 50)
    data = made(magic, 1, [Record(i, NOON, None, b"v") for i in range(100)])
    with pytest.raises(OverBudget):
        find_record(data, read_stored(data), 60, 1)
    if magic == 2:
        assert taken(find_record(data, read_stored(data), 49, 1)) is not None


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_function_find_record_raises_only_documented_errors_for_a_damaged_batch(
    magic: int, codec: int
) -> None:
    chance = random.Random(4711)
    records = [Record(i, NOON + i, b"key", b"value" * 5, HEADERS) for i in range(5)]
    whole = made(magic, codec, records[:1] if magic < 2 and codec == 0 else records)
    damaged = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(CorruptRecords):
            header = read_stored(data)
            damaged += 1
            with suppress(CorruptRecords):
                find_record(data, header, chance.randrange(6), 10, limit=1 << 20)
                damaged -= 1
    assert damaged > 50
