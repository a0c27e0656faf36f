"""The records section of a magic 2 batch: a sequence of records, with lengths as zigzag varints.

A record has a length, attributes (one unused byte), a timestamp delta (varlong), an offset delta,
key length and key, value length and value (-1: null), and a header count. Each header has key
length, key, value length and value. Deltas are relative to the batch's base timestamp and base
offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from protocol import compiled
from protocol.errors import INVALID_RECORD
from protocol.records.corrupt import CorruptRecords
from protocol.records.stretch import STRETCH_MIN, TRIALS_MAX, check_stretch
from protocol.records.varint import encode_varint, read_bits, read_varint

if TYPE_CHECKING:
    from protocol.records.budget import Budget
    from protocol.records.compression import Unpacked

NO_TIMESTAMP = -1

_section_times = None if compiled.MODULE is None else compiled.MODULE.section_times
_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record of any magic. ``timestamp`` is in wall milliseconds, -1 for magic 0.

    The key of a header is decoded from UTF-8 with surrogate escapes, so that invalid UTF-8 is
    written back unchanged.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_section(
    records: Iterable[Record], base_offset: int, base_timestamp: int
) -> tuple[bytes, int]:
    """Encodes a records section. Returns the section and the number of its records."""
    out = bytearray()
    count = 0
    for count, record in enumerate(records, 1):  # noqa: B007
        body = encode_record_body(
            wrap_int64(record.timestamp - base_timestamp),
            record.offset - base_offset,
            record.key,
            record.value,
            record.headers,
        )
        out += encode_varint(len(body))
        out += body
    return bytes(out), count


def encode_record_body(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> bytes:
    """Encodes one record without its length."""
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    if key is None:
        parts.append(b"\x01")
    else:
        parts += (encode_varint(len(key)), key)
    if value is None:
        parts.append(b"\x01")
    else:
        parts += (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        raw = name.encode("utf-8", "surrogateescape")
        parts += (encode_varint(len(raw)), raw)
        if content is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(content)), content)
    return b"".join(parts)


def decode_section(
    section: Unpacked, count: int, base_offset: int, base_timestamp: int, last_offset_delta: int
) -> list[Record]:
    """Decodes a whole records section of ``count`` records.

    Raises CorruptRecords unless all lengths and the count are exact, and the offset deltas ascend
    from 0 to ``last_offset_delta``.
    """
    records: list[Record] = []
    position = 0
    previous = -1
    size = len(section)
    try:
        for index in range(count):
            bits = section[position]
            position += 1
            if bits > 0x7F:
                bits, position = _longer(section, position, bits)
            end = position + (bits >> 1)
            if bits & 1 or end > size:
                raise _misfit(index, count, position, size)
            bits = section[position + 1]  # the timestamp delta, after a byte of unused attributes
            position += 2
            if bits > 0x7F:
                bits, position = _longer(section, position, bits, 64)
            timestamp = base_timestamp + ((bits >> 1) ^ -(bits & 1))
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                timestamp = wrap_int64(timestamp)
            bits = section[position]
            position += 1
            if bits > 0x7F:
                bits, position = _longer(section, position, bits)
            delta = (bits >> 1) ^ -(bits & 1)
            if not previous < delta <= last_offset_delta:
                raise CorruptRecords(
                    f"Record {index} has offset delta {delta}, but it must be from {previous + 1}"
                    f" to {last_offset_delta}, the last offset delta of the batch.",
                    INVALID_RECORD,
                )
            previous = delta
            key, position = _bytes(section, position, end)
            value, position = _bytes(section, position, end)
            if section[position]:
                headers, position = _headers(section, position, end)
            else:
                headers = ()
                position += 1
            if position != end:
                raise _misfit(index, count, position, size)
            records.append(
                _new_tuple(Record, (base_offset + delta, timestamp, key, value, headers))
            )
    except IndexError:
        raise _misfit(len(records), count, position, size) from None
    if position != size:
        raise _misfit(count, count, position, size)
    return records


_new_tuple = tuple.__new__  # creates a Record in half the time of Record(...)


def _misfit(index: int, count: int, position: int, size: int) -> CorruptRecords:
    return CorruptRecords(
        f"A length or count of record {index} of {count}, near byte {position} of"
        f" {size}, does not fit its batch.",
        INVALID_RECORD,
    )


def _bytes(section: Unpacked, position: int, end: int) -> tuple[bytes | None, int]:
    """Reads nullable bytes. Returns them and the position after them. Raises CorruptRecords if they
    extend beyond ``end``."""
    bits = section[position]
    position += 1
    if bits > 0x7F:
        bits, position = _longer(section, position, bits)
    if bits & 1:
        if bits != 1:
            raise CorruptRecords(
                f"A key or value has the invalid length -{bits + 1 >> 1}.", INVALID_RECORD
            )
        return None, position
    stop = position + (bits >> 1)
    if stop > end:
        raise CorruptRecords(
            f"A key or value has a length of {bits >> 1} bytes, but {end - position} are left.",
            INVALID_RECORD,
        )
    return section[position:stop], stop


def _headers(section: Unpacked, position: int, end: int) -> tuple[Headers, int]:
    """Reads the header count and the headers, which must end at or before ``end``. Returns them and
    the position after them."""
    count, position = read_varint(section, position)
    # A header has at least two bytes, so the remaining bytes bound the count.
    if count < 0 or 2 * count > end - position:
        raise CorruptRecords(
            f"A record states {count} headers, but only {end - position} bytes are left.",
            INVALID_RECORD,
        )
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _bytes(section, position, end)
        if name is None:
            raise CorruptRecords("A header must not have a null key.", INVALID_RECORD)
        content, position = _bytes(section, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return headers, position


def _skip_headers(section: Unpacked, position: int, end: int, budget: Budget | None) -> int:
    """Returns the position after the headers at ``position``. Checks the headers like `_headers`,
    but creates no objects for them."""
    count, position = read_varint(section, position)
    if count < 0 or 2 * count > end - position:
        raise CorruptRecords(
            f"A record states {count} headers, but only {end - position} bytes are left.",
            INVALID_RECORD,
        )
    if budget is not None:
        budget.take(count)
    for _ in range(count):
        bits = section[position]
        position += 1
        if bits > 0x7F:
            bits, position = _longer(section, position, bits)
        if bits & 1:
            raise CorruptRecords("A header must not have a null key.", INVALID_RECORD)
        position += bits >> 1
        bits = section[position]
        position += 1
        if bits > 0x7F:
            bits, position = _longer(section, position, bits)
        if not bits & 1:
            position += bits >> 1
        elif bits != 1:
            raise CorruptRecords(
                f"The value of a header has the invalid length -{bits + 1 >> 1}.", INVALID_RECORD
            )
        if position > end:
            raise CorruptRecords("A header extends beyond the end of its record.", INVALID_RECORD)
    return position


class CheckedSection(NamedTuple):
    """The results of ``check_section``. The timestamps are the smallest and the largest of all
    records, and may be -1 (NO_TIMESTAMP)."""

    null_keys: list[int]
    min_timestamp: int
    max_timestamp: int


def check_section(
    section: Unpacked,
    count: int,
    base_timestamp: int = 0,
    find_null_keys: bool = False,
    budget: Budget | None = None,
) -> CheckedSection:
    """Checks the records section of a producer without creating records. Offset deltas must be 0,
    1, 2 ...

    With ``find_null_keys`` the result has the indexes of records without a key. Raises
    CorruptRecords like ``decode_section``, and OverBudget if the headers of the records exceed
    ``budget``.

    Compiled code (protocol/c/sections.c) checks the sections that it supports, and the loop below
    checks all others. For speed the loop decodes short varints inline, and stretch.py checks
    consecutive records of equal layout together.
    """
    if _section_times is not None:
        times = _section_times(section, count, base_timestamp, find_null_keys)
        if times is not None:
            low, high, headers = times
            if headers and budget is not None:
                budget.take(headers)
            return CheckedSection([], low, high)
    null_keys: list[int] = []
    size = len(section)
    position = index = 0
    latest = -1  # largest zigzag value of a delta of 0 or more
    earliest = 0  # largest zigzag value of a negative delta
    trials = TRIALS_MAX
    stride = 0  # size of the previous record
    indexes = iter(range(count))
    try:
        for index in indexes:
            start = position
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            end = position + (bits >> 1)
            if bits & 1 or end > size:
                break
            bits = section[position + 1]  # the timestamp delta, after a byte of unused attributes
            position += 2
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 64)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            if bits & 1:
                if bits > earliest:  # noqa: PLR1730 - max() costs a call
                    earliest = bits
            elif bits > latest:
                latest = bits
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            if bits != index << 1:
                raise CorruptRecords(
                    f"Record {index} has offset delta {(bits >> 1) ^ -(bits & 1)}, but it must be"
                    f" {index}.",
                    INVALID_RECORD,
                )
            bits = section[position]
            position += 1
            if bits > 0x7F:
                bits, position = _longer(section, position, bits)
            if not bits & 1:
                position += bits >> 1
            elif bits != 1:
                break
            elif find_null_keys:
                null_keys.append(index)
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, position - 1, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            if not bits & 1:
                position += bits >> 1
            elif bits != 1:
                break
            if section[position]:
                position = _skip_headers(section, position, end, budget)
            else:
                position += 1
            if position != end:
                break
            if end - start != stride:
                stride = end - start
            elif trials and count - index > STRETCH_MIN:
                found = check_stretch(section, start, end, index, count - index - 1)
                if not found.records:
                    trials -= 1
                    continue
                if found.key_is_null and find_null_keys:
                    null_keys += range(index + 1, index + 1 + found.records)
                latest = max(latest, found.latest)
                earliest = max(earliest, found.earliest)
                position += found.records * stride
                next(islice(indexes, found.records - 1, None))
        else:
            if position == size:
                if latest < 0:  # all deltas are negative, a rare case
                    stamps = [r.timestamp for r in decode_section(section, count, 0, 0, count)]
                    low, high = min(stamps, default=0), max(stamps, default=0)
                else:
                    low, high = -(earliest + 1 >> 1), latest >> 1
                low += base_timestamp
                high += base_timestamp
                if low < _INT64_MIN or high > _INT64_MAX:
                    low, high = wrap_int64(low), wrap_int64(high)
                return CheckedSection(null_keys, low, high)
            index = count
    except IndexError:
        pass
    raise _misfit(index, count, position, size)


def _longer(section: Unpacked, position: int, bits: int, width: int = 32) -> tuple[int, int]:
    """Decodes a varint of several bytes. ``bits`` is its first byte, which precedes ``position``.
    Returns the value and the position after the varint."""
    byte = section[position]
    if byte < 0x80:
        return bits & 0x7F | byte << 7, position + 1
    return read_bits(section, position - 1, width)


def wrap_int64(value: int) -> int:
    """Returns ``value`` after the overflow of Java's long arithmetic."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)
