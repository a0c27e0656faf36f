"""A second decoder of the log of __consumer_offsets: slow, simple, and independent of the decoder
under test.

The decoder reads the record batches of a segment and returns the last value of each key. The offset
of a committed transaction replaces the current offset only if its record has the higher log offset.
The module imports nothing from ``offsets/`` or ``protocol/``, so that it does not share their bugs.
It reads only uncompressed batches of magic 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple


class ModelOffset(NamedTuple):
    """A committed offset. A field that does not exist in the version of the value is -1."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    log_offset: int


class ModelMember(NamedTuple):
    """A member in a stored group record."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class ModelGroup(NamedTuple):
    """A stored record of a classic group."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[ModelMember, ...]


class ModelRecord(NamedTuple):
    """A record of the log with its log offset."""

    log_offset: int
    key: bytes
    value: bytes | None
    producer_id: int = -1
    """The producer id of the transaction that wrote the record, or -1."""
    is_marker: bool = False
    """True if the record is a transaction marker. Its key contains the type, COMMIT or ABORT."""

    @property
    def commits(self) -> bool:
        return self.is_marker and self.key == b"\0\0\0\1"


OffsetKey = tuple[str, str, int]
"""A group, a topic and a partition."""


@dataclass
class ModelState:
    """The state after all batches that were passed to ``feed``."""

    offsets: dict[str, dict[tuple[str, int], ModelOffset]] = field(default_factory=dict)
    groups: dict[str, ModelGroup] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, ModelOffset]] = field(default_factory=dict)
    """The offsets of open transactions, by producer id. A producer without pending offsets has no
    entry."""
    records: int = 0
    unknown_keys: int = 0
    next_log_offset: int = 0

    def feed(self, data: bytes) -> list[ModelRecord]:
        """Reads whole batches, updates the state, and returns the records of the batches."""
        seen = []
        for record in records_of_batches(data):
            assert record.log_offset >= self.next_log_offset, "log offsets go back"
            self.next_log_offset = record.log_offset + 1
            self.records += 1
            self._fold(record)
            seen.append(record)
        return seen

    def _fold(self, record: ModelRecord) -> None:
        if record.is_marker:
            self._end(record)
            return
        key = Bytes(record.key)
        kind = key.number(2)
        if kind in (0, 1):
            group, topic, partition = key.string(), key.string(), key.number(4)
            assert key.is_at_end()
            if record.value is None:
                self._delete(group, topic, partition)
                return
            value = offset_of_value(record.value, record.log_offset)
            if record.producer_id >= 0:
                of_producer = self.pending.setdefault(record.producer_id, {})
                of_producer[group, topic, partition] = value
            else:
                self.offsets.setdefault(group, {})[topic, partition] = value
        elif kind == 2:
            group = key.string()
            assert key.is_at_end()
            if record.value is None:
                self.groups.pop(group, None)
            else:
                self.groups[group] = group_of_value(record.value)
        else:
            self.unknown_keys += 1

    def _end(self, marker: ModelRecord) -> None:
        """Ends the transaction of a marker. A COMMIT marker makes a pending offset the current
        offset, unless the record of the current offset is later in the log."""
        for (group, *key), value in self.pending.pop(marker.producer_id, {}).items():
            of_group = self.offsets.get(group, {})
            kept = of_group.get((key[0], key[1]))
            if marker.commits and (kept is None or kept.log_offset < value.log_offset):
                self.offsets.setdefault(group, {})[key[0], key[1]] = value

    def _delete(self, group: str, topic: str, partition: int) -> None:
        """Deletes the committed and the pending offset of a partition. Later markers do not restore
        these offsets."""
        of_group = self.offsets.get(group, {})
        of_group.pop((topic, partition), None)
        if not of_group:
            self.offsets.pop(group, None)
        for producer_id, of_producer in list(self.pending.items()):
            of_producer.pop((group, topic, partition), None)
            if not of_producer:
                del self.pending[producer_id]


def read_log(data: bytes) -> ModelState:
    state = ModelState()
    state.feed(data)
    return state


