"""Reads the logs once for a Fetch: in order, within its bounds, converted for old clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from broker.apis.fetch.response import Fetched
from broker.apis.fetch.sessions import Wanted
from broker.net.request import Chunk
from broker.topics.partition import Partition
from broker.topics.topic_logs import TopicLogs
from log.batch_scan import headers
from log.cached_file import CachedFile
from log.errors import CorruptLog, NotInMemory, OffsetOutOfRange
from log.values import ReadInfo, Slice
from protocol.errors import (
    CORRUPT_MESSAGE,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
)
from protocol.records.batch import CODEC_BITS
from protocol.records.compression import ZSTD
from protocol.records.convert import down_convert, needs_conversion
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import iter_stored

if TYPE_CHECKING:
    from broker.apis.services import Services

logger = structlog.get_logger(__name__)

_FIRST_WITH_MAGIC_1 = 2
_FIRST_WITH_MAGIC_2 = 4
_FIRST_WITH_ZSTD = 10
CONVERTED_BYTES_MAX = 1 << 20
"""So much of the logs is read for one answer in an old form, which takes the worker 10 us a record.
Where more is asked for, whose turn it is is left to chance."""
LOOKED_THROUGH_AT_ONCE = 64 * 1024
"""The batches of so many bytes are looked through for zstd on the event loop."""
READ_AT_ONCE = 64 * 1024
"""So many bytes of records are read for an answer when they are found; those of many partitions
with little each need no descriptor until the answer is sent."""
FILES_MAX = 32
"""Files that an answer holds open until it is sent; the partitions behind them come next time."""


NO_NEWS = Fetched(-1)
"""What is found of a partition whose session has all of it already: the usual case, and quick."""


class Elsewhere(Exception):
    """What comes next waits for the disk, or takes long: ``job`` does it in a thread.

    What the job returns or raises is then given to `Look.step`, which goes on with it.
    """

    def __init__(self, partition: Partition, job: Callable[[], Any], reads: bool = True) -> None:
        super().__init__(partition.name)
        self.partition = partition
        self.job = job
        self.reads = reads
        """It waits for the disk; else it keeps the processor busy."""


class Done(NamedTuple):
    """What a thread found."""

    partition: Partition
    result: Any
    """An exception where it found one."""


class Look:
    """One pass over the logs, partition by partition; ``step`` until nothing is ``left``."""

    def __init__(self, reader: Reader, wanted: Sequence[Wanted], max_bytes: int) -> None:
        self._reader = reader
        self._wanted = wanted
        self._turn = 0
        """The index of the partition that is read first."""
        if reader.version < _FIRST_WITH_MAGIC_2 and max_bytes > CONVERTED_BYTES_MAX and wanted:
            self._turn = reader.services.time.chance.randrange(len(wanted))
            max_bytes = CONVERTED_BYTES_MAX
        self._max_bytes = max_bytes
        self._found: list[Fetched] = []
        self.size_bytes = 0
        """Bytes of records found so far."""
        self.left = len(wanted)
        """Partitions still to be looked at."""
        self._read_bytes = 0
        """Bytes of records that were read already."""
        self._files = 0
        """Slices of files that were not."""

    def step(self, done: Done | None = None) -> None:
        """Looks at the next partition. Raises Elsewhere: the same one is due again then."""
        index = self._turn + len(self._found)
        if index >= len(self._wanted):
            index -= len(self._wanted)
        room = self._max_bytes - self.size_bytes if self._files < FILES_MAX else 0
        first = self.size_bytes == 0
        fetched = self._reader.partition(self._wanted[index], room, first, done)
        if fetched.size_bytes:
            self.size_bytes += fetched.size_bytes
            self._take(fetched)
        self._found.append(fetched)
        self.left -= 1

    def _take(self, fetched: Fetched) -> None:
        """Reads what is found where it is little; else its files stay open."""
        if fetched.size_bytes <= READ_AT_ONCE - self._read_bytes:
            read = _read_at_once(fetched.records)
            if read is not None:
                fetched.records = read
                self._read_bytes += fetched.size_bytes
                return
        self._files += sum([isinstance(chunk, Slice) for chunk in fetched.records])

    @property
    def found(self) -> list[Fetched]:
        """What there is for each that was wanted, when nothing is left."""
        turn = self._turn
        return [*self._found[-turn:], *self._found[:-turn]] if turn else self._found


class Reader:
    """Reads for one request of ``version``, as often as it looks."""

    def __init__(
        self, services: Services, version: int, read_committed: bool, is_replica: bool
    ) -> None:
        self.services = services
        self.version = version
        self.read_committed = read_committed
        self.is_replica = is_replica
        self.only_news = False
        """A session gets a partition when something has changed, and no other."""

    def partition(self, wanted: Wanted, room: int, first: bool, done: Done | None) -> Fetched:
        """At most ``room`` bytes of one partition, but one whole batch of the ``first``.

        Raises Elsewhere; ``done`` is what came of the last one.
        """
        if isinstance(wanted.topic, bytes):
            name = self.services.registry.topic_name(wanted.topic)
            if name is None:
                return Fetched(wanted.partition, UNKNOWN_TOPIC_ID)
        else:
            name = wanted.topic
        topic = self.services.logs.topics.get(name)
        partition = None if topic is None else topic.partition(wanted.partition)
        if topic is None or partition is None:
            return Fetched(wanted.partition, UNKNOWN_TOPIC_OR_PARTITION)
        if self.is_replica:
            return Fetched(wanted.partition, NOT_LEADER_OR_FOLLOWER)
        error_code = partition.serving_error(wanted.current_leader_epoch)
        if error_code:
            return Fetched(wanted.partition, error_code)
        if (
            self.only_news
            and wanted.high_watermark == partition.high_watermark
            and wanted.log_start_offset == partition.log.log_start_offset
            and wanted.last_fetched_epoch < 0
            and wanted.fetch_offset
            == (partition.last_stable_offset if self.read_committed else wanted.high_watermark)
        ):
            return NO_NEWS
        if done is not None and done.partition is not partition:
            done = None  # the topic was made anew meanwhile
        try:
            return self._read(topic, partition, wanted, room, first, done)
        except (CorruptLog, OSError) as error:
            logger.error("a log can't be read", partition=partition.name, why=str(error))
            return Fetched(wanted.partition, KAFKA_STORAGE_ERROR)

    def _read(
        self,
        topic: TopicLogs,
        partition: Partition,
        wanted: Wanted,
        room: int,
        first: bool,
        done: Done | None,
    ) -> Fetched:
        log = partition.log
        if wanted.last_fetched_epoch >= 0:
            epoch, end = log.epochs.end_offset_for(
                wanted.last_fetched_epoch, partition.high_watermark
            )
            if epoch < 0:
                return Fetched(partition.index, OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                return self._fetched(partition, 0, diverging=(epoch, end))
        limit = max(0, min(room, wanted.max_bytes))
        if done is not None and wanted.fetch_offset < log.log_start_offset:
            done = None  # what was found has been deleted meanwhile
        if done is not None and isinstance(done.result, Converted):
            return self._converted(partition, done.result)
        try:
            info = self._info(partition, wanted.fetch_offset, limit, first, done)
        except OffsetOutOfRange:
            return Fetched(partition.index, OFFSET_OUT_OF_RANGE)
        if not info.slices or info.first_entry_incomplete:
            return self._fetched(partition, 0)
        if self.version < _FIRST_WITH_ZSTD:
            return self._for_old_client(topic, partition, info, wanted.fetch_offset, limit)
        fetched = self._fetched(partition, 0)
        if self.read_committed:
            fetched.aborted_transactions = log.aborted_in(
                info, wanted.fetch_offset, fetched.last_stable_offset
            )
        fetched.records = list(info.slices)
        fetched.size_bytes = info.size_bytes
        return fetched

    def _info(
        self, partition: Partition, offset: int, limit: int, first: bool, done: Done | None
    ) -> ReadInfo:
        """Where the records are. Raises Elsewhere when the disk must be waited for."""
        if done is not None:
            if isinstance(done.result, Exception):
                raise done.result
            found: ReadInfo = done.result
            return found
        stable = partition.last_stable_offset if self.read_committed else partition.high_watermark
        read = partition.log.read
        try:
            return read(offset, limit, first, stable, wait=False)
        except NotInMemory:
            raise Elsewhere(partition, partial(read, offset, limit, first, stable)) from None

    def _fetched(
        self, partition: Partition, error_code: int, diverging: tuple[int, int] | None = None
    ) -> Fetched:
        """The fields other than the records."""
        return Fetched(
            partition.index,
            error_code,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            () if self.read_committed and not error_code else None,
            diverging=diverging,
        )

    def _for_old_client(
        self, topic: TopicLogs, partition: Partition, info: ReadInfo, offset: int, limit: int
    ) -> Fetched:
        """Records for a client that may not know zstd, or not even batches."""
        aborted: Sequence[tuple[int, int]] = ()
        if self.read_committed:
            aborted = partition.log.aborted_in(info, offset, partition.last_stable_offset)
        old = partial(
            _old_form_with,
            aborted,
            partition,
            info,
            None
            if self.version >= _FIRST_WITH_MAGIC_2
            else int(self.version >= _FIRST_WITH_MAGIC_1),
            offset,
            limit,
            may_convert=topic.settings["message.downconversion.enable"],
        )
        if self.version >= _FIRST_WITH_MAGIC_2 and info.size_bytes <= LOOKED_THROUGH_AT_ONCE:
            try:
                return self._converted(partition, old(wait=False))
            except NotInMemory:
                pass
        raise Elsewhere(partition, old, reads=self.version >= _FIRST_WITH_MAGIC_2)

    def _converted(self, partition: Partition, converted: Converted) -> Fetched:
        self.services.metrics.fetch_conversions += converted.records
        fetched = self._fetched(partition, converted.error_code)
        if not converted.error_code:
            if self.read_committed:
                fetched.aborted_transactions = converted.aborted
            fetched.records = converted.chunks
            fetched.size_bytes = sum([_size(chunk) for chunk in converted.chunks])
        return fetched


def _read_at_once(records: Sequence[Chunk]) -> list[Chunk] | None:
    """The same bytes, none of them in a file; None when the disk would be waited for."""
    read: list[Chunk] = []
    for chunk in records:
        if isinstance(chunk, Slice):
            data = chunk.file.read_cached(chunk.position, chunk.length)
            if data is None or len(data) < chunk.length:
                return None
            read.append(data)
        else:
            read.append(chunk)
    return read


class Converted(NamedTuple):
    """Records for an old client, or an error; ``records`` were given an older form."""

    error_code: int
    chunks: Sequence[Chunk] = ()
    records: int = 0
    aborted: Sequence[tuple[int, int]] = ()
    """The transactions among them that were aborted."""


def _old_form_with(aborted: Sequence[tuple[int, int]], *what: Any, **how: Any) -> Converted:
    """`old_form`, and what its reader must know."""
    return old_form(*what, **how)._replace(aborted=aborted)


def old_form(
    partition: Partition,
    info: ReadInfo,
    magic: int | None,
    offset: int,
    limit: int,
    *,
    may_convert: bool,
    wait: bool = True,
) -> Converted:
    """What ``info`` found, without zstd and in ``magic`` at the most, where that is not None.

    Batches without a record for an old client (markers, emptied ones) are passed over: with an
    answer of nothing it would ask for the same offset for ever. In any thread; raises CorruptLog,
    OSError, and unless ``wait`` is set NotInMemory.
    """
    pieces = _before_zstd(info, wait)
    if pieces is None:
        return Converted(UNSUPPORTED_COMPRESSION_TYPE)
    if magic is None:
        return Converted(NONE, list(pieces))
    data = _bytes(pieces)
    if not needs_conversion(data, magic):
        return Converted(NONE, list(pieces))
    if not may_convert:
        return Converted(UNSUPPORTED_VERSION)
    records = 0
    try:
        while True:
            converted = down_convert(data, magic, offset)
            records += converted.records
            if converted.data:
                return Converted(NONE, [converted.data], records)
            last = max(header.last_offset for header, _ in iter_stored(data, partial=True))
            more = partition.log.read(last + 1, limit, max_offset=partition.high_watermark)
            following = _before_zstd(more, wait)
            if not following:
                return Converted(NONE, (), records)
            data = _bytes(following)
    except CorruptRecords as error:
        logger.error("a batch can't be converted", partition=partition.name, why=error.message)
        return Converted(CORRUPT_MESSAGE)


def _before_zstd(info: ReadInfo, wait: bool) -> list[Slice] | None:
    """The entries before the first in zstd, None when it is the very first.

    Their headers are looked at, and their records stay where they are.
    """
    kept: list[Slice] = []
    for piece in info.slices:
        end = piece.position + piece.length
        file = piece.file if wait else CachedFile(piece.file)
        for header in headers(file, piece.position, piece.file.size()):
            if header.position >= end:
                break
            if header.attributes & CODEC_BITS == ZSTD:
                if header.position > piece.position:
                    kept.append(piece._replace(length=header.position - piece.position))
                return kept or None
        kept.append(piece)
    return kept


def _bytes(pieces: Sequence[Slice]) -> bytes:
    return b"".join([piece.file.read(piece.position, piece.length) for piece in pieces])


def _size(chunk: Chunk) -> int:
    return chunk.length if isinstance(chunk, Slice) else len(chunk)
