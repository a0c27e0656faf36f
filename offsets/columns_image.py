"""Encodes and decodes the columns of one (group, topic) in a snapshot
(docs/formats/groups-image.md).

Most groups commit all partitions of a topic at once, without metadata. Then only the offsets are
encoded as a column. Each of the other columns (partitions, leader epochs, timestamps and log
offsets) is encoded as one number, from which its values follow.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence

from offsets.columns import TopicColumns

_ENTRY = struct.Struct("<HHBI")
_SPARSE_COUNT = struct.Struct("<I")
_TEXT_HEAD = struct.Struct("<II")
_EXPIRY = struct.Struct("<Iq")

HAS_PARTITIONS = 1
EPOCHS_DIFFER = 2
TIMESTAMPS_DIFFER = 4
LOG_OFFSETS_DIFFER = 8
HAS_METADATA = 16
HAS_EXPIRIES = 32

_ALWAYS_DENSE = 64
_DENSE_FACTOR = 4
_SWAP = sys.byteorder == "big"


class BadImage(ValueError):
    """The bytes are not a valid and complete snapshot; the message has the reason."""


# ------------------------------------------------------------------------------------- writing


def encode_columns(group_id: str, topic: str, columns: TopicColumns) -> bytes:
    """Encodes the offsets of one group in one topic, at least one. The result is cached in
    ``columns`` until an offset changes.

    The result has 9 bytes per offset if the group commits many offsets at once.
    """
    if columns.encoded is None:
        columns.encoded = _encode_columns(group_id, topic, columns)
    return columns.encoded


def _encode_columns(group_id: str, topic: str, columns: TopicColumns) -> bytes:
    group, name = group_id.encode(), topic.encode()
    count = columns.count
    dense = columns._slots is None and count == len(columns._offsets)
    flags = 0
    parts: list[bytes] = []
    sparse: Sequence[int]
    if dense:
        sparse = ()
        offsets, epochs = columns._offsets, columns._epochs
        timestamps, log_offsets = columns._commit_timestamps, columns._log_offsets
    else:
        flags |= HAS_PARTITIONS
        partitions = columns.partitions()
        slots = columns._slots
        sparse = partitions if slots is None else [slots[partition] for partition in partitions]
        parts.append(_bytes_of(array("i", partitions)))
        offsets = array("q", [columns._offsets[slot] for slot in sparse])
        epochs = array("i", [columns._epochs[slot] for slot in sparse])
        timestamps = array("q", [columns._commit_timestamps[slot] for slot in sparse])
        kept = columns._log_offsets
        log_offsets = array(
            "q",
            [kept[slot] + slot - number for slot, number in zip(sparse, partitions, strict=True)],
        )
    parts.append(_bytes_of(offsets))
    for column, flag in (
        (epochs, EPOCHS_DIFFER),
        (timestamps, TIMESTAMPS_DIFFER),
        (log_offsets, LOG_OFFSETS_DIFFER),
    ):
        raw = _bytes_of(column)
        size = column.itemsize
        if raw[size:] == raw[:-size]:
            parts.append(raw[:size])
        else:
            flags |= flag
            parts.append(raw)
    if columns._metadata or columns._expire_timestamps:
        flags |= _encode_rare(columns, sparse, parts)
    return b"".join((_ENTRY.pack(len(group), len(name), flags, count), group, name, *parts))


def _encode_rare(columns: TopicColumns, slots: Sequence[int], parts: list[bytes]) -> int:
    """Encodes metadata and expire timestamps, which most offsets do not have. Each is encoded with
    a number: the place of its slot in ``slots`` or, if ``slots`` is empty, the slot itself, which
    is then the partition number."""
    index_of = {slot: index for index, slot in enumerate(slots)}
    flags = 0
    if columns._metadata:
        flags |= HAS_METADATA
        parts.append(_SPARSE_COUNT.pack(len(columns._metadata)))
        for slot, text in columns._metadata.items():
            raw = text.encode()
            parts.append(_TEXT_HEAD.pack(index_of[slot] if slots else slot, len(raw)) + raw)
    if columns._expire_timestamps:
        flags |= HAS_EXPIRIES
        parts.append(_SPARSE_COUNT.pack(len(columns._expire_timestamps)))
        for slot, at_ms in columns._expire_timestamps.items():
            parts.append(_EXPIRY.pack(index_of[slot] if slots else slot, at_ms))
    return flags


def _bytes_of(column: array[int]) -> bytes:
    if _SWAP:
        column = column[:]
        column.byteswap()
    return column.tobytes()


# ------------------------------------------------------------------------------------- reading


def decode_columns(view: memoryview, position: int) -> tuple[str, str, TopicColumns, int]:
    """Returns the group id, the topic, the columns, and the position after the encoded columns.
    Raises BadImage."""
    try:
        group_bytes, name_bytes, flags, count = _ENTRY.unpack_from(view, position)
        position += _ENTRY.size
        names_end = position + group_bytes + name_bytes
        group_id = str(view[position : position + group_bytes], "utf-8")
        topic = str(view[position + group_bytes : names_end], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise BadImage(f"the names at byte {position} can't be read: {error}") from None
    position = names_end
    if not count or position + 8 * count > len(view):
        raise BadImage(
            f"{count} offsets from byte {position} do not fit into an image of {len(view)} bytes"
        )
    partitions: array[int] | None = None
    if flags & HAS_PARTITIONS:
        partitions, position = _column(view, position, "i", count)
    columns = TopicColumns()
    columns.count = count
    columns._offsets, position = _column(view, position, "q", count)
    columns._epochs, position = _column(view, position, "i", count, flags & EPOCHS_DIFFER)
    columns._commit_timestamps, position = _column(
        view, position, "q", count, flags & TIMESTAMPS_DIFFER
    )
    columns._log_offsets, position = _column(view, position, "q", count, flags & LOG_OFFSETS_DIFFER)
    if flags & (HAS_METADATA | HAS_EXPIRIES):
        position = _decode_rare(view, position, flags, columns)
    if partitions is not None:
        try:
            _spread(columns, partitions)
        except OverflowError:
            raise BadImage(f"the log offsets before byte {position} are out of range") from None
    return group_id, topic, columns, position


def _column(
    view: memoryview, position: int, code: str, count: int, differ: int = 1
) -> tuple[array[int], int]:
    column = array(code)
    size = column.itemsize
    end = position + (size * count if differ else size)
    if end > len(view):
        raise BadImage(
            f"{count} entries from byte {position} do not fit into an image of {len(view)} bytes"
        )
    column.frombytes(view[position:end])
    if _SWAP:
        column.byteswap()
    return (column if differ else column * count), end


def _decode_rare(view: memoryview, position: int, flags: int, columns: TopicColumns) -> int:
    count = columns.count
    try:
        if flags & HAS_METADATA:
            texts: dict[int, str] = {}
            (texts_left,) = _SPARSE_COUNT.unpack_from(view, position)
            position += _SPARSE_COUNT.size
            for _ in range(texts_left):
                index, size = _TEXT_HEAD.unpack_from(view, position)
                position += _TEXT_HEAD.size
                if index >= count or position + size > len(view):
                    raise BadImage(f"the metadata of entry {index} at byte {position} is invalid")
                texts[index] = str(view[position : position + size], "utf-8")
                position += size
            columns._metadata = texts
        if flags & HAS_EXPIRIES:
            expiries: dict[int, int] = {}
            (expiries_left,) = _SPARSE_COUNT.unpack_from(view, position)
            position += _SPARSE_COUNT.size
            for _ in range(expiries_left):
                index, at_ms = _EXPIRY.unpack_from(view, position)
                position += _EXPIRY.size
                if index >= count:
                    raise BadImage(
                        f"an expiry refers to entry {index}, but there are only {count} entries"
                    )
                expiries[index] = at_ms
            columns._expire_timestamps = expiries
    except (struct.error, UnicodeDecodeError) as error:
        raise BadImage(f"metadata or an expiry at byte {position} is invalid: {error}") from None
    return position


def _spread(columns: TopicColumns, partitions: array[int]) -> None:
    """Moves each entry of the columns to the index that equals its partition number. Before this
    call, the entries have no gaps: entry i belongs to the partition ``partitions[i]``. Raises
    BadImage unless ``partitions`` are in ascending order."""
    count = len(partitions)
    if any(map(int.__ge__, partitions, partitions[1:])):
        raise BadImage(f"partitions do not ascend: {partitions[:5].tolist()} ...")
    low, high = partitions[0], partitions[-1]
    given = (columns._offsets, columns._epochs, columns._commit_timestamps, columns._log_offsets)
    if low >= 0 and (high < _ALWAYS_DENSE or high < _DENSE_FACTOR * count):
        columns._offsets, columns._epochs = array("q"), array("i")
        columns._commit_timestamps, columns._log_offsets = array("q"), array("q")
        columns._append_unused(high + 1)
        offsets, epochs = columns._offsets, columns._epochs
        timestamps, log_offsets = columns._commit_timestamps, columns._log_offsets
        for slot, *entry in zip(partitions, *given, strict=True):
            offsets[slot], epochs[slot], timestamps[slot], log_offsets[slot] = entry
        if columns._metadata is not None:
            columns._metadata = {partitions[i]: text for i, text in columns._metadata.items()}
        if columns._expire_timestamps is not None:
            expiries = columns._expire_timestamps
            columns._expire_timestamps = {partitions[i]: at_ms for i, at_ms in expiries.items()}
        return
    columns._slots = {partition: slot for slot, partition in enumerate(partitions)}
    columns._free = []
    columns._recheck_at = max(2 * count, _ALWAYS_DENSE)
    log_offsets = columns._log_offsets
    for slot, partition in enumerate(partitions):
        log_offsets[slot] += partition - slot
