"""Reads the files of a log directory of Muster or Kafka, in pieces and without a broker.

Each reader yields *entries*: plain dicts with a ``kind``, which is ``batch``, ``record``,
``index``, ``time``, ``producer``, ``offset``, ``epoch``, ``aborted``, ``block``, ``line``,
``padding`` or ``damage``. Files are opened only for reading. Reading continues after a ``damage``
entry if the next entry can be found.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from cli.logs.entries import Content, fields_of
from protocol.records.batch import BatchHeader
from protocol.records.compression import NAMES
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.stored import (
    MAGIC_POSITION,
    OVERHEAD,
    UNKNOWN_COUNT,
    read_stored,
    stored_records,
    validate_stored,
)

Entry = dict[str, Any]

_SIZE = struct.Struct(">8xi")
_INDEX = struct.Struct(">ii")
_TIME_INDEX = struct.Struct(">qi")
_ABORTED = struct.Struct(">hqqqq")
_PRODUCERS_HEAD = struct.Struct(">hIi")
_PRODUCER = struct.Struct(">qhiqiqiq")
_PRODUCERS_CHECKED_FROM = 6
_BLOCK = struct.Struct("<BI")
_BLOCK_NAMES = {
    1: "head",
    2: "offsets",
    3: "groups",
    4: "end",
    5: "pending",
    6: "consumer groups",
    7: "share groups",
    8: "streams groups",
}
_LARGEST_SMALL_FILE = 256 << 20
_SCAN_BYTES = 1 << 20


def damage(position: int, reason: str) -> Entry:
    """Returns an entry that reports damage at a byte position of the file."""
    return {"kind": "damage", "position": position, "reason": reason.rstrip(".")}


# ------------------------------------------------------------------------------------ segments


def read_segment(
    path: Path, records: bool, content: Content, from_offset: int = 0
) -> Iterator[Entry]:
    """Yields the batches or message sets of a ``.log`` file; with ``records``, also their
    records."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = 0
        while position < size:
            data = _read_batch(file, position, size)
            if isinstance(data, dict):
                yield data
                return
            try:
                header = read_stored(data)
            except CorruptRecords as error:
                yield damage(position, str(error))
                return
            if header.last_offset >= from_offset:
                yield from _batch(data, header, position, records, content, from_offset)
            position += len(data)


def _read_batch(file: BinaryIO, position: int, size: int) -> bytes | Entry:
    """Returns the bytes of the batch at ``position``, or an entry that reports padding or
    damage."""
    file.seek(position)
    head = file.read(MAGIC_POSITION + 1)
    if not any(head) and _zeros_until(file, position, size):
        return {"kind": "padding", "position": position, "bytes": size - position}
    if len(head) <= MAGIC_POSITION:
        return damage(position, f"truncated batch: only {len(head)} bytes left")
    length = _SIZE.unpack_from(head)[0] + OVERHEAD
    if length <= MAGIC_POSITION or position + length > size:
        claimed = length - OVERHEAD
        return damage(
            position, f"truncated batch: {claimed} bytes expected, {size - position} left"
        )
    file.seek(position)
    return file.read(length)


def _zeros_until(file: BinaryIO, position: int, size: int) -> bool:
    file.seek(position)
    while chunk := file.read(_SCAN_BYTES):
        if any(chunk):
            return False
    return position < size


