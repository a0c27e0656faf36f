"""Stored records to runs: what a loader replays.

Consecutive records of one group and topic that share their timestamps become one ``OffsetRun``, so
that what was written as a run is replayed as a run. Keys of unknown type are skipped and counted,
as Kafka does; an unknown value version, or bytes that are not what they claim, are a CorruptRecord.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from offsets.record_errors import CorruptRecord
from offsets.record_values import (
    KEY_GROUP,
    KEY_OFFSET,
    KEY_OFFSET_LEGACY,
    Malformed,
    StoredOffset,
    read_group_value,
    read_offset_value,
)
from offsets.runs import GroupRun, OffsetRun, OffsetTombstones, Run
from protocol.records.corrupt import CorruptRecords
from protocol.records.varint import read_varint, read_varlong


class StoredRecord(Protocol):
    """What this module needs of a decoded record."""

    @property
    def offset(self) -> int:
        """Its log offset."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""


BasedRun = tuple[int, Run]
"""(log offset of the run's first record, the run)."""

_plain_value = struct.Struct(">qixxq")
_VERSION_3 = b"\x00\x03"
_KEYS_KEPT = 65536


class RunBuilder:
    """Collects records in log order into runs; ``take`` gives those that are complete."""

    def __init__(self, skipped: Counter[int] | None = None) -> None:
        self.skipped: Counter[int] = Counter() if skipped is None else skipped
        """Records passed over, by their key's type."""
        self._done: list[BasedRun] = []
        self._keys: dict[bytes, tuple[str, str]] = {}
        self._next_offset = -1
        self._offsets: OffsetRun | None = None
        self._partitions: list[int] = []
        self._values: list[int] = []
        self._epochs: list[int] = []
        self._metadata: list[str] = []
        self._has_metadata = False
        self._base = -1
        self._tombstones: list[tuple[str, int]] | None = None
        self._tombstones_group = ""

    def add(self, log_offset: int, key: bytes | None, value: bytes | None) -> None:
        """The next record. CorruptRecord when it cannot be understood and must not be skipped."""
        try:
            self._add(log_offset, key, value)
        except Malformed as error:
            raise CorruptRecord(log_offset, str(error)) from None

    def _add(self, log_offset: int, key: bytes | None, value: bytes | None) -> None:
        if key is None or len(key) < 2:
            raise Malformed("its key is missing or shorter than its type")
        key_type = int.from_bytes(key[:2], "big", signed=True)
        if key_type in (KEY_OFFSET, KEY_OFFSET_LEGACY):
            group_id, topic = self._keys.get(key[:-4]) or self._read_key(key)
            partition = int.from_bytes(key[-4:], "big", signed=True)
            if value is None:
                self._add_tombstone(log_offset, group_id, topic, partition)
            elif len(value) == 24 and value[:2] == _VERSION_3 and value[14:16] == b"\0\0":
                offset, epoch, stamp = _plain_value.unpack_from(value, 2)
                stored = StoredOffset(offset, epoch, "", stamp, -1)
                self._add_offset(log_offset, group_id, topic, partition, stored)
            else:
                stored = read_offset_value(value)
                self._add_offset(log_offset, group_id, topic, partition, stored)
        elif key_type == KEY_GROUP:
            self._flush()
            group_id, end = _string(key, 2)
            if end != len(key):
                raise Malformed(f"a group key of {len(key)} bytes ends at byte {end}")
            group = None if value is None else read_group_value(value)
            self._done.append((log_offset, GroupRun(group_id, group)))
        else:
            self.skipped[key_type] += 1
            return  # the gap in log offsets ends the run that is growing
        self._next_offset = log_offset + 1

    def take(self, final: bool = False) -> list[BasedRun]:
        """The runs completed since the last call; with ``final`` also the one still growing."""
        if final:
            self._flush()
        done, self._done = self._done, []
        return done

    def _read_key(self, key: bytes) -> tuple[str, str]:
        group_id, end = _string(key, 2)
        topic, end = _string(key, end)
        if end + 4 != len(key):
            raise Malformed(f"an offset key of {len(key)} bytes names its partition at byte {end}")
        if len(self._keys) >= _KEYS_KEPT:
            self._keys.clear()
        self._keys[key[:-4]] = (group_id, topic)
        return group_id, topic

    def _add_offset(
        self, log_offset: int, group_id: str, topic: str, partition: int, stored: StoredOffset
    ) -> None:
        run = self._offsets
        if (
            run is None
            or log_offset != self._next_offset
            or run.topic != topic
            or run.group_id != group_id
            or run.commit_timestamp_ms != stored.commit_timestamp_ms
            or run.expire_timestamp_ms != stored.expire_timestamp_ms
        ):
            self._flush()
            self._base = log_offset
            self._partitions, self._values, self._epochs, self._metadata = [], [], [], []
            self._has_metadata = False
            self._offsets = OffsetRun(
                group_id,
                topic,
                self._partitions,
                self._values,
                self._epochs,
                None,
                stored.commit_timestamp_ms,
                stored.expire_timestamp_ms,
            )
        self._partitions.append(partition)
        self._values.append(stored.offset)
        self._epochs.append(stored.leader_epoch)
        self._metadata.append(stored.metadata)
        if stored.metadata:
            self._has_metadata = True

    def _add_tombstone(self, log_offset: int, group_id: str, topic: str, partition: int) -> None:
        if (
            self._tombstones is None
            or log_offset != self._next_offset
            or self._tombstones_group != group_id
        ):
            self._flush()
            self._base = log_offset
            self._tombstones_group = group_id
            self._tombstones = []
        self._tombstones.append((topic, partition))

    def _flush(self) -> None:
        if self._offsets is not None:
            if self._has_metadata:
                self._offsets.metadata = self._metadata
            self._done.append((self._base, self._offsets))
            self._offsets = None
        if self._tombstones is not None:
            run = OffsetTombstones(self._tombstones_group, self._tombstones)
            self._done.append((self._base, run))
            self._tombstones = None


