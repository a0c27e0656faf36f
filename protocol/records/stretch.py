"""Stretches: consecutive records of one shape, checked as tables instead of one by one.

Consecutive records often differ only in their contents: the lengths of record, key and value are
the same, and so are the widths of the two deltas. Then each field of these records is a column: a
slice of the section whose step is the size of a record. Columns are compared as bytes. The check is
exact. As each record has the same length as the one before it, each begins where the previous one
ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.varint import encode_varint, read_varint

if TYPE_CHECKING:
    from protocol.records.compression import Unpacked

TRIALS_MAX = 4
"""The number of failed attempts in a batch after which no further stretches are searched."""
STRETCH_MIN = 16
"""The minimum number of records in a stretch. For fewer records, a check of each single record is
as fast."""
LAST_BYTES = bytes(range(128))
"""The possible values of the last byte of a varint."""
NEXT_BYTES = bytes(range(128, 256))
"""The possible values of each byte of a varint except the last byte."""
_EVEN_BYTES = bytes(range(0, 256, 2))
TWO_BYTES_FROM = 64
DELTAS_MAX = 8192
DELTAS = b"".join(encode_varint(delta) for delta in range(DELTAS_MAX))
"""The offset deltas 0, 1, 2 ... that have at most two bytes, encoded and concatenated."""


def deltas_from(first: int, width: int, count: int) -> bytes:
    """Returns the varints of ``count`` offset deltas from ``first`` on. Each has ``width`` bytes, 1
    or 2. The result stops before a delta of another width."""
    if width == 1:
        return DELTAS[first : min(first + count, TWO_BYTES_FROM)]
    start = TWO_BYTES_FROM + 2 * (first - TWO_BYTES_FROM)
    return DELTAS[start : start + 2 * count]


class Stretch(NamedTuple):
    """The number of records in a stretch, and extreme values of their timestamp deltas, encoded as
    zigzag.

    ``latest`` is the largest even value (a delta of 0 or more); -1 if all values are odd.
    ``earliest`` is the largest odd value (a negative delta); 0 if all values are even.
    """

    records: int
    latest: int = -1
    earliest: int = 0
    key_is_null: bool = False


NONE = Stretch(0)


class Places(NamedTuple):
    """The positions of the parts of one record in its section, and the end of the record."""

    length: int
    attributes: int
    time: int
    delta: int
    key_length: int
    key: int
    value_length: int
    value: int
    end: int


def records_alike(section: Unpacked, places: Places, count: int) -> int:
    """Returns how many of the ``count`` records after the record at ``places`` have the same shape
    as this record. Counting stops before the first record of another shape.

    Records of one shape have the same lengths of record, key and value, and deltas of the same
    width.
    """
    stride = places.end - places.length
    count = min(count, (len(section) - places.end) // stride)
    for at in (
        *range(places.length, places.attributes),
        *range(places.key_length, places.key),
        *range(places.value_length, places.value),
    ):
        count = leading(section, at + stride, stride, count, section[at : at + 1])
    for first, behind in ((places.time, places.delta), (places.delta, places.key_length)):
        for at in range(first, behind - 1):
            count = leading(section, at + stride, stride, count, NEXT_BYTES)
        count = leading(section, behind - 1 + stride, stride, count, LAST_BYTES)
    return count


def leading(section: Unpacked, at: int, stride: int, count: int, kind: bytes) -> int:
    """Checks the bytes at ``at``, ``at + stride`` and so on, at most ``count`` bytes. Returns the
    number of bytes in ``kind`` before the first byte that is not in ``kind``."""
    column = section[at : at + (count - 1) * stride + 1 : stride] if count else b""
    return count - len(column.lstrip(kind))


def deltas_ascend(
    section: Unpacked, at: int, width: int, stride: int, count: int, first: int
) -> bool:
    """Returns True if ``count`` deltas of ``width`` bytes (1 or 2) ascend from ``first`` in steps
    of 1."""
    due = deltas_from(first, width, count)
    stop = at + (count - 1) * stride + 1
    if width == 1:
        return section[at:stop:stride] == due
    return section[at:stop:stride] == due[0::2] and section[at + 1 : stop + 1 : stride] == due[1::2]


def check_stretch(section: Unpacked, start: int, end: int, index: int, left: int) -> Stretch:
    """Returns the stretch of records that follow the record in the bytes ``start`` to ``end``, have
    the same layout as this record, and have consecutive offsets.

    The record from ``start`` to ``end`` must be complete and valid, have the offset delta
    ``index``, and be followed by ``left`` records. The result is NONE if the stretch has fewer than
    STRETCH_MIN records, or if its records have headers.
    """
    stride = end - start
    count = min(left, (len(section) - end) // stride, DELTAS_MAX)
    count = leading(section, end, stride, count, section[start : start + 1])
    if count < STRETCH_MIN:
        return NONE
    body = _behind(section, start)
    time = body + 1
    delta = _behind(section, time)
    key_length = _behind(section, delta)
    key_bytes, key = read_varint(section, key_length)
    value_length = key + max(key_bytes, 0)
    value_bytes, value = read_varint(section, value_length)
    headers = value + max(value_bytes, 0)
    width = key_length - delta
    count = min(count, (TWO_BYTES_FROM if width == 1 else DELTAS_MAX) - index - 1)
    if count < STRETCH_MIN or width > 2 or section[headers]:
        return NONE
    places = Places(start, body, time, delta, key_length, key, value_length, value, end)
    count = records_alike(section, places, count)
    count = leading(section, headers + stride, stride, count, b"\0")
    if count < STRETCH_MIN or not deltas_ascend(
        section, delta + stride, width, stride, count, index + 1
    ):
        return NONE
    columns = [
        section[at : at + (count - 1) * stride + 1 : stride]
        for at in range(time + stride, delta + stride)
    ]
    latest, earliest = _extremes(columns)
    return Stretch(count, latest, earliest, key_bytes < 0)


def _behind(section: Unpacked, position: int) -> int:
    """Returns the position after the varint at ``position``."""
    while section[position] > 0x7F:
        position += 1
    return position + 1


def _extremes(columns: list[bytes]) -> tuple[int, int]:
    """Returns the largest even and the largest odd value of several varints. ``columns`` has the
    first bytes of all varints, then their second bytes, and so on."""
    low, *others = columns
    if len(others) <= 1 and not low.translate(None, _EVEN_BYTES):
        if not others:
            return max(low), 0
        top = max(others[0])
        return (max(compress(low, map(top.__eq__, others[0]))) & 0x7F) | top << 7, 0
    latest, earliest = -1, 0
    for parts in set(zip(*columns, strict=True)):
        bits = _joined(parts)
        if not bits & 1:
            latest = max(latest, bits)
        else:
            earliest = max(earliest, bits)
    return latest, earliest


def _joined(parts: Iterable[int]) -> int:
    """Returns the number that the bytes of a varint encode."""
    bits = 0
    for shift, byte in enumerate(parts):
        bits |= (byte & 0x7F) << 7 * shift
    return bits