def _batch(
    data: bytes,
    header: BatchHeader,
    position: int,
    records: bool,
    content: Content,
    from_offset: int,
) -> Iterator[Entry]:
    problem, found = None, None
    try:
        validate_stored(data, header)
        if records or header.record_count == UNKNOWN_COUNT:  # a message set has no record count
            found = stored_records(data, header)
    except CorruptRecords as error:
        problem = str(error)
    is_control = header.magic == 2 and header.is_control
    is_set = header.record_count == UNKNOWN_COUNT
    yield {
        "kind": "batch",
        "position": position,
        "bytes": len(data),
        "first_offset": found[0].offset if is_set and found else header.base_offset,
        "last_offset": header.last_offset,
        "magic": header.magic,
        "records": (len(found) if found else None) if is_set else header.record_count,
        "codec": NAMES[header.compression] if header.compression < len(NAMES) else "unknown",
        "max_timestamp_ms": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "first_sequence": header.base_sequence,
        "transactional": header.magic == 2 and header.is_transactional,
        "control": is_control,
        "crc": f"{header.crc:08x}",
        "valid": problem is None,
    }
    if problem is not None:
        yield damage(position, problem)
        return
    for record in found or () if records else ():
        if record.offset >= from_offset:
            yield {"kind": "record", **fields_of(record, content, is_control)}


# --------------------------------------------------------------------------------- small files


def read_whole(path: Path) -> bytes:
    """Returns the content of a file, at most 256 MiB."""
    with path.open("rb") as file:
        return file.read(_LARGEST_SMALL_FILE)


