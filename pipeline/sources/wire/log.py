"""Reads the record batches of `__consumer_offsets`, including transaction markers and the records
of open transactions.

These are the records that a `read_uncommitted` consumer receives from the log start offset to the
high watermark. They are decoded by the code that also reads segments. One Fetch requests many
partitions of a broker. All brokers are asked at once, and the next Fetch to a broker is sent before
its last response is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from client.connection import Connection, Sent, Value
from client.errors import ClientError
from client.errors import Unreachable as NoAnswer
from pipeline import clock
from pipeline.errors import Unreachable
from pipeline.sources.decode import add_entry
from pipeline.sources.event_rows import ROWS_AT_ONCE, EventRows
from pipeline.sources.segment_files import OFFSETS_TOPIC
from pipeline.sources.wire.brokers import (
    MOVED,
    RETRY_S,
    Brokers,
    Patience,
    Reach,
    described,
    refusal,
    sentence,
)
from pipeline.sources.wire.listing import EARLIEST, LATEST, list_offsets
from protocol import errors
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import iter_stored

ANSWER_BYTES: Final = 16 << 20
"""The maximum size of one Fetch response in bytes. A single larger batch is still returned whole
(KIP-74)."""
PARTITION_BYTES: Final = 4 << 20
PARTITIONS_AT_ONCE: Final = 200
_READ_UNCOMMITTED: Final = 0


@dataclass
class Stretch:
    """A range of unread offsets of one partition."""

    partition: int
    position: int
    end: int
    """The offset after the last offset to read."""


@dataclass
class LogPart:
    """The rows of EVENTS that come from one or more partitions of `__consumer_offsets`: from one
    range of offsets in each of these partitions."""

    reach: Reach
    stretches: tuple[tuple[int, int, int], ...]
    """For each partition: its number, the first offset, and the offset after the last one."""
    topic_names: Mapping[str, str] = field(default_factory=dict)
    """Topic names by topic id, because some records of groups contain only topic ids."""
    moved_bytes: int = field(default=0, compare=False)
    """The number of bytes that were read over the network for this part."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises Unreachable and PipelineError."""
        with Brokers(self.reach) as brokers:
            try:
                stretches = [Stretch(*each) for each in self.stretches]
                yield from LogReader(brokers, stretches, self.topic_names).rows()
            finally:
                self.moved_bytes = brokers.moved_bytes


class _Taken(NamedTuple):
    """The fetched records of a partition, and the requested range of offsets."""

    partition: int
    records: bytes
    offsets: tuple[int, int]