class Bytes:
    """A read position in a byte string. A read advances the position, and raises an error at the
    end of the string."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        assert 0 <= size <= len(self.data) - self.at, f"{size} bytes at {self.at}"
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def unsigned_varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self) -> int:
        value = self.unsigned_varint()
        return value // 2 if value % 2 == 0 else -(value + 1) // 2

    def nullable_string(self) -> str | None:
        size = self.number(2)
        return None if size == -1 else self.take(size).decode("utf-8")

    def string(self) -> str:
        text = self.nullable_string()
        assert text is not None
        return text

    def compact_nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1
        return None if size == -1 else self.take(size).decode("utf-8")

    def compact_string(self) -> str:
        text = self.compact_nullable_string()
        assert text is not None
        return text

    def nullable_bytes(self) -> bytes | None:
        size = self.zigzag()
        return None if size == -1 else self.take(size)

    def skip_tags(self) -> None:
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self.take(self.unsigned_varint())

    def is_at_end(self) -> bool:
        return self.at == len(self.data)


def records_of_batches(data: bytes) -> list[ModelRecord]:
    """Returns all records of uncompressed batches of magic 2. Raises an error if a CRC is wrong."""
    rest = Bytes(data)
    records: list[ModelRecord] = []
    while not rest.is_at_end():
        base_offset = rest.number(8)
        records += _records_of_batch(base_offset, rest.take(rest.number(4)))
    return records


@lru_cache(maxsize=4096)
def _records_of_batch(base_offset: int, data: bytes) -> tuple[ModelRecord, ...]:
    """Returns the records of one batch. The result is cached, because each simulated crash reads
    the log again."""
    body = Bytes(data)
    records = []
    body.number(4)  # partition leader epoch
    assert body.number(1) == 2, "magic"
    checksum = int.from_bytes(body.take(4), "big")
    assert checksum == slow_crc32c(body.data[body.at :]), f"CRC of the batch at {base_offset}"
    attributes = body.number(2)
    assert attributes in (0, 0x10, 0x30), "plain, of a transaction, or a marker; create time"
    last_offset_delta = body.number(4)
    base_timestamp, max_timestamp = body.number(8), body.number(8)
    assert base_timestamp == max_timestamp, "timestamp deltas are 0"
    producer_id, producer_epoch = body.number(8), body.number(2)
    base_sequence = body.number(4)
    assert base_sequence == (0 if attributes == 0x10 else -1), "the coordinator counts no sequence"
    assert (producer_id >= 0) == (producer_epoch >= 0) == (attributes > 0), "whose it is"
    is_marker = attributes == 0x30
    count = body.number(4)
    deltas = []
    for _ in range(count):
        record = Bytes(body.take(body.zigzag()))
        assert record.number(1) == 0, "attributes of a record"
        assert record.zigzag() == 0, "timestamp delta"
        deltas.append(record.zigzag())
        key, value = record.nullable_bytes(), record.nullable_bytes()
        assert record.zigzag() == 0, "headers"
        assert record.is_at_end()
        assert key is not None
        records.append(ModelRecord(base_offset + deltas[-1], key, value, producer_id, is_marker))
    assert body.is_at_end()
    assert deltas == sorted(set(deltas))
    assert not deltas or deltas[-1] <= last_offset_delta
    assert not is_marker or (count == 1 and records[0].key in (b"\0\0\0\0", b"\0\0\0\1"))
    return tuple(records)


def offset_of_value(data: bytes, log_offset: int) -> ModelOffset:
    """Decodes an offset value of versions 0 to 4."""
    value = Bytes(data)
    version = value.number(2)
    assert 0 <= version <= 4
    offset = value.number(8)
    leader_epoch = value.number(4) if version >= 3 else -1
    metadata = value.compact_string() if version == 4 else value.string()
    commit_timestamp_ms = value.number(8)
    expire_timestamp_ms = value.number(8) if version == 1 else -1
    if version == 4:
        value.skip_tags()
    assert value.is_at_end()
    return ModelOffset(
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, log_offset
    )


def group_of_value(data: bytes) -> ModelGroup:
    """Decodes a group value of versions 0 to 4. Version 4 is flexible."""
    value = Bytes(data)
    version = value.number(2)
    assert 0 <= version <= 4
    flexible = version == 4
    protocol_type = value.compact_string() if flexible else value.string()
    generation_id = value.number(4)
    protocol_name = value.compact_nullable_string() if flexible else value.nullable_string()
    leader = value.compact_nullable_string() if flexible else value.nullable_string()
    state_timestamp_ms = value.number(8) if version >= 2 else -1
    count = value.unsigned_varint() - 1 if flexible else value.number(4)
    members = tuple(_member(value, version) for _ in range(count))
    if flexible:
        value.skip_tags()
    assert value.is_at_end()
    return ModelGroup(
        protocol_type, generation_id, protocol_name, leader, state_timestamp_ms, members
    )


def _member(value: Bytes, version: int) -> ModelMember:
    flexible = version == 4

    def string() -> str:
        return value.compact_string() if flexible else value.string()

    def blob() -> bytes:
        return value.take(value.unsigned_varint() - 1 if flexible else value.number(4))

    member_id = string()
    instance_id = None
    if version >= 3:
        instance_id = value.compact_nullable_string() if flexible else value.nullable_string()
    client_id, client_host = string(), string()
    rebalance_timeout_ms = value.number(4) if version >= 1 else None
    session_timeout_ms = value.number(4)
    if rebalance_timeout_ms is None:
        rebalance_timeout_ms = session_timeout_ms
    member = ModelMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription=blob(),
        assignment=blob(),
    )
    if flexible:
        value.skip_tags()
    return member


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    return table


_TABLE = _crc_table()


def slow_crc32c(data: bytes) -> int:
    """Returns the CRC-32C (Castagnoli), computed byte by byte."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