def runs_of_records(
    records: Iterable[StoredRecord], skipped: Counter[int] | None = None
) -> Iterator[BasedRun]:
    """The runs of decoded records, in log order, each with the log offset of its first record.

    ``skipped`` counts, by key type, the records whose kind is unknown. CorruptRecord as above.
    """
    builder = RunBuilder(skipped)
    for record in records:
        builder.add(record.offset, record.key, record.value)
        yield from builder.take()
    yield from builder.take(final=True)


def runs_of_section(
    section: bytes, base_offset: int, count: int, skipped: Counter[int] | None = None
) -> list[BasedRun]:
    """The runs of a batch's uncompressed records section, without decoding record by record.

    ``base_offset`` and ``count`` are the batch header's. CorruptRecord when the section is not
    exactly ``count`` records.
    """
    builder = RunBuilder(skipped)
    position = 0
    for i in range(count):
        try:
            length, start = read_varint(section, position)
            position = start + length
            if length < 0 or position > len(section):
                raise CorruptRecord(
                    base_offset, f"record {i} of its batch claims {length} bytes at byte {start}"
                )
            delta, key, value = _split_record(section, start, position)
        except (CorruptRecords, Malformed) as error:
            raise CorruptRecord(base_offset, f"record {i} of its batch: {error}") from None
        builder.add(base_offset + delta, key, value)
    if position != len(section):
        raise CorruptRecord(
            base_offset, f"its batch of {count} records has {len(section) - position} bytes more"
        )
    return builder.take(final=True)


def _split_record(
    section: bytes, position: int, end: int
) -> tuple[int, bytes | None, bytes | None]:
    """(offset delta, key, value) of the record whose attributes are at ``position``."""
    _, position = read_varlong(section, position + 1)
    delta, position = read_varint(section, position)
    key, position = _blob(section, position, end)
    value, position = _blob(section, position, end)
    return delta, key, value


def _blob(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(section, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise Malformed(f"{size} bytes at byte {position}, where its record ends at {end}")
    return section[position : position + size], position + size


def _string(key: bytes, position: int) -> tuple[str, int]:
    if position + 2 > len(key):
        raise Malformed(f"a key of {len(key)} bytes has no string at byte {position}")
    start = position + 2
    size = int.from_bytes(key[position:start], "big", signed=True)
    if size < 0 or start + size > len(key):
        raise Malformed(f"a string of {size} bytes at byte {start} of a key of {len(key)} bytes")
    try:
        return key[start : start + size].decode(), start + size
    except UnicodeDecodeError as error:
        raise Malformed(f"a key's string is not UTF-8: {error}") from None
