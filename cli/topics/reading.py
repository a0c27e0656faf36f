"""Reads the records of given partitions, or of the partitions that a group assigns to this
member."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cli import clock, output
from cli.client.cluster import RETRY_S, Cluster, Connection
from cli.client.fetch import fetch
from cli.client.group_member import GroupMember
from cli.client.offsets_at import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    Partition,
    bounds_of,
    offsets_at,
)
from cli.errors import CommandError, refused
from client.connection import Value
from protocol.errors import OFFSET_OUT_OF_RANGE, RETRIABLE
from protocol.records.batch import BatchHeader
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record
from protocol.records.stored import iter_stored, stored_records, validate_stored

PARTITION_BYTES = 1 << 20
MAX_BYTES = 8 << 20
WAIT_MS = 500

Read = tuple[Partition, Record]


class Start(NamedTuple):
    """The position at which reading starts. If no field is set, reading starts at the log end
    offset."""

    beginning: bool = False
    offset: int | None = None
    at_ms: int | None = None


class Consumer:
    """Fetches records from the leaders of its partitions, one leader after another."""

    def __init__(self, cluster: Cluster, isolation: int, member: GroupMember | None = None) -> None:
        self.cluster, self.isolation, self.member = cluster, isolation, member
        self.positions: dict[Partition, int] = {}
        self.ends: dict[Partition, int] | None = None
        """The offset of each partition at which reading ends; None if reading does not end."""
        self.leaders: dict[Partition, Connection] = {}
        self._start = Start()
        self._failing_since_s: float | None = None

    def assign(self, leaders: Mapping[Partition, Connection], start: Start) -> None:
        """Starts to read the partitions at ``start``. Raises CommandError if ``start`` is outside a
        log."""
        self.leaders = dict(leaders)
        if start.offset is not None:
            self._check_offset(start.offset)
            self.positions = dict.fromkeys(leaders, start.offset)
        else:
            self.positions = self._first(leaders, start)

    def join(self, start: Start) -> None:
        """Joins the group and starts to read the assigned partitions. Reading starts at the
        committed offset; without one, at ``start``."""
        assert self.member is not None
        self._start = start
        owned = self.member.join()
        self.leaders = self.cluster.leaders(self.member.topics)
        committed = self.member.committed() if owned else {}
        fresh = [key for key in owned if key not in committed]
        self.positions = {**self._first(fresh, start), **committed}
        if self.ends is not None:
            self.end_at_the_end()

    def end_at_the_end(self) -> None:
        """Makes reading end at the present log end offsets."""
        known = self.ends or {}
        new = [key for key in self.positions if key not in known]
        self.ends = {**known, **offsets_at(self.cluster, new, LATEST, self.isolation)}

    @property
    def ended(self) -> bool:
        """True if all partitions are read up to ``ends``."""
        return self.ends is not None and not self._unread()

    def _unread(self) -> list[Partition]:
        if self.ends is None:
            return list(self.positions)
        return [key for key, position in self.positions.items() if position < self.ends[key]]

    def _first(self, partitions: Iterable[Partition], start: Start) -> dict[Partition, int]:
        keys = list(partitions)
        if start.at_ms is None:
            where = EARLIEST if start.beginning else LATEST
            return offsets_at(self.cluster, keys, where, self.isolation)
        found = offsets_at(self.cluster, keys, start.at_ms, self.isolation)
        later = [key for key in keys if found[key] < 0]
        return {**found, **offsets_at(self.cluster, later, LATEST, self.isolation)}

    def _check_offset(self, offset: int) -> None:
        bounds = bounds_of(self.cluster, self.leaders)
        for (topic, partition), (start, end) in sorted(bounds.items()):
            if not start <= offset <= end:
                has = f"offsets {start} to {end - 1}" if end > start else "no records"
                raise CommandError(
                    f"--offset {offset} is outside {topic}:{partition}, which has {has}; the log"
                    f" end offset is {end}"
                )

    def poll(self) -> Iterator[Read]:
        """Yields the available records. The caller must call `passed` when it has printed a record.
        The next poll commits the positions, so that an offset is committed only after its record
        was printed."""
        if self.member is not None and not (
            self.member.beat() and self.member.commit(self.positions)
        ):
            self.join(self._start)
        keys = self._unread()
        if not keys and not self.ended:
            clock.sleep(WAIT_MS / 1000)
        by_leader: dict[Connection, list[Partition]] = {}
        for key in keys:
            by_leader.setdefault(self.leaders[key], []).append(key)
        for leader, asked in by_leader.items():
            yield from self._fetch(leader, asked)

    def passed(self, where: Partition, record: Record) -> None:
        """Moves the position of a partition to the offset after ``record``, which was printed."""
        self.positions[where] = record.offset + 1

    def _fetch(self, leader: Connection, keys: Sequence[Partition]) -> Iterator[Read]:
        answers = fetch(
            leader,
            keys,
            self.positions,
            partition_max_bytes=PARTITION_BYTES,
            max_bytes=MAX_BYTES,
            min_bytes=1,
            max_wait_ms=WAIT_MS,
            isolation=self.isolation,
            fine=(OFFSET_OUT_OF_RANGE, *RETRIABLE),
        )
        for where, answer in answers:
            if answer["error_code"] == OFFSET_OUT_OF_RANGE:
                self._move(where)
            elif answer["error_code"]:
                self._find_leaders_again(where, answer["error_code"])
                return
            else:
                self._failing_since_s = None
                yield from self._records(where, answer)

    def _move(self, where: Partition) -> None:
        """Moves the position of a partition to the `Start` of the command, with a warning. Called
        if the position is outside the log, because retention or a deletion has removed the record
        at this position."""
        position = self.positions[where]
        self.positions.update(self._first([where], self._start))
        output.warn(
            f"offset {position} of {where[0]}:{where[1]} no longer exists;"
            f" continuing at offset {self.positions[where]}"
        )

    def _find_leaders_again(self, where: Partition, code: int) -> None:
        now_s = clock.monotonic_s()
        self._failing_since_s = self._failing_since_s or now_s
        if now_s - self._failing_since_s > self.cluster.timeout_s:
            raise refused(f"{where[0]}:{where[1]}", code)
        clock.sleep(RETRY_S)
        found = self.cluster.leaders(sorted({topic for topic, _ in self.leaders}))
        self.leaders = {key: found.get(key, old) for key, old in self.leaders.items()}

    def _records(self, where: Partition, answer: Value) -> Iterator[Read]:
        """Yields the records in a Fetch response from the position on. Records of aborted
        transactions are omitted."""
        data = bytes(answer["records"] or b"")
        aborted = deque(
            sorted(
                (each["first_offset"], each["producer_id"])
                for each in answer["aborted_transactions"] or ()
                if self.isolation == READ_COMMITTED
            )
        )
        dead: set[int] = set()
        end = None if self.ends is None else self.ends[where]
        for header, _ in iter_stored(data, partial=True):
            while aborted and aborted[0][0] <= header.last_offset:
                dead.add(aborted.popleft()[1])
            if header.is_control:
                dead.discard(header.producer_id)  # the marker ends the producer's transaction
            elif not (header.is_transactional and header.producer_id in dead):
                for record in records_of(where, data, header):
                    if end is not None and record.offset >= end:
                        self.positions[where] = max(self.positions[where], end)
                        return
                    if record.offset >= self.positions[where]:
                        yield where, record
            self.positions[where] = max(self.positions[where], header.last_offset + 1)

    # ------------------------------------------------------------------------ the last records

    def newest(self, number: int) -> list[Read]:
        """Returns the newest ``number`` records of all partitions together, ordered by timestamp.
        Moves the positions to the log end offsets.

        Some offsets have no record, because of compaction or transactions. A partition that
        returned too few records is therefore read again from an earlier offset.
        """
        bounds = bounds_of(self.cluster, self.leaders)
        ends = offsets_at(self.cluster, self.leaders, LATEST, self.isolation)
        found: dict[Partition, deque[Record]] = {}
        back, left = number, [key for key in ends if key in bounds]
        while left:
            begin = {key: max(bounds[key].start, ends[key] - back) for key in left}
            found.update(self._between(begin, ends, number))
            left = [
                key for key in left if len(found[key]) < number and begin[key] > bounds[key].start
            ]
            back *= 8
        self.positions = ends
        reads = [(where, record) for where, records in found.items() for record in records]
        order = heapq.nlargest(number, reads, key=_by_time)
        return sorted(order, key=_by_time)

    def _between(
        self, begin: Mapping[Partition, int], ends: Mapping[Partition, int], number: int
    ) -> dict[Partition, deque[Record]]:
        """Reads each partition from its offset in ``begin`` to its offset in ``ends``. Returns the
        last ``number`` records of each partition."""
        kept: dict[Partition, deque[Record]] = {key: deque(maxlen=number) for key in begin}
        self.positions, self.ends = dict(begin), dict(ends)
        while not self.ended:
            for where, record in self.poll():
                kept[where].append(record)
                self.passed(where, record)
        self.ends = None
        return kept

    def close(self, commit: bool) -> None:
        """If ``commit`` is True, commits the positions. Then leaves the group and closes the
        connections."""
        if self.member is not None and self.member.member_id:
            if commit:
                self.member.commit(self.positions)
            self.member.leave()
        self.cluster.close()


def records_of(where: Partition, data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yields the records of one batch. Raises CommandError if the batch is damaged."""
    try:
        validate_stored(data, header)
        yield from stored_records(data, header)
    except CorruptRecords as error:
        batch = f"{where[0]}:{where[1]}: the batch at offset {header.base_offset}"
        raise CommandError(f"{batch} can't be read: {error}") from None


def _by_time(read: Read) -> tuple[int, Partition, int]:
    where, record = read
    return record.timestamp, where, record.offset
