"""One shard with the log of its partition: accepted, appended and stable records.

Three log offsets, each at or above the next: *accepted* (replayed in memory; offsets are reserved,
since the shard is the only appender of its partition), *appended* (written to the log) and *stable*
(the partition's high watermark). A reply carries the accepted offset of the moment it was made and
waits in the partition's queue until that is stable (law 2).
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
"""Records of several requests in one batch at most: up to here offset deltas are varints of two
bytes, which are written and read as tables, 20 times as fast as one by one."""


class Phase(Enum):
    """The phase of a shard, which decides what it can do."""

    LOADING = "loading"
    ACTIVE = "active"
    UNWRITABLE = "unwritable"
    """Loaded after a failed append, or made ready once more: it serves reads, and refuses calls
    that need a record."""
    FAILED = "failed"
    """Its log can't be read: it refuses all calls until the process restarts, and leaves the log as
    it is."""
    UNLOADED = "unloaded"


LOADED = (Phase.ACTIVE, Phase.UNWRITABLE)
"""The phases in which a shard has its groups in memory."""


Foreign = tuple[Callable[[], AppendInfo], "Future[AppendInfo]"]
"""An append of another writer to a shard's log, and the future of its result."""


class NotActive(Exception):
    """The shard does not serve now and accepts no foreign records; the text is the reason."""


class HostedShard(Generic[CoreT]):
    """A core, the log of its partition, and the records between the two."""

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
        """The number of partitions of the topic, from which a key's own follows."""
        self.errors = errors or InternalErrors()
        self.core = core
        self.kind = kind
        self._encode = kind.encode
        self._own_batches = kind.own_batches
        self._note_producer = kind.note_producer
        self._long_runs = kind.long_runs
        long_kinds = () if kind.long_runs is None else (kind.long_runs.kind,)
        self._not_plain = frozenset((*long_kinds, *kind.own_batches))
        self.partition = partition
        """The log's partition, whose high watermark is the stable offset."""
        self.log = partition.log
        self.producers = AcceptedProducers(partition.log.producers)
        """The producer states of its log, including accepted records."""
        self._batch: Callable[[bytes, int, int, int, int], bytes] = assemble_batch
        """Makes a batch from its section, count, first offset and two times."""
        self._form = PLAIN_FORM
        self._magic = MAGIC
        self.phase = Phase.LOADING
        self.leader_epoch = 0
        """The leader epoch of its batches: begun, and on the disk where its kind asks for that."""
        self.accepted = self.appended = 0
        self.foreign: list[Foreign] = []
        """Appends of other writers at the end of the turn."""
        self.renews = False
        """At the end of the turn its duties make it ready to serve once more."""
        self.touched = False
        """In the runtime's list for the end of this turn."""
        self.breakdowns = 0
        """How many bugs have ended its shard, the last few in quick succession."""
        self.broke_down_ms = 0
        """The monotonic time of the last one."""
        self.pass_over: PassOver | None = None
        """The records that a load skips."""
        self.load_ms = -1
        """Milliseconds of the last load; -1 before its end."""
        self.loaded_records = 0
        """Records read by the load, without those that a snapshot replaced."""
        self.loaded_bytes = 0
        self.loaded_from = -1
        """The log offset at which the last load's snapshot begins; -1: the whole log
        was replayed."""
        self.loaded_to = -1
        """The log offset that the load has reached; -1 before its start."""
        self._units: list[Sequence[Run]] = []
        """The runs accepted and not yet appended, those of one request together."""
        self._has_own = False
        """Whether any of the runs needs a batch of its own; it is a unit of its own too."""
        self.reset(core)

    def write_as(
        self,
        compression: int,
        level: int | None,
        timestamp_type: int,
        magic: int = MAGIC,
        encode: Callable[[Run, int], bytes] | None = None,
    ) -> None:
        """Sets the form of later batches. Each has the time of its append, for either type of
        timestamp; ``level`` is None for the codec's default, ``encode`` for the kind's.
        """
        attributes = LOG_APPEND_BIT if timestamp_type == LOG_APPEND_TIME else 0
        self._form = BatchForm(compression, level, attributes)
        self._magic = magic
        self._encode = self.kind.encode if encode is None else encode
        self._make_batches()

    def write_in_epoch(self) -> None:
        """Later batches have the partition's leader epoch."""
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
        """Replays ``records`` and keeps them for the end of the turn."""
        accepted = self.accepted
        replay = self.core.replay
        not_plain = self._not_plain
        for run in records:
            if type(run) in not_plain:
                self._accept_each(records)
                return
        for run in records:
            replay(run, accepted)
            accepted += len(run)
        self.accepted = accepted
        self._units.append(records)

    def _accept_each(self, records: Sequence[Run]) -> None:
        """`accept` for runs among which some are long or need batches of their own."""
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
        """Writes the accepted runs: as few batches as fit, one write unless a segment ends.

        Returns the number of bytes. Raises the log's exceptions when a write fails; ``appended`` is
        then the end of the written records.
        """
        units, self._units = self._units, []
        if len(units) == 1 and len(units[0]) == 1 and not self._has_own:
            run = units[0][0]  # as a turn with one request has it
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
        """The batches of units, each with its record count, and the header of a batch that a run
        has for itself.

        Units before and after such a run are not merged: the log keeps the order of the calls.
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
        """A reader that loads the current core."""
        return self.kind.reader(self.core, self.index, self.partitions, self.pass_over)

    @property
    def place(self) -> tuple[int, int]:
        """Its partition and the number of partitions."""
        return self.index, self.partitions

    def refuse_foreign(self) -> None:
        """Refuses the appends of other writers that wait."""
        foreign, self.foreign = self.foreign, []
        reason = f"The {self.kind.things} of this partition are {self.phase.value}"
        reason += "." if self.log.unreadable is None else f": {self.log.unreadable}"
        for _, done in foreign:
            if not done.done():
                done.set_exception(NotActive(reason))

    def drop_unwritten(self, error: Exception) -> None:
        """Drops records that were accepted and not appended: their replies become errors."""
        self._units.clear()
        self._has_own = False
        self.producers.clear()
        self.accepted = self.appended
        self.partition.fail_unwritten(error)

    def reset(self, core: CoreT) -> None:
        """A fresh core for another load; `drop_unwritten` has emptied the rest."""
        self.core = core
        self.phase = Phase.LOADING
        self.renews = False
        self.write_in_epoch()
        self.accepted = self.appended = self.log.log_end_offset

    def _sections(
        self, units: Sequence[Sequence[Run]], batch_bytes_max: int
    ) -> list[tuple[bytes, int]]:
        """Records sections of batches with their counts; the runs of one unit stay together."""
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
        """The records of one request: their parts, their size, and the delta after them."""
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
