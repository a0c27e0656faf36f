"""Rows of the history, collected one by one or by the stretch, given as Arrow batches of `EVENTS`.

The numbers of a row lie packed in one buffer, which numpy reads as columns; strings are kept once
and named by their place; what few rows have (groups, raw bytes, damage) is kept beside it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from offsets.record_reader import names_of
from offsets.record_values import (
    KEY_GROUP,
    KEY_OFFSET,
    KEY_OFFSET_LEGACY,
    Malformed,
    read_group_value,
    read_offset_value,
)
from offsets.runs import GroupMember, GroupValue
from pipeline.contract import (
    CHAINED,
    COMMIT,
    COMMIT_TOMBSTONE,
    DAMAGED,
    EVENTS,
    GROUP,
    GROUP_TOMBSTONE,
    KINDS,
    UNKNOWN,
)
from protocol.consumer_protocol import assigned_partitions, subscribed_topics
from protocol.errors import ProtocolError

EVENTS_ARROW: Final[pa.Schema] = to_arrow_schema(EVENTS)
CHAINED_ARROW: Final[pa.Schema] = to_arrow_schema(CHAINED)
ROWS_AT_ONCE: Final = 32_768
"""Rows of one Arrow batch, about: some 8 MiB while they are built."""

NONE: Final = -1
"""In a row: no string, no number, no time; no such number is ever kept."""
ROW: Final = np.dtype(
    [
        ("log_offset", "<i8"),
        ("written_ms", "<i8"),
        ("committed_offset", "<i8"),
        ("commit_ms", "<i8"),
        ("expire_ms", "<i8"),
        ("log_partition", "<i4"),
        ("group", "<i4"),
        ("topic", "<i4"),
        ("metadata", "<i4"),
        ("partition", "<i4"),
        ("leader_epoch", "<i4"),
        ("value_version", "<i2"),
        ("kind", "<i1"),
    ]
)
pack_row: Final = struct.Struct("<qqqqqiiiiiihb").pack
assert ROW.itemsize == struct.calcsize("<qqqqqiiiiiihb")

KIND: Final = {kind: number for number, kind in enumerate(KINDS)}
_COMMIT: Final = KIND[COMMIT]
_plain_value = struct.Struct(">qi2xq")  # behind the version 3: offset, epoch, no metadata, time
_PLAIN_VALUE_BYTES = 24
_TIME_MAX_MS = (1 << 63) // 1000 - 1
_CONSUMER = "consumer"


class Chain(Protocol):
    """Knows the commit before each."""

    def previous(
        self, rows: NDArray[Any], strings: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Its offset, its time in ms, and whether there is one, of each of the log's next rows."""


