"""Collects rows of the history, and returns them as Arrow batches of `EVENTS`.

The numbers of all rows are packed in one buffer, which numpy reads as columns. Each string is
stored once, and rows refer to it by number. Rare values are in lists: the states of groups, the
bytes of undecoded records, and damage.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from offsets.record_reader import names_of
from offsets.record_values import (
    KEY_GROUP,
    KEY_OFFSET,
    KEY_OFFSET_LEGACY,
    NEWEST_VALUE_VERSION,
    Malformed,
    read_group_value,
    read_offset_value,
)
from pipeline.model.events import (
    ABORTED,
    COMMIT,
    COMMIT_TOMBSTONE,
    COMMITTED,
    DAMAGED,
    EVENTS,
    GROUP,
    GROUP_TOMBSTONE,
    KINDS,
    MARKER,
    RECORD_KINDS,
    TOMBSTONE,
    UNKNOWN,
)
from pipeline.sources import group_records
from pipeline.sources.group_records import TopicNames
from pipeline.sources.log_times import NO_TIME, times
from pipeline.sources.plain_values import layout_of
from protocol.records.batch import ABORT as ABORT_MARKER
from protocol.records.batch import COMMIT as COMMIT_MARKER

ROWS_AT_ONCE: Final = 32_768
"""The approximate number of rows in an Arrow batch. The batch needs about 8 MiB while it is built.
"""

NONE: Final = NO_TIME
"""The number that means null in a packed row, for strings, numbers and times. Real values are never
-1."""
ROW: Final = np.dtype(
    [
        ("log_offset", "<i8"),
        ("written_ms", "<i8"),
        ("committed_offset", "<i8"),
        ("commit_ms", "<i8"),
        ("expire_ms", "<i8"),
        ("producer_id", "<i8"),
        ("log_partition", "<i4"),
        ("group", "<i4"),
        ("topic", "<i4"),
        ("metadata", "<i4"),
        ("partition", "<i4"),
        ("leader_epoch", "<i4"),
        ("value_version", "<i2"),
        ("producer_epoch", "<i2"),
        ("kind", "<i1"),
    ]
)
pack_row: Final = struct.Struct("<qqqqqqiiiiiihhb").pack
assert ROW.itemsize == struct.calcsize("<qqqqqqiiiiiihhb")

KIND: Final = {kind: number for number, kind in enumerate(KINDS)}
_COMMIT: Final = KIND[COMMIT]
_OLD_KEYS = (KEY_OFFSET, KEY_OFFSET_LEGACY, KEY_GROUP)
_OLD_VERSIONS = range(NEWEST_VALUE_VERSION + 1)
_MARKERS = {COMMIT_MARKER: COMMITTED, ABORT_MARKER: ABORTED}
_marker_key = struct.Struct(">hh")
_STATE_COLUMNS = (
    "protocol_type", "generation", "protocol", "leader", "state_at", "member_id", "members",
    "details",
)  # fmt: skip


class EventRows:
    """Collects rows of `EVENTS` in order, until `take` returns them."""

    def __init__(self, log_partition: int = 0, topic_names: TopicNames | None = None) -> None:
        self.log_partition = log_partition
        self.producer_id = self.producer_epoch = NONE
        """The producer id and epoch of the rows that are added next, if a transaction wrote them;
        otherwise NONE."""
        self._topic_names = topic_names or {}
        self.packed: bytearray
        """The rows in the packed format `ROW`."""
        self.look = 64
        """An estimate of the number of records in the next stretch, from the length of the previous
        stretch. At most this number of records is decoded together."""
        self._clear()

    def _clear(self) -> None:
        self.packed = bytearray()
        self._strings: dict[str, int] = {"": 0}
        self._names: dict[bytes, tuple[int, int]] = {}
        self._states: list[tuple[int, dict[str, Any]]] = []
        self._markers: list[tuple[int, str]] = []
        self._raw: list[tuple[int, bytes | None, bytes | None]] = []
        self._damage: list[tuple[int, dict[str, Any]]] = []

    def __len__(self) -> int:
        return len(self.packed) // ROW.itemsize

    @property
    def last_offset(self) -> int:
        """The log offset of the row that was added last. At least one row must exist."""
        return int.from_bytes(self.packed[-ROW.itemsize :][:8], "little")

    def names(self, key_head: bytes) -> tuple[int, int] | None:
        """Returns the numbers under which this object stores the group name and the topic name of
        an offset commit's key. Returns None if the key is invalid.

        ``key_head`` is the key without the partition at its end. The numbers are valid until the
        next `take`.
        """
        places = self._names.get(key_head)
        if places is None:
            names = names_of(key_head)
            if names is None:
                return None
            places = self._names[key_head] = (self._place(names[0]), self._place(names[1]))
        return places

    def add_record(
        self, log_offset: int, written_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Adds one record. A record that can't be decoded becomes a row of kind DAMAGED that
        contains its bytes."""
        layout = value and layout_of(value)
        if layout and value:
            places = key and self.names(key[:-4])
            if key and places:
                offset, epoch, commit_ms = layout.numbers.unpack_from(value)
                self.packed += pack_row(
                    log_offset, written_ms, offset, commit_ms, NONE, self.producer_id,
                    self.log_partition, places[0], places[1], 0,
                    int.from_bytes(key[-4:], "big", signed=True), epoch, layout.version,
                    self.producer_epoch, _COMMIT,
                )  # fmt: skip
                return
        try:
            self._add(log_offset, written_ms, key, value)
        except Malformed as error:
            self.add_damage(log_offset, None, None, str(error), DAMAGED, written_ms, key, value)

    def add_marker(
        self, log_offset: int, written_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Adds a control record. If it is not a transaction marker, it becomes a row of kind
        UNKNOWN."""
        marker = None
        if key is not None and len(key) >= _marker_key.size:
            marker = _MARKERS.get(_marker_key.unpack_from(key)[1])
        if marker is None:
            self._add_raw(UNKNOWN, log_offset, written_ms, key, value)
            return
        self._markers.append((len(self), marker))
        self._append(MARKER, log_offset, written_ms)

    def add_damage(
        self,
        log_offset: int,
        file: str | None,
        position: int | None,
        reason: str,
        kind: str = DAMAGED,
        written_ms: int = NONE,
        key: bytes | None = None,
        value: bytes | None = None,
    ) -> None:
        """Adds a row for bytes that could not be read, at ``position`` in ``file``.

        ``key`` is the record's key if the damage concerns a single record.
        """
        self._damage.append((len(self), {"file": file, "position": position, "reason": reason}))
        self._add_raw(kind, log_offset, written_ms, key, value)

    def place_damage(self, first_row: int, file: str, position: int) -> None:
        """Adds the place of a damaged batch (``file`` and ``position``) to all rows about damage
        from row number ``first_row`` on."""
        for row, damage in reversed(self._damage):
            if row < first_row:
                break
            damage.update(file=file, position=position)

    def take(self) -> pa.RecordBatch:
        """Returns all rows as a batch of `EVENTS`, and removes them from this object."""
        columns = self._columns(np.frombuffer(bytes(self.packed), ROW))
        self._clear()
        return pa.RecordBatch.from_arrays([columns[name] for name in EVENTS.names], schema=EVENTS)

    def _add(
        self, log_offset: int, written_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        if key is None or len(key) < 2:
            raise Malformed("the key is missing, or too short to contain a type")
        key_type = int.from_bytes(key[:2], "big", signed=True)
        if value is not None and len(value) < 2:
            raise Malformed(f"a value of {len(value)} bytes is too short to contain a version")
        version = None if value is None else int.from_bytes(value[:2], "big", signed=True)
        if key_type in RECORD_KINDS:
            self._add_state(key_type, log_offset, written_ms, key, value, version)
        elif key_type not in _OLD_KEYS or (version or 0) not in _OLD_VERSIONS:
            self._add_raw(UNKNOWN, log_offset, written_ms, key, value, version)
        elif key_type == KEY_GROUP:
            group = self._place(_group_of(key))
            if value is None:
                self._append(GROUP_TOMBSTONE, log_offset, written_ms, group)
                return
            self._states.append((len(self), group_records.classic_columns(read_group_value(value))))
            self._append(GROUP, log_offset, written_ms, group, version=version)
        else:
            self._add_offset(log_offset, written_ms, key, value, version)

    def _add_offset(
        self, log_offset: int, written_ms: int, key: bytes, value: bytes | None, version: int | None
    ) -> None:
        places = self.names(key[:-4])
        if places is None:
            raise Malformed("the offset key has no valid group, topic and partition")
        partition = int.from_bytes(key[-4:], "big", signed=True)
        if value is None:
            self._append(COMMIT_TOMBSTONE, log_offset, written_ms, *places, partition)
            return
        stored = read_offset_value(value)
        self.packed += pack_row(
            log_offset, written_ms, stored.offset, stored.commit_timestamp_ms,
            stored.expire_timestamp_ms, self.producer_id, self.log_partition, places[0],
            places[1], self._place(stored.metadata), partition, stored.leader_epoch, version,
            self.producer_epoch, _COMMIT,
        )  # fmt: skip

    def _add_state(
        self,
        key_type: int,
        log_offset: int,
        written_ms: int,
        key: bytes,
        value: bytes | None,
        version: int | None,
    ) -> None:
        """Adds a record of a consumer group (KIP-848), share group (KIP-932) or streams group
        (KIP-1071)."""
        kind = RECORD_KINDS[key_type]
        if value is None:
            columns = group_records.key_columns(key_type, key)
            kind += TOMBSTONE
        elif version is not None and group_records.knows_version(key_type, version):
            columns = group_records.columns(key_type, key, value, self._topic_names)
        else:
            self._add_raw(UNKNOWN, log_offset, written_ms, key, value, version)
            return
        self._states.append((len(self), columns))
        self._append(
            kind, log_offset, written_ms, self._place(columns["group_id"]), version=version
        )

    def _add_raw(
        self,
        kind: str,
        log_offset: int,
        written_ms: int,
        key: bytes | None,
        value: bytes | None,
        version: int | None = None,
    ) -> None:
        """Adds a row with the undecoded bytes of a record, and with its group if the key is
        readable."""
        group = _first_string(key) if key else None
        self._raw.append((len(self), key, value))
        place = NONE if group is None else self._place(group)
        self._append(kind, log_offset, written_ms, place, version=version)

    def _append(
        self,
        kind: str,
        log_offset: int,
        written_ms: int,
        group: int = NONE,
        topic: int = NONE,
        partition: int = NONE,
        version: int | None = None,
    ) -> None:
        self.packed += pack_row(
            log_offset, written_ms, NONE, NONE, NONE, self.producer_id, self.log_partition, group,
            topic, NONE, partition, NONE, NONE if version is None else version,
            self.producer_epoch, KIND[kind],
        )  # fmt: skip

    def _place(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _columns(self, rows: NDArray[Any]) -> dict[str, pa.Array]:
        strings = pa.array(list(self._strings), pa.string())
        is_commit = rows["kind"] == _COMMIT
        of_offset = is_commit | (rows["kind"] == KIND[COMMIT_TOMBSTONE])
        columns = {
            "log_partition": pa.array(np.ascontiguousarray(rows["log_partition"])),
            "log_offset": pa.array(np.ascontiguousarray(rows["log_offset"])),
            "kind": _taken(pa.array(KINDS), rows["kind"]),
            "partition": _masked(rows["partition"], ~of_offset),
            "committed_offset": _masked(rows["committed_offset"], ~is_commit),
            "leader_epoch": _masked(rows["leader_epoch"], rows["leader_epoch"] < 0),
            "producer_id": _masked(rows["producer_id"], rows["producer_id"] == NONE),
            "producer_epoch": _masked(rows["producer_epoch"], rows["producer_id"] == NONE),
            "value_version": _masked(rows["value_version"], rows["value_version"] == NONE),
            "group_id": _taken(strings, rows["group"]),
            "topic": _taken(strings, rows["topic"]),
            "metadata": _taken(strings, rows["metadata"]),
            "written_at": times(rows["written_ms"]),
            "commit_at": times(rows["commit_ms"]),
            "expire_at": times(rows["expire_ms"]),
        }
        at = [row for row, _ in self._states]
        for name in _STATE_COLUMNS:
            states = [state.get(name) for _, state in self._states]
            columns[name] = _sparse(name, len(rows), at, states)
        at = [row for row, _ in self._markers]
        columns["marker"] = _sparse("marker", len(rows), at, [m for _, m in self._markers])
        at = [row for row, _, _ in self._raw]
        columns["raw_key"] = _sparse("raw_key", len(rows), at, [raw[1] for raw in self._raw])
        columns["raw_value"] = _sparse("raw_value", len(rows), at, [raw[2] for raw in self._raw])
        at = [row for row, _ in self._damage]
        columns["damage"] = _sparse("damage", len(rows), at, [d for _, d in self._damage])
        return columns


def _masked(column: NDArray[Any], mask: NDArray[Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(column), mask=mask)


def _taken(values: pa.Array, places: NDArray[Any]) -> pa.Array:
    places = np.ascontiguousarray(places)
    return values.take(pa.array(places, mask=places < 0))


def _sparse(name: str, count: int, at: Sequence[int], values: list[Any]) -> pa.Array:
    """Makes a column with ``values`` in the rows ``at``, and null in all other rows."""
    kind = EVENTS.field(name).type
    if not at:
        return pa.nulls(count, kind)
    places = np.full(count, NONE, np.int32)
    places[np.asarray(at)] = np.arange(len(at), dtype=np.int32)
    return _taken(pa.array(values, kind), places)


def _first_string(key: bytes) -> str | None:
    """Returns the string after the type in a key; None if it is invalid. In all known keys a string
    follows the type."""
    end = 4 + int.from_bytes(key[2:4], "big", signed=True)
    if not 4 <= end <= len(key):
        return None
    try:
        return key[4:end].decode()
    except UnicodeDecodeError:
        return None


def _group_of(key: bytes) -> str:
    end = 4 + int.from_bytes(key[2:4], "big", signed=True)
    if end != len(key):
        raise Malformed(f"a group key has {len(key)} bytes, but its group id ends at byte {end}")
    try:
        return key[4:].decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"a group id is not UTF-8: {error}") from None