def _fixed(data: bytes, form: struct.Struct, made: Callable[..., Entry]) -> Iterator[Entry]:
    """Yields the fixed-size entries of an index. Preallocated zeros become one padding entry."""
    size = form.size
    used = data.rstrip(b"\0")
    count = min(-(-len(used) // size), len(data) // size)
    if count == 0 and len(data) == size:
        count = 1  # a file with a single entry of zeros is not preallocated
    for number in range(count):
        yield made(*form.unpack_from(data, number * size))
    if len(data) > count * size:
        left = len(data) - count * size
        if any(data[count * size :]) or (left < size):
            yield damage(count * size, f"truncated entry: {size} bytes expected, {left} left")
        else:
            yield {"kind": "padding", "position": count * size, "bytes": left}


def read_index(path: Path) -> Iterator[Entry]:
    """Reads the ``.index`` file of a segment: offsets, and the positions of their batches in the
    ``.log`` file. Each offset is the last offset of its batch."""
    base = base_offset(path)

    def made(relative: int, position: int) -> Entry:
        return {"kind": "index", "offset": base + relative, "position": position}

    return _fixed(read_whole(path), _INDEX, made)


def read_time_index(path: Path) -> Iterator[Entry]:
    """Reads the ``.timeindex`` file of a segment. Each entry has an offset, and the largest
    timestamp of the records up to this offset."""
    base = base_offset(path)

    def made(timestamp_ms: int, relative: int) -> Entry:
        return {"kind": "time", "timestamp_ms": timestamp_ms, "offset": base + relative}

    return _fixed(read_whole(path), _TIME_INDEX, made)


def read_aborted(path: Path) -> Iterator[Entry]:
    """Reads the ``.txnindex`` file of a segment: the aborted transactions."""

    def made(_version: int, producer_id: int, first: int, last: int, stable: int) -> Entry:
        return {
            "kind": "aborted",
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }

    return _fixed(read_whole(path), _ABORTED, made)


def read_producers(path: Path) -> Iterator[Entry]:
    """Reads a ``.snapshot`` file: the states of a partition's producers at one offset."""
    data = read_whole(path)
    if len(data) < _PRODUCERS_HEAD.size:
        yield damage(0, f"{len(data)} bytes are too short for a producer snapshot")
        return
    version, checksum, count = _PRODUCERS_HEAD.unpack_from(data)
    body = data[_PRODUCERS_HEAD.size :]
    if version != 1:
        yield damage(0, f"unknown version {version}; only 1 is supported")
        return
    if crc32c(data[_PRODUCERS_CHECKED_FROM:]) != checksum:
        yield damage(2, "the checksum does not match")
    if count * _PRODUCER.size != len(body):
        yield damage(6, f"{count} producers expected, {len(body) / _PRODUCER.size:g} found")
        return
    for fields in _PRODUCER.iter_unpack(body):
        producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator, open_from = fields
        yield {
            "kind": "producer",
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "last_sequence": sequence,
            "first_offset": offset - delta,
            "last_offset": offset,
            "timestamp_ms": timestamp_ms,
            "coordinator_epoch": coordinator,
            "open_transaction_from": open_from if open_from >= 0 else None,
        }


def read_checkpoint(path: Path) -> Iterator[Entry]:
    """Reads a checkpoint file: text with version 0, a count, and then the offset of each partition
    or leader epoch."""
    lines = read_whole(path).decode(errors="replace").splitlines()
    if not lines:
        return
    if lines[0].strip() != "0":
        yield damage(0, f"unknown version {lines[0]!r}; only 0 is supported")
        return
    for number, line in enumerate(lines[2:], 3):
        fields = line.split()
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].lstrip("-").isdecimal():
            where = {"topic": fields[0], "partition": int(fields[1])}
            yield {"kind": "offset", **where, "offset": int(fields[2])}
        elif len(fields) == 2 and all(field.lstrip("-").isdecimal() for field in fields):
            yield {"kind": "epoch", "epoch": int(fields[0]), "start_offset": int(fields[1])}
        else:
            yield damage(0, f"line {number} is invalid: {line!r}")
    if len(lines) < 2 or not lines[1].isdecimal() or int(lines[1]) != len(lines) - 2:
        yield damage(
            0, f"{max(0, len(lines) - 2)} entries found, but the header has a different count"
        )


def read_image(path: Path) -> Iterator[Entry]:
    """Reads the blocks of Muster's ``groups.image`` file. A wrong checksum is reported as
    damage."""
    data = read_whole(path)
    position, checksum = 0, 0
    while position < len(data):
        if len(data) - position < _BLOCK.size + 4:
            yield damage(position, f"truncated block: only {len(data) - position} bytes left")
            return
        kind, size = _BLOCK.unpack_from(data, position)
        end = position + _BLOCK.size + size
        if end + 4 > len(data):
            yield damage(
                position, f"truncated block: {size} bytes expected, {len(data) - position} left"
            )
            return
        checksum = crc32c(checksum.to_bytes(4, "little") + data[position:end])
        if checksum != int.from_bytes(data[end : end + 4], "little"):
            yield damage(position, "the checksum does not match")
            return
        name = _BLOCK_NAMES.get(kind, f"of kind {kind}")
        yield {"kind": "block", "position": position, "block": name, "bytes": size}
        position = end + 4


def read_lines(path: Path) -> Iterator[Entry]:
    """Reads the lines of a small text file, without comments."""
    for line in read_whole(path).decode(errors="replace").splitlines():
        if line and not line.startswith("#"):
            yield {"kind": "line", "text": line}


def base_offset(path: Path) -> int:
    """Returns the offset in the name of a segment's file; 0 for any other name."""
    stem = path.name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0


_READERS: dict[str, Callable[[Path], Iterator[Entry]]] = {
    ".index": read_index,
    ".timeindex": read_time_index,
    ".txnindex": read_aborted,
    ".snapshot": read_producers,
    "-checkpoint": read_checkpoint,
    "groups.image": read_image,
    "partition.metadata": read_lines,
    "meta.properties": read_lines,
    ".kafka_cleanshutdown": read_lines,
    ".json": read_lines,
}
_PASSING = (".deleted", ".cleaned", ".swap")


def kind_of(path: Path) -> str | None:
    """Returns the suffix by which `read_file` chooses a reader; None for an unsupported file."""
    name = path.name
    for passing in _PASSING:
        name = name.removesuffix(passing)
    if name.endswith(".log"):
        return ".log"
    return next((suffix for suffix in _READERS if name.endswith(suffix)), None)


def read_file(path: Path, records: bool, content: Content, from_offset: int) -> Iterator[Entry]:
    """Reads the entries of any file that `kind_of` supports."""
    kind = kind_of(path)
    if kind == ".log":
        return read_segment(path, records, content, from_offset)
    assert kind is not None
    return _READERS[kind](path)
