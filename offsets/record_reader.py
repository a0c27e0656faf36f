"""Decodes stored records into runs, for the load of a log.

Consecutive offset records of one group and topic with the same timestamps become one ``OffsetRun``,
so that offsets that were written as a run are replayed as a run. Consecutive records of one
consumer, share or streams group become one ``ConsumerGroupRun``, ``ShareGroupRun`` or
``StreamsGroupRun``. Records with a key of unknown type are skipped and counted, as in Kafka. An
unknown value version and invalid bytes raise CorruptRecord.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from offsets.ascending import ascending
from offsets.record_values import (
    KEY_GROUP,
    KEY_OFFSET,
    KEY_OFFSET_LEGACY,
    CorruptRecord,
    Malformed,
    read_group_value,
    read_offset_value,
)
from offsets.runs import GroupRun, GroupStateRun, OffsetRun, OffsetTombstones, Run
from offsets.state_codecs import decoded
from protocol.records.section import Record

BasedRun = tuple[int, Run]
"""The log offset of a run's first record, and the run."""

known_names: dict[bytes, tuple[str, str]] = {}
"""A cache of the group and topic in offset keys, by the bytes of the key without the partition.
Callers must only read this dict."""

CONSUMER_RECORDS_PER_RUN = 100
"""The maximum number of records of a consumer, share or streams group in one run. The decoding of
such a run takes 2 ms, the longest step of a load."""
_NAMES_KEPT = 8192
_OFFSET_KEY_TYPES = (b"\x00\x01", b"\x00\x00")


class RunBuilder:
    """Combines records, in log order, into runs. ``take`` returns the complete runs."""

    def __init__(self, skipped: Counter[int] | None = None) -> None:
        self.skipped: Counter[int] = Counter() if skipped is None else skipped
        self.stretch = 1
        """How many records probably follow the first record of the next run. The estimate is the
        number in the previous run."""
        self._done: list[BasedRun] = []
        self._next_offset = -1
        self._offsets: OffsetRun | None = None
        self._partitions = array("i")
        self._values = array("q")
        self._epochs = array("i")
        self._metadata: list[str] | None = None
        """The metadata of the offsets in the current run; None while all metadata is empty."""
        self._base = -1
        self._tombstones: list[tuple[str, int]] | None = None
        self._tombstones_group = ""
        self.timestamp_ms = -1
        """The wall time in ms of the records that are added next. Only runs of consumer, share and
        streams groups store this time."""
        self.is_slow = False
        """True if a run with records that take long to decode was completed since the last
        ``take``."""
        self._group_run: GroupStateRun | None = None
        self._group_records: list[Any] = []

    def add(self, log_offset: int, key: bytes | None, value: bytes | None) -> None:
        """Adds the next record. Raises CorruptRecord if the record is invalid and must not be
        skipped."""
        try:
            self._add(log_offset, key, value)
        except Malformed as error:
            raise CorruptRecord(log_offset, str(error)) from None

    def _add(self, log_offset: int, key: bytes | None, value: bytes | None) -> None:
        if key is None or len(key) < 2:
            raise Malformed("the key is missing, or too short to contain a type")
        key_type = int.from_bytes(key[:2], "big", signed=True)
        if key_type in (KEY_OFFSET, KEY_OFFSET_LEGACY):
            group_id, topic = known_names.get(key[:-4]) or _read_names(key[:-4])
            partition = int.from_bytes(key[-4:], "big", signed=True)
            if value is None:
                self._add_tombstone(log_offset, group_id, topic, partition)
            else:
                self._add_offset(log_offset, group_id, topic, partition, *read_offset_value(value))
        elif key_type == KEY_GROUP:
            self._flush()
            group_id, end = _string(key, 2)
            if end != len(key):
                raise Malformed(
                    f"a group key of {len(key)} bytes has bytes after the group id, at byte {end}"
                )
            group = None if value is None else read_group_value(value)
            self._done.append((log_offset, GroupRun(group_id, group)))
        elif (found := decoded(key, value)) is not None:
            self._add_group_record(log_offset, *found)
        else:
            self.skipped[key_type] += 1
            return  # the gap in log offsets ends the current run
        self._next_offset = log_offset + 1

    def take(self, final: bool = False) -> list[BasedRun]:
        """Returns the runs that were completed since the last call. If ``final`` is True, first
        completes the current run."""
        if final:
            self._flush()
        done, self._done = self._done, []
        self.is_slow = False
        return done

    def add_plain(
        self, log_offset: int, names: tuple[str, str], plain: tuple[int, int, int, int]
    ) -> None:
        """Adds the next record, an offset without metadata and expiry. ``names`` are the group and
        the topic. ``plain`` is the partition, offset, leader epoch and commit timestamp."""
        group_id, topic = names
        partition, offset, epoch, commit_ms = plain
        self._add_offset(log_offset, group_id, topic, partition, offset, epoch, "", commit_ms, -1)
        self._next_offset = log_offset + 1

    def extend_plain(
        self, partitions: Sequence[int], offsets: Sequence[int], epochs: Sequence[int]
    ) -> None:
        """Adds records that directly follow those of the last call of ``add_plain``. They have the
        same group, topic and timestamp, and consecutive log offsets."""
        self._partitions.extend(partitions)
        self._values.extend(offsets)
        self._epochs.extend(epochs)
        if self._metadata is not None:
            self._metadata += ("",) * len(partitions)
        self._next_offset += len(partitions)

    def extend_alike(self, offsets: array[int]) -> None:
        """Adds one record per element of ``offsets``. The partitions and log offsets continue those
        of the last record in steps of 1. All other fields equal those of the last record."""
        size = len(offsets)
        first = self._partitions[-1] + 1
        self._partitions += ascending(first, first + size)
        self._values += offsets
        self._epochs += self._epochs[-1:] * size
        if self._metadata is not None:
            self._metadata += ("",) * size
        self._next_offset += size

    def _add_offset(
        self,
        log_offset: int,
        group_id: str,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int,
        metadata: str,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int,
    ) -> None:
        run = self._offsets
        if (
            run is None
            or log_offset != self._next_offset
            or run.commit_timestamp_ms != commit_timestamp_ms
            or run.topic != topic
            or run.group_id != group_id
            or run.expire_timestamp_ms != expire_timestamp_ms
        ):
            self._flush()
            self._base = log_offset
            self._partitions, self._values = array("i", (partition,)), array("q", (offset,))
            self._epochs = array("i", (leader_epoch,))
            self._metadata = [metadata] if metadata else None
            self._offsets = OffsetRun(
                group_id,
                topic,
                self._partitions,
                self._values,
                self._epochs,
                None,
                commit_timestamp_ms,
                expire_timestamp_ms,
            )
            return
        self._partitions.append(partition)
        self._values.append(offset)
        self._epochs.append(leader_epoch)
        if self._metadata is not None:
            self._metadata.append(metadata)
        elif metadata:
            self._metadata = [*("",) * (len(self._values) - 1), metadata]

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

    def _add_group_record(
        self,
        log_offset: int,
        made: type[GroupStateRun],
        group_id: str,
        record: Any,
    ) -> None:
        run = self._group_run
        if (
            type(run) is not made
            or log_offset != self._next_offset
            or run.group_id != group_id
            or len(run) >= CONSUMER_RECORDS_PER_RUN
        ):
            self._flush()
            self._base = log_offset
            self._group_records = []
            self._group_run = made(group_id, self._group_records, self.timestamp_ms)
        self._group_records.append(record)

    def _flush(self) -> None:
        if self._offsets is not None:
            self._offsets.metadata = self._metadata
            self._done.append((self._base, self._offsets))
            self._offsets = None
        if self._tombstones is not None:
            run = OffsetTombstones(self._tombstones_group, self._tombstones)
            self._done.append((self._base, run))
            self._tombstones = None
        if self._group_run is not None:
            self._done.append((self._base, self._group_run))
            self._group_run = None
            self.is_slow = True