class LogReader:
    """Reads ranges of offsets of `__consumer_offsets` completely, even if leaders change."""

    def __init__(
        self, brokers: Brokers, stretches: Sequence[Stretch], topic_names: Mapping[str, str]
    ) -> None:
        self._brokers = brokers
        self._todo = {each.partition: each for each in stretches if each.position < each.end}
        """The unread ranges by partition, in the order in which the next Fetch requests them. A
        partition that received records moves to the end."""
        self._patience = Patience(brokers.reach.timeout_s)
        self._under_way: dict[Connection, tuple[Sent, list[int]]] = {}
        self._moved = True
        """True if the leaders must be read again, since partitions may have new leaders."""
        self._look_again_s = 0.0
        self._failure: ClientError | None = None
        self._rows = EventRows(topic_names=topic_names)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yields EVENTS. Within each partition they are in the order of the log."""
        while self._todo or self._under_way:
            self._ask()
            if not self._under_way:
                self._wait()
                continue
            connection = next(iter(self._under_way))
            sent, asked = self._under_way[connection]
            try:
                answer = connection.receive(sent)
            except ClientError as error:
                self._lost(connection, error)
                continue
            del self._under_way[connection]
            self._failure = None
            taken = self._take(answer, asked)
            self._ask()
            for each in taken:
                yield from self._decode(each)
        if len(self._rows):
            yield self._rows.take()

    def _ask(self) -> None:
        """Sends a Fetch to each broker that leads unread partitions and has no Fetch in flight."""
        if self._moved:
            self._look()
        asked = {number for _, numbers in self._under_way.values() for number in numbers}
        wanted: dict[Connection, list[int]] = {}
        for number in [each for each in self._todo if each not in asked]:
            leader = self._brokers.leader((OFFSETS_TOPIC, number))
            if leader is None:
                self._moved = True
            elif leader not in self._under_way:
                wanted.setdefault(leader, []).append(number)
        for leader, numbers in wanted.items():
            some = numbers[:PARTITIONS_AT_ONCE]
            try:
                self._under_way[leader] = leader.send("Fetch", self._request(some)), some
            except ClientError as error:
                self._lost(leader, error)

    def _request(self, numbers: Sequence[int]) -> Value:
        partitions = [
            {
                "partition": number,
                "fetch_offset": self._todo[number].position,
                "partition_max_bytes": PARTITION_BYTES,
            }
            for number in numbers
        ]
        return {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": ANSWER_BYTES,
            "isolation_level": _READ_UNCOMMITTED,
            "topics": [{"topic": OFFSETS_TOPIC, "partitions": partitions}],
        }

    def _take(self, answer: Value, asked: Sequence[int]) -> list[_Taken]:
        """Returns the records in a Fetch response. Advances the position of each partition that the
        response contains."""
        taken = []
        throttled_s = answer["throttle_time_ms"] / 1000
        entries = [entry for topic in answer["responses"] for entry in topic["partitions"]]
        if answer["error_code"] and not entries:
            raise refusal((OFFSETS_TOPIC, asked[0]), answer["error_code"], "Read")
        for entry in entries:
            number, code = entry["partition_index"], entry["error_code"]
            if code == errors.NONE:
                taken += self._records(entry, is_first=number == asked[0])
            elif code == errors.OFFSET_OUT_OF_RANGE:
                self._back_in_range(self._todo[number])
            elif code in MOVED:
                self._moved = True
            else:
                raise refusal((OFFSETS_TOPIC, number), code, "Read")
        if throttled_s:
            clock.sleep(throttled_s)
            self._patience.renew()
        elif not taken and self._todo:
            self._wait()
        return taken

    def _records(self, entry: Value, *, is_first: bool) -> list[_Taken]:
        """Returns the records of one partition in a Fetch response. `_todo` has the partitions to
        read: a partition that got records moves to the end of `_todo`, and a partition that was
        read completely is removed."""
        stretch = self._todo[entry["partition_index"]]
        records = entry["records"] or b""
        begin = position = stretch.position
        try:
            for header, _ in iter_stored(records, partial=True):
                position = max(position, header.last_offset + 1)
        except CorruptRecords:
            position = stretch.end  # the next position is unknown; `_decode` says why
        if position == begin:
            # The first partition of a request always gets a batch if there is one before the end.
            if is_first and entry["high_watermark"] >= stretch.end:
                self._patience.renew()
                del self._todo[stretch.partition]
            return []
        self._patience.renew()
        stretch.position = position
        del self._todo[stretch.partition]
        if position < stretch.end:
            self._todo[stretch.partition] = stretch
        return [_Taken(stretch.partition, records, (begin, stretch.end))]

    def _back_in_range(self, stretch: Stretch) -> None:
        """Handles OFFSET_OUT_OF_RANGE: advances the position to the log start offset. If the
        requested range has no offset from there on, the read of the range is complete."""
        partition = (OFFSETS_TOPIC, stretch.partition)
        [start, end] = list_offsets(self._brokers, [(partition, EARLIEST), (partition, LATEST)])
        if start.offset > stretch.position:
            stretch.position = start.offset
            self._patience.renew()
        if stretch.position >= min(stretch.end, end.offset):
            del self._todo[stretch.partition]

    def _decode(self, taken: _Taken) -> Iterator[pa.RecordBatch]:
        """Decodes fetched records to rows. A damaged batch becomes a row of kind DAMAGED."""
        rows = self._rows
        rows.log_partition = taken.partition
        position = taken.offsets[0]
        try:
            for header, _ in iter_stored(taken.records, partial=True):
                if header.base_offset >= taken.offsets[1]:
                    break
                position = header.last_offset + 1
                try:
                    add_entry(rows, taken.records, header, taken.offsets)
                except CorruptRecords as error:
                    rows.add_damage(header.base_offset, None, None, str(error))
                if len(rows) >= ROWS_AT_ONCE:
                    yield rows.take()
        except CorruptRecords as error:
            rows.add_damage(
                position, None, None, f"{error} The rest of the fetched records was not read."
            )

    def _look(self) -> None:
        """Requests the current leaders, at most once in RETRY_S."""
        if clock.monotonic_s() < self._look_again_s:
            return
        try:
            self._brokers.look([OFFSETS_TOPIC])
            self._moved = False
        except Unreachable:
            if self._patience.is_over:
                raise
        self._look_again_s = clock.monotonic_s() + RETRY_S

    def _wait(self) -> None:
        """Waits for RETRY_S before a retry. Raises Unreachable after the timeout."""
        if self._patience.is_over:
            if self._failure is not None:
                raise sentence(self._failure)
            raise Unreachable(
                described(
                    self._brokers.view,
                    [(OFFSETS_TOPIC, number) for number in self._todo],
                    self._brokers.reach.timeout_s,
                )
            )
        clock.sleep(RETRY_S)

    def _lost(self, connection: Connection, error: ClientError) -> None:
        """Handles the failure of a broker: its partitions are requested again from their new
        leaders."""
        self._brokers.drop((connection.host, connection.port))
        self._under_way.pop(connection, None)
        self._failure = error
        if not isinstance(error, NoAnswer):
            raise sentence(error) from error
        self._moved = True
        self._wait()