class EventRows:
    """Rows since the last ``take``, in the order in which they were added."""

    def __init__(self, log_partition: int = 0) -> None:
        self.log_partition = log_partition
        """Of the rows that are added next."""
        self.packed: bytearray
        """Rows of `ROW`."""
        self.look = 64
        """How many records the next stretch may have: a guess after the last."""
        self._clear()

    def _clear(self) -> None:
        self.packed = bytearray()
        self._strings: dict[str, int] = {"": 0}
        self._names: dict[bytes, tuple[int, int]] = {}
        self._groups: list[tuple[int, GroupValue]] = []
        self._raw: list[tuple[int, bytes | None, bytes | None]] = []
        self._damage: list[tuple[int, dict[str, Any]]] = []

    def __len__(self) -> int:
        return len(self.packed) // ROW.itemsize

    @property
    def last_offset(self) -> int:
        """The log offset of the row that was added last, of which there must be one."""
        return int.from_bytes(self.packed[-ROW.itemsize :][:8], "little")

    def names(self, key_head: bytes) -> tuple[int, int] | None:
        """The places of group and topic of an offset key without its partition; None if it is none.

        Good until the next ``take``.
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
        """One record; one that cannot be understood becomes a damaged row with its bytes."""
        if value is not None and len(value) == _PLAIN_VALUE_BYTES and value[:2] == b"\0\3":
            places = key and self.names(key[:-4])
            if key and places and value[14:16] == b"\0\0":
                offset, epoch, commit_ms = _plain_value.unpack_from(value, 2)
                self.packed += pack_row(
                    log_offset, written_ms, offset, commit_ms, NONE, self.log_partition,
                    places[0], places[1], 0, int.from_bytes(key[-4:], "big", signed=True), epoch,
                    3, _COMMIT,
                )  # fmt: skip
                return
        try:
            self._add(log_offset, written_ms, key, value)
        except Malformed as error:
            self.add_damage(log_offset, None, None, str(error), written_ms, key, value)

    def add_damage(
        self,
        log_offset: int,
        file: str | None,
        position: int | None,
        reason: str,
        written_ms: int = NONE,
        key: bytes | None = None,
        value: bytes | None = None,
    ) -> None:
        """Bytes that could not be read, from ``position`` of ``file``; a single record with key."""
        self._damage.append((len(self), {"file": file, "position": position, "reason": reason}))
        self._raw.append((len(self), key, value))
        self._append(DAMAGED, log_offset, written_ms)

    def place_damage(self, first_row: int, file: str, position: int) -> None:
        """Say of what was damaged since ``first_row`` where its batch is."""
        for row, damage in reversed(self._damage):
            if row < first_row:
                break
            damage.update(file=file, position=position)

    def take(self, chain: Chain | None = None) -> pa.RecordBatch:
        """All rows as a batch of `EVENTS`, of `CHAINED` with a chain; then none are left."""
        rows = np.frombuffer(bytes(self.packed), ROW)
        columns, schema = self._columns(rows), EVENTS_ARROW
        if chain is not None:
            offsets, times_ms, known = chain.previous(rows, list(self._strings))
            columns["previous_offset"] = pa.array(offsets, mask=~known)
            columns["previous_at"] = times(times_ms)
            schema = CHAINED_ARROW
        self._clear()
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _add(
        self, log_offset: int, written_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        if key is None or len(key) < 2:
            raise Malformed("its key is missing or shorter than its type")
        key_type = int.from_bytes(key[:2], "big", signed=True)
        version = None
        if value is not None and len(value) >= 2:
            version = int.from_bytes(value[:2], "big", signed=True)
        if key_type in (KEY_OFFSET, KEY_OFFSET_LEGACY):
            places = self.names(key[:-4])
            if places is None:
                raise Malformed("its key is of an offset and is not a group, a topic, a partition")
            partition = int.from_bytes(key[-4:], "big", signed=True)
            if value is None:
                self._append(COMMIT_TOMBSTONE, log_offset, written_ms, *places, partition)
                return
            stored = read_offset_value(value)
            self.packed += pack_row(
                log_offset, written_ms, stored.offset, stored.commit_timestamp_ms,
                stored.expire_timestamp_ms, self.log_partition, places[0], places[1],
                self._place(stored.metadata), partition, stored.leader_epoch, version, _COMMIT,
            )  # fmt: skip
        elif key_type == KEY_GROUP:
            group = self._place(_group_of(key))
            if value is None:
                self._append(GROUP_TOMBSTONE, log_offset, written_ms, group)
                return
            self._groups.append((len(self), read_group_value(value)))
            self._append(GROUP, log_offset, written_ms, group, version=version)
        else:
            self._raw.append((len(self), key, value))
            self._append(UNKNOWN, log_offset, written_ms, version=version)

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
            log_offset, written_ms, NONE, NONE, NONE, self.log_partition, group, topic, NONE,
            partition, NONE, NONE if version is None else version, KIND[kind],
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
            "value_version": _masked(rows["value_version"], rows["value_version"] == NONE),
            "group_id": _taken(strings, rows["group"]),
            "topic": _taken(strings, rows["topic"]),
            "metadata": _taken(strings, rows["metadata"]),
            "written_at": times(rows["written_ms"]),
            "commit_at": times(rows["commit_ms"]),
            "expire_at": times(rows["expire_ms"]),
        }
        groups = [_group_fields(value) for _, value in self._groups]
        at = [row for row, _ in self._groups]
        for name in ("protocol_type", "generation", "protocol", "leader", "state_at", "members"):
            columns[name] = _sparse(name, len(rows), at, [group[name] for group in groups])
        at = [row for row, _, _ in self._raw]
        columns["raw_key"] = _sparse("raw_key", len(rows), at, [raw[1] for raw in self._raw])
        columns["raw_value"] = _sparse("raw_value", len(rows), at, [raw[2] for raw in self._raw])
        at = [row for row, _ in self._damage]
        columns["damage"] = _sparse("damage", len(rows), at, [d for _, d in self._damage])
        return columns


def times(column: NDArray[Any]) -> pa.Array:
    """Milliseconds to timestamps: -1, and what no timestamp can hold, is null."""
    return pa.array(column * 1000, pa.int64(), mask=~has_time(column)).cast(
        pa.timestamp("us", "UTC")
    )


def has_time(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which milliseconds are a time that a timestamp can hold."""
    known: NDArray[np.bool_] = (
        (column != NONE) & (column >= -_TIME_MAX_MS) & (column <= _TIME_MAX_MS)
    )
    return known


def time_or_none(ms: int) -> int | None:
    """Microseconds as `times` gives them, of one time."""
    return None if ms == NONE or abs(ms) > _TIME_MAX_MS else ms * 1000


def _masked(column: NDArray[Any], mask: NDArray[Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(column), mask=mask)


def _taken(values: pa.Array, places: NDArray[Any]) -> pa.Array:
    places = np.ascontiguousarray(places)
    return values.take(pa.array(places, mask=places < 0))


def _sparse(name: str, count: int, at: Sequence[int], values: list[Any]) -> pa.Array:
    """A column that has values at the rows ``at`` and is null elsewhere."""
    kind = EVENTS_ARROW.field(name).type
    if not at:
        return pa.nulls(count, kind)
    places = np.full(count, NONE, np.int32)
    places[np.asarray(at)] = np.arange(len(at), dtype=np.int32)
    return _taken(pa.array(values, kind), places)


def _group_of(key: bytes) -> str:
    end = 4 + int.from_bytes(key[2:4], "big", signed=True)
    if end != len(key):
        raise Malformed(f"a group key of {len(key)} bytes ends at byte {end}")
    try:
        return key[4:].decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"a group id is not UTF-8: {error}") from None


def _group_fields(value: GroupValue) -> dict[str, Any]:
    consumers = value.protocol_type == _CONSUMER
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation_id,
        "protocol": value.protocol_name,
        "leader": value.leader,
        "state_at": time_or_none(value.state_timestamp_ms),
        "members": [_member_fields(member, consumers) for member in value.members],
    }


def _member_fields(member: GroupMember, consumers: bool) -> dict[str, Any]:
    """Subscription and assignment are the members' own bytes: null when they are of no consumer."""
    subscription: list[str] | None = None
    assignment: list[dict[str, Any]] | None = None
    if consumers:
        try:
            subscription = subscribed_topics(member.subscription)
            assignment = [
                {"topic": topic, "partitions": partitions}
                for topic, partitions in assigned_partitions(member.assignment).items()
            ]
        except (ProtocolError, struct.error):
            pass
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription": subscription,
        "assignment": assignment,
    }