def runs_of_records(
    records: Iterable[Record], skipped: Counter[int] | None = None
) -> Iterator[BasedRun]:
    """Yields the runs of decoded records, in log order, each with the log offset of its first
    record. ``skipped`` counts the records of unknown types, by key type. Raises CorruptRecord for
    an invalid record."""
    builder = RunBuilder(skipped)
    for record in records:
        builder.timestamp_ms = record.timestamp
        builder.add(record.offset, record.key, record.value)
        yield from builder.take()
    yield from builder.take(final=True)


def names_of(key_head: bytes) -> tuple[str, str] | None:
    """Returns the group and the topic in an offset key, which is passed without its partition.
    Returns None if the bytes are not the beginning of an offset key."""
    if key_head[:2] not in _OFFSET_KEY_TYPES:
        return None
    try:
        return _read_names(key_head)
    except Malformed:
        return None


def _read_names(key_head: bytes) -> tuple[str, str]:
    group_id, end = _string(key_head, 2)
    topic, end = _string(key_head, end)
    if end != len(key_head):
        raise Malformed(
            f"an offset key of {len(key_head) + 4} bytes must end with the partition (4 bytes), but"
            f" the partition begins at byte {end}"
        )
    if len(known_names) >= _NAMES_KEPT:
        known_names.clear()
    names = known_names[key_head] = (group_id, topic)
    return names


def _string(key: bytes, position: int) -> tuple[str, int]:
    if position + 2 > len(key):
        raise Malformed(
            f"a key of {len(key)} bytes ends within the string that begins at byte {position}"
        )
    start = position + 2
    size = int.from_bytes(key[position:start], "big", signed=True)
    if size < 0 or start + size > len(key):
        raise Malformed(
            f"a string of {size} bytes at byte {start} does not fit into a key of {len(key)} bytes"
        )
    try:
        return key[start : start + size].decode(), start + size
    except UnicodeDecodeError as error:
        raise Malformed(f"a key's string is not UTF-8: {error}") from None
