"""Stretches: consecutive records whose bytes have the same layout. They are checked together, as
tables.

The records of a stretch have equal lengths of record, key and value, and equal widths of the
timestamp delta and the offset delta. So each field of these records is a column: a slice of the
section whose step is the size of a record. Columns are compared as bytes. The check is exact: since
all records have the same length, each record begins where the previous one ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.varint import encode_varint, read_varint

if TYPE_CHECKING:
    from protocol.records.compression import Unpacked

TRIALS_MAX = 4
"""The search for stretches in a batch ends after this number of failed attempts."""
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
    """Returns the varints of ``count`` consecutive offset deltas, which begin with ``first``. Each
    varint has ``width`` bytes: 1 or 2. The result omits deltas that need more bytes."""
    if width == 1:
        return DELTAS[first : min(first + count, TWO_BYTES_FROM)]
    start = TWO_BYTES_FROM + 2 * (first - TWO_BYTES_FROM)
    return DELTAS[start : start + 2 * count]


class Stretch(NamedTuple):
    """The number of records in a stretch, and the extremes of their timestamp deltas.

    Deltas are in zigzag encoding: a delta of 0 or more is an even number, a negative delta is an
    odd number. ``latest`` is the largest even number; -1 if all numbers are odd. ``earliest`` is
    the largest odd number (the lowest negative delta); 0 if all numbers are even.
    """

    records: int
    latest: int = -1
    earliest: int = 0
    key_is_null: bool = False


NONE = Stretch(0)


class Places(NamedTuple):
    """The positions of the fields of one record in the records section, and the position of the
    record's end."""

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
    """Counts the bytes of ``section`` at the positions ``at``, ``at + stride`` and so on, up to the
    first byte whose value is not in ``kind``. Reads at most ``count`` bytes."""
    column = section[at : at + (count - 1) * stride + 1 : stride] if count else b""
    return count - len(column.lstrip(kind))


def deltas_ascend(
    section: Unpacked, at: int, width: int, stride: int, count: int, first: int
) -> bool:
    """Returns True if the ``count`` deltas, each of ``width`` bytes (1 or 2), are ``first``,
    ``first`` + 1, and so on."""
    due = deltas_from(first, width, count)
    stop = at + (count - 1) * stride + 1
    if width == 1:
        return section[at:stop:stride] == due
    return section[at:stop:stride] == due[0::2] and section[at + 1 : stop + 1 : stride] == due[1::2]


def check_stretch(section: Unpacked, start: int, end: int, index: int, left: int) -> Stretch:
    """Checks whether the records after a given record form a stretch: they have the same layout as
    the given record, and consecutive offsets. Returns the stretch. Returns NONE if the stretch has
    fewer than STRETCH_MIN records, or if the records have headers.

    The given record is in the bytes ``start`` to ``end``. It must be complete and valid, and have
    the offset delta ``index``. ``left`` is the number of records that follow it.
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
    """Returns the largest even and the largest odd value of several varints. ``columns[0]`` has the
    first bytes of all varints, ``columns[1]`` their second bytes, and so on."""
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
