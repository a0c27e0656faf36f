"""One shard with the log of its partition: its accepted, appended and stable records.

A shard has three log offsets, of which each is at most as high as the one before: *accepted*,
*appended* and *stable*. Records before *accepted* are replayed in memory; their offsets are
reserved, since the shard is the only writer of its partition. Records before *appended* are in the
log. *Stable* is the partition's high watermark. A reply has the accepted offset of the time when it
was made. It waits in the partition's queue until this offset is stable (ARCHITECTURE.md, law 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic

from broker.cores.core import CoreT, Kind, Reader, Run
from broker.cores.pass_over import PassOver
from broker.loop.internal_errors import InternalErrors
from broker.topics.partition import Partition
from log.producers.accepted_producers import AcceptedProducers
from log.values import AppendInfo
from protocol.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_BIT,
    LOG_APPEND_TIME,
    MAGIC,
    PLAIN_FORM,
    BatchForm,
    BatchHeader,
    assemble_batch,
)
from protocol.records.convert import assemble_set

if TYPE_CHECKING:
    from asyncio import Future

BATCH_RECORDS_MAX = 8192
"""The maximum number of records in a batch with several requests.

Up to this number, offset deltas are varints of at most two bytes, which a table encodes and
decodes. This is 20 times as fast as encoding them one by one.
"""


class Phase(Enum):
    """The phase of a shard, which determines the calls that it serves."""

    LOADING = "loading"
    ACTIVE = "active"
    UNWRITABLE = "unwritable"
    """The log accepts no writes, or the shard is being prepared to serve again. The shard serves
    reads, and rejects calls that need a record."""
    FAILED = "failed"
    """The log can't be read. The shard rejects all calls until the process restarts, and does not
    change the log."""
    UNLOADED = "unloaded"


LOADED = (Phase.ACTIVE, Phase.UNWRITABLE)
"""The phases in which the whole state of a shard is in memory."""


Foreign = tuple[Callable[[], AppendInfo], "Future[AppendInfo]"]
"""A function that appends a client's records to a shard's log, and a future that gets the result of
this append."""


class NotActive(Exception):
    """The shard does not serve calls, and accepts no records of clients. The exception's text has
    the reason."""


class HostedShard(Generic[CoreT]):
    """A core, the log of its partition, and accepted records that are not appended yet."""

    def __init__(
        self,
        kind: Kind[CoreT],
        core: CoreT,
        partition: Partition,
        partitions: int,
        errors: InternalErrors | None = None,
    ) -> None:
        self.index = partition.index
        self.partitions = partitions
        """The number of partitions of the topic. The partition of a key depends on this number."""
        self.errors = errors or InternalErrors()
        self.core = core
        self.kind = kind
        self._encode = kind.encode
        self._own_batches = kind.own_batches
        self._note_producer = kind.note_producer
        self._long_runs = kind.long_runs
        self._replays_all = kind.replays_all
        long_kinds = () if kind.long_runs is None else (kind.long_runs.kind,)
        self._not_plain = frozenset((*long_kinds, *kind.own_batches))
        self.partition = partition
        """The partition with the shard's log. Its high watermark is the stable offset."""
        self.log = partition.log
        self.producers = AcceptedProducers(partition.log.producers)
        """The states of producers in the shard's log, including the effect of accepted records."""
        self._batch: Callable[[bytes, int, int, int, int], bytes] = assemble_batch
        """Assembles a batch from encoded records, their number, first offset and timestamps."""
        self._form, self._magic = PLAIN_FORM, MAGIC
        self.phase = Phase.LOADING
        self.leader_epoch = 0
        """The leader epoch that the shard writes into its batches. Some kinds of core require that
        the epoch is also stored on disk."""
        self.accepted = self.appended = 0
        self.foreign: list[Foreign] = []
        """Appends of records that clients produced. They wait until the end of the turn."""
        self.renews = False
        """True if `Runtime.renew` was called in this turn: it takes effect when the turn ends."""
        self.touched = False
        """True if the shard is in the runtime's list of shards with work in this turn."""
        self.breakdowns = 0
        """How many times in a row, at short intervals, an internal error led to a new load."""
        self.broke_down_ms = 0
        """The monotonic time in ms of the last internal error of the shard."""
        self.pass_over: PassOver | None = None
        """The records that a load must skip; None if the load must skip no records."""
        self.load_ms = -1
        """The duration of the last load in ms; -1 until the first load has ended."""
        self.loaded_records = 0
        """The number of records that the load has read from the log so far."""
        self.loaded_bytes = 0
        self.loaded_from = -1
        """The log offset at which the replay after a snapshot begins; -1 without a snapshot."""
        self.loaded_to = -1
        """The log offset that the load has reached; -1 before the load begins."""
        self._units: list[Sequence[Run]] = []
        """The runs that wait for the append, in one sequence for each request."""
        self._has_own = False
        """True if `_units` has a run that needs a batch of its own."""
        self.reset(core)

    def write_as(
        self,
        compression: int,
        level: int | None,
        timestamp_type: int,
        magic: int = MAGIC,
        encode: Callable[[Run, int], bytes] | None = None,
    ) -> None:
        """Sets the format of later batches.

        The timestamp of each batch is the time of its append, for both values of
        ``timestamp_type``. If ``level`` is None, the codec's default level applies. If ``encode``
        is None, the kind's function encodes the runs.
        """
        attributes = LOG_APPEND_BIT if timestamp_type == LOG_APPEND_TIME else 0
        self._form = BatchForm(compression, level, attributes)
        self._magic = magic
        self._encode = self.kind.encode if encode is None else encode
        self._make_batches()

    def write_in_epoch(self) -> None:
        """Sets the leader epoch of later batches to the current leader epoch of the partition."""
        self.leader_epoch = self.partition.leader_epoch
        self._make_batches()

    def _make_batches(self) -> None:
        form, leader_epoch = self._form, self.leader_epoch
        self._batch = assemble_batch
        if self._magic < MAGIC:
            self._batch = partial(assemble_set, magic=self._magic, **form._asdict())
        elif leader_epoch or form != PLAIN_FORM:
            self._batch = partial(assemble_batch, leader_epoch=leader_epoch, **form._asdict())

    def accept(self, records: Sequence[Run]) -> None:
        """Replays runs, and adds them to the runs that are appended at the end of the turn."""
        accepted = self.accepted
        not_plain = self._not_plain
        for run in records:
            if type(run) in not_plain:
                self._accept_each(records)
                return
        if self._replays_all:
            core: Any = self.core
            accepted = core.replay_all(records, accepted)
        else:
            replay = self.core.replay
            for run in records:
                replay(run, accepted)
                accepted += len(run)
        self.accepted = accepted
        self._units.append(records)

    def _accept_each(self, records: Sequence[Run]) -> None:
        """Accepts each run of ``records``. Long runs are split, and some types of runs get a batch
        of their own."""
        long_runs = self._long_runs
        together: list[Run] = []
        for run in records:
            pieces: Sequence[Run] = (run,)
            if type(run) in self._own_batches:
                self._has_own = True
            elif (
                long_runs is not None
                and type(run) is long_runs.kind
                and len(run) > long_runs.records_max
            ):
                pieces = long_runs.pieces(run)
            else:
                together.append(run)
                continue
            self._accept_unit(together)
            together = []
            for piece in pieces:
                self._accept_unit((piece,))
        self._accept_unit(together)

    def _accept_unit(self, unit: Sequence[Run]) -> None:
        for run in unit:
            self.core.replay(run, self.accepted)
            if self._note_producer is not None and type(run) in self._own_batches:
                self._note_producer(self.producers, run, self.accepted)
            self.accepted += len(run)
        if unit:
            self._units.append(unit)

    def append(self, wall_ms: int, batch_bytes_max: int) -> int:
        """Writes the accepted runs in as few batches as possible. One write suffices, unless the
        segment is full.

        Returns the number of bytes. Raises the log's exceptions if a write fails. ``appended`` is
        then the end offset of the records that were written.
        """
        units, self._units = self._units, []
        if len(units) == 1 and len(units[0]) == 1 and not self._has_own:
            run = units[0][0]  # the usual case: a turn with one request
            first, count = self.appended, len(run)
            batch = self._batch(self._encode(run, 0), count, first, wall_ms, wall_ms)
            self.log.append_encoded(batch, first, first + count - 1, wall_ms)
            self.appended = first + count
            return len(batch)
        segment_bytes = self.log.config.segment_bytes
        buffer: list[bytes] = []
        headers: list[BatchHeader] = []
        size = written = 0
        first = offset = self.appended
        for batch, count, header in self._batches(units, wall_ms, batch_bytes_max):
            if buffer and size + len(batch) > segment_bytes:
                self._write(buffer, first, offset - 1, wall_ms, headers)
                written += size
                buffer, headers, size, first = [], [], 0, offset
            buffer.append(batch)
            if header is not None:
                headers.append(header)
            size += len(batch)
            offset += count
        if buffer:
            self._write(buffer, first, offset - 1, wall_ms, headers)
        self.producers.clear()
        return written + size

    def _batches(
        self, units: Sequence[Sequence[Run]], wall_ms: int, batch_bytes_max: int
    ) -> Iterator[tuple[bytes, int, BatchHeader | None]]:
        """Yields batches that contain the runs of ``units``. With each batch, yields its number of
        records, and its header if one run fills the whole batch (`TransactionalRun`, `MarkerRun`).

        Batches never change the order of the runs, so that the log has the order of the calls.
        """
        offset = self.appended
        own = self._own_batches
        stretches = [(False, units)]
        if self._has_own:
            self._has_own = False
            stretches = [
                (alone, list(together))
                for alone, together in groupby(units, lambda unit: type(unit[0]) in own)
            ]
        for alone, stretch in stretches:
            if alone:
                epoch = self.leader_epoch
                for (run,) in stretch:
                    encode = own[type(run)]
                    batch, header = encode(run, self._form, offset, epoch, wall_ms)
                    yield batch, len(run), header
                    offset += len(run)
                continue
            for section, count in self._sections(stretch, batch_bytes_max):
                yield self._batch(section, count, offset, wall_ms, wall_ms), count, None
                offset += count

    def reader(self) -> Reader:
        """Returns a reader that loads the log into the current core."""
        return self.kind.reader(self.core, self.index, self.partitions, self.pass_over)

    @property
    def place(self) -> tuple[int, int]:
        """The index of the partition, and the number of partitions."""
        return self.index, self.partitions

    def refuse_foreign(self) -> None:
        """Rejects all waiting appends of records that clients produced to the shard's log. The
        error says why the shard accepts no records now."""
        foreign, self.foreign = self.foreign, []
        reason = f"The {self.kind.things} of this partition are {self.phase.value}"
        reason += "." if self.log.unreadable is None else f": {self.log.unreadable}"
        for _, done in foreign:
            if not done.done():
                done.set_exception(NotActive(reason))

    def drop_unwritten(self, error: Exception) -> None:
        """Drops accepted records that were not appended. The replies that depend on these records
        become errors."""
        self._units.clear()
        self._has_own = False
        self.producers.clear()
        self.accepted = self.appended
        self.partition.fail_unwritten(error)

    def reset(self, core: CoreT) -> None:
        """Replaces the core by an empty core for another load. Called after `drop_unwritten`."""
        self.core = core
        self.phase = Phase.LOADING
        self.renews = False
        self.write_in_epoch()
        self.accepted = self.appended = self.log.log_end_offset

    def _sections(
        self, units: Sequence[Sequence[Run]], batch_bytes_max: int
    ) -> list[tuple[bytes, int]]:
        """Encodes the runs and divides them into batches. Returns the encoded records of each
        batch, and the number of its records. The runs of one request, an element of ``units``, stay
        in one batch."""
        room = batch_bytes_max - HEADER_BYTES
        sections: list[tuple[bytes, int]] = []
        parts: list[bytes] = []
        size = count = 0
        for unit in units:
            encoded, unit_size, after = self._encoded(unit, count)
            if parts and (size + unit_size > room or after > BATCH_RECORDS_MAX):
                sections.append((b"".join(parts), count))
                parts, size = [], 0
                encoded, unit_size, after = self._encoded(unit, 0)
            parts += encoded
            size += unit_size
            count = after
        if parts:
            sections.append((b"".join(parts), count))
        return sections

    def _encoded(self, unit: Sequence[Run], first_delta: int) -> tuple[list[bytes], int, int]:
        """Encodes the runs of one request. Returns the encoded runs, their total size in bytes, and
        the offset delta of the next record."""
        encode = self._encode
        parts = []
        size = 0
        for run in unit:
            part = encode(run, first_delta)
            parts.append(part)
            size += len(part)
            first_delta += len(run)
        return parts, size, first_delta

    def _write(
        self,
        buffer: list[bytes],
        first: int,
        last: int,
        wall_ms: int,
        headers: Sequence[BatchHeader],
    ) -> None:
        data: Any = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        self.log.append_encoded(data, first, last, wall_ms, headers)
        self.appended = last + 1
