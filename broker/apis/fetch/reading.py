"""Reads the logs once for a Fetch: in the order of partitions, up to the request's byte limits, and
converted for old clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import structlog

from broker.apis.fetch.old_form import Converted, old_form
from broker.apis.fetch.response import Fetched, refused
from broker.apis.fetch.sessions import ReplicaSession, TopicKey, Wanted
from broker.apis.shared.any_replica import error_at
from broker.net.request import Chunk
from broker.topics.partition import Partition
from broker.topics.registry import absent_error
from broker.topics.replicas.replica_of import replica_of
from broker.topics.topic_logs import TopicLogs
from log.errors import CorruptLog, NotInMemory, OffsetOutOfRange
from log.partition_log import PartitionLog
from log.values import ReadInfo, Slice
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
)

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.topics.replicas.replica import Replica

logger = structlog.get_logger(__name__)

_FIRST_WITH_MAGIC_1 = 2
_FIRST_WITH_MAGIC_2 = 4
_FIRST_WITH_STORAGE_ERROR = 6
CONVERTED_BYTES_MAX = 1 << 20
"""The maximum number of bytes that are converted to an old format for one response; a record takes
10 us. If a request allows a larger response, the read starts at a random partition of the request,
so that repeated requests reach every partition."""
READ_AT_ONCE = 64 * 1024
"""The maximum number of bytes that a response copies from files into memory. For copied records,
the response needs no open file until it is sent."""
FILES_MAX = 32
"""The maximum number of file slices that a response keeps open until it is sent. Further partitions
return their records in the next response."""


NO_NEWS = Fetched(-1)
"""The result for a partition of a fetch session that has nothing new for the client. The response
omits this partition."""


class Elsewhere(Exception):
    """Raised by `Look.step` instead of reading the next partition in the event loop. A thread must
    run ``job``, since it waits for the disk or takes long.

    The caller runs the job and passes its result or exception to the next call of `Look.step`.
    """

    def __init__(self, partition: Partition, job: Callable[[], Any], reads: bool = True) -> None:
        super().__init__(partition.name)
        self.partition = partition
        self.job = job
        self.reads = reads
        """True if the job waits for the disk; False if it only computes."""


class Done(NamedTuple):
    """The result of a job that a thread has run."""

    partition: Partition
    result: Any
    """The result that the job returned, or the exception that it raised."""


class Look:
    """Reads the logs once for a Fetch request. Each call of ``step`` reads one partition. ``left``
    is the number of partitions that are not read yet."""

    def __init__(self, reader: Reader, wanted: Sequence[Wanted], max_bytes: int) -> None:
        self._reader = reader
        self._wanted = wanted
        self._turn = 0
        """The index in ``wanted`` of the partition that is read first."""
        if reader.version < _FIRST_WITH_MAGIC_2 and max_bytes > CONVERTED_BYTES_MAX and wanted:
            self._turn = reader.services.time.chance.randrange(len(wanted))
            max_bytes = CONVERTED_BYTES_MAX
        self._max_bytes = max_bytes
        self.found: list[Fetched] = []
        """The results of the partitions read so far. When ``left`` is 0, the results are complete
        and in the order of ``wanted``."""
        self.size_bytes = 0
        """The number of bytes of the records found so far."""
        self.left = len(wanted)
        """The number of partitions that are not read yet."""
        self._read_bytes = 0
        """The number of bytes of records that have been copied into memory."""
        self._files = 0
        """The number of file slices in the results. The slices keep files open until the response
        is sent."""

    def step(self, done: Done | None = None) -> None:
        """Reads the next partition.

        Raises Elsewhere if a thread must read the partition. The caller then runs the job of the
        exception in a thread, and calls `step` again with the result in ``done``. The second call
        continues with the same partition.
        """
        index = self._turn + len(self.found)
        if index >= len(self._wanted):
            index -= len(self._wanted)
        room = self._max_bytes - self.size_bytes if self._files < FILES_MAX else 0
        first = self.size_bytes == 0
        fetched = self._reader.partition(self._wanted[index], room, first, done)
        size = fetched.size_bytes
        if size:
            self.size_bytes += size
            records: list[Chunk] | None = None
            if size <= READ_AT_ONCE - self._read_bytes:
                records = _in_memory(fetched.records)
            if records is None:
                self._files += sum([isinstance(chunk, Slice) for chunk in fetched.records])
            else:
                fetched.records = records
                self._read_bytes += size
        self.found.append(fetched)
        self.left -= 1
        if not self.left and self._turn:
            turn = self._turn
            self.found = [*self.found[-turn:], *self.found[:-turn]]


class Reader:
    """Reads the logs for one Fetch request. A request that waits for more bytes reads several
    times."""

    def __init__(
        self, services: Services, version: int, read_committed: bool, replica_id: int
    ) -> None:
        self.services = services
        self.version = version
        self.read_committed = read_committed
        self.replica_id = replica_id
        """The broker id of the follower that sends the fetch; negative for a consumer."""
        self.is_client = False
        """True if the request has a replica id, as a follower's request has, but did not arrive on
        the inter-broker listener. Such a request comes from a client."""
        self.only_news = False
        """True in an incremental session: the response contains only partitions that have changed.
        """
        self.replica: ReplicaSession | None = None
        """The fetch session of the follower that sent the request; None for a consumer. Unchanged
        partitions of the session are skipped."""
        self.takes_position = True
        """True during the first read of a request, which stores the requested offset as the
        follower's position. Later reads of the request store no position, since the follower may
        have failed after it sent the request."""

    def partition(self, wanted: Wanted, room: int, first: bool, done: Done | None) -> Fetched:
        """Returns the result of one partition, with at most ``room`` bytes of records. If ``first``
        is True, the result has at least one whole batch, even if the batch is larger.

        Raises Elsewhere if a thread must do the read. The caller then runs the job of the exception
        in a thread, and passes the result as ``done`` to the next call for the same partition.
        """
        if isinstance(wanted.topic, bytes):
            name = self.services.registry.topic_name(wanted.topic)
            if name is None:
                return refused(wanted.partition, UNKNOWN_TOPIC_ID)
        else:
            name = wanted.topic
        topic = self.services.logs.topics.get(name)
        partition = None if topic is None else topic.partition(wanted.partition)
        if topic is None or partition is None:
            error_code = absent_error(self.services.registry, name, wanted.partition)
            return refused(wanted.partition, error_code)
        error_code = partition.serving_error(wanted.current_leader_epoch)
        if error_code:
            error_code = error_at(partition, error_code, self.replica_id)
        if error_code:
            return Fetched(wanted.partition, self._known(error_code))
        if self.replica_id >= 0:
            known = self._for_follower(replica_of(partition), wanted)
            if known is not None:
                return known
        elif (
            self.only_news
            and wanted.high_watermark == partition.high_watermark
            and wanted.log_start_offset == partition.log.log_start_offset
            and wanted.last_fetched_epoch < 0
            and wanted.fetch_offset
            == (partition.last_stable_offset if self.read_committed else wanted.high_watermark)
        ):
            return NO_NEWS
        if done is not None and done.partition is not partition:
            done = None  # the topic was recreated
        try:
            return self._read(topic, partition, wanted, room, first, done)
        except (CorruptLog, OSError) as error:
            logger.error("log can't be read", partition=partition.name, why=str(error))
            return Fetched(wanted.partition, self._known(KAFKA_STORAGE_ERROR))

    def _known(self, error_code: int) -> int:
        """Returns ``error_code``, but replaces KAFKA_STORAGE_ERROR by NOT_LEADER_OR_FOLLOWER in
        versions before 6.

        Clients of these versions do not know KAFKA_STORAGE_ERROR, and would not search for another
        leader.
        """
        if error_code == KAFKA_STORAGE_ERROR and self.version < _FIRST_WITH_STORAGE_ERROR:
            return NOT_LEADER_OR_FOLLOWER
        return error_code

    def _for_follower(self, partition: Replica | None, wanted: Wanted) -> Fetched | None:
        """Returns the result for a follower that is refused, or that has all records. Returns None
        if the log must be read.

        ``partition`` is None on a standalone broker, which has no followers.
        """
        if partition is None:
            return Fetched(wanted.partition, NOT_LEADER_OR_FOLLOWER)
        if self.is_client:
            return refused(wanted.partition, TOPIC_AUTHORIZATION_FAILED)
        error_code = partition.follower_error(self.replica_id)
        if error_code:
            return Fetched(wanted.partition, error_code)
        log = partition.log
        if (
            self.only_news
            and wanted.high_watermark == partition.high_watermark
            and wanted.log_start_offset == log.log_start_offset
            and wanted.fetch_offset == log.log_end_offset
            and wanted.last_fetched_epoch in (-1, log.epochs.latest)
        ):
            if self.takes_position:
                partition.follower_fetched(self.replica_id, wanted.fetch_offset)
            session = self.replica
            if (
                session is not None
                and partition.led is not None
                and wanted.high_watermark == partition.high_watermark  # may have risen just now
                and partition.quiet.add(partition.led, self.replica_id, session, wanted)
            ):
                session.quiet(wanted)
            return NO_NEWS
        return None

    def _holds_back(self, partition: Replica) -> bool:
        """Returns True if the leader must not send records to this follower now: the follower is
        not in the ISR, and replication exceeds the leader's quota."""
        led = partition.led
        if led is None or self.replica_id in led.state.isr:
            return False
        return partition.quotas.leader.holds_back(partition.topic, partition.index)

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
            epoch, end = log.epochs.end_offset_for(wanted.last_fetched_epoch, partition.epoch_end)
            if epoch < 0 or wanted.fetch_offset < log.log_start_offset:
                return Fetched(partition.index, OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                return self._fetched(partition, diverging=(epoch, end))
        if self.replica_id >= 0 and log.log_start_offset <= wanted.fetch_offset:
            replica = replica_of(partition)
            assert replica is not None
            if self.takes_position and wanted.fetch_offset <= log.log_end_offset:
                replica.follower_fetched(self.replica_id, wanted.fetch_offset)
            if self._holds_back(replica):
                return self._fetched(partition)
        limit, offset = max(0, min(room, wanted.max_bytes)), wanted.fetch_offset
        if done is not None and offset < log.log_start_offset:
            done = None  # the records were deleted
        if self.read_committed:
            end = partition.last_stable_offset
        else:
            end = partition.high_watermark if self.replica_id < 0 else log.log_end_offset
        try:
            if done is None:
                info = log.read(offset, limit, first, end, wait=False)
            elif isinstance(done.result, Converted):
                return self._converted(partition, offset, end, done.result)
            elif isinstance(done.result, Exception):
                raise done.result
            else:
                info = done.result
        except NotInMemory:
            raise Elsewhere(partition, partial(log.read, offset, limit, first, end)) from None
        except OffsetOutOfRange:
            return Fetched(partition.index, OFFSET_OUT_OF_RANGE)
        if not info.slices or info.first_entry_incomplete:
            return self._fetched(partition)
        if self.version < _FIRST_WITH_MAGIC_2:
            self._convert(topic, partition, info, end, offset, limit)
        fetched = self._fetched(partition)
        if self.read_committed:
            fetched.aborted_transactions = log.aborted_in(info, offset, fetched.last_stable_offset)
        fetched.records = list(info.slices)
        fetched.size_bytes = sum([piece.length for piece in info.slices])
        fetched.more_follows = offset < log.segments.active.base_offset and _more_follows(
            log, offset, end
        )
        return fetched

    def _fetched(self, partition: Partition, diverging: tuple[int, int] | None = None) -> Fetched:
        """Returns a successful result without records."""
        return Fetched(
            partition.index,
            NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            () if self.read_committed else None,
            diverging=diverging,
        )

    def _convert(
        self,
        topic: TopicLogs,
        partition: Partition,
        info: ReadInfo,
        end: int,
        offset: int,
        limit: int,
    ) -> NoReturn:
        """Raises Elsewhere with the job that converts the records for an old client."""
        job = partial(
            old_form,
            partition,
            info,
            end,
            int(self.version >= _FIRST_WITH_MAGIC_1),
            offset,
            limit,
            may_convert=topic.settings["message.downconversion.enable"],
        )
        raise Elsewhere(partition, job, reads=False)

    def _converted(
        self, partition: Partition, offset: int, end: int, converted: Converted
    ) -> Fetched:
        self.services.metrics.fetch_conversions += converted.records
        if converted.error_code:
            return refused(partition.index, converted.error_code)
        fetched = self._fetched(partition)
        if converted.data:
            fetched.records = [converted.data]
            fetched.size_bytes = len(converted.data)
            fetched.more_follows = _more_follows(partition.log, offset, end)
        return fetched


class DenyingReader(Reader):
    """A reader that returns TOPIC_AUTHORIZATION_FAILED for denied topics."""

    def __init__(self, reader: Reader, denied: Set[TopicKey]) -> None:
        self.__dict__.update(reader.__dict__)
        self._denied = denied

    def partition(self, wanted: Wanted, room: int, first: bool, done: Done | None) -> Fetched:
        if wanted.topic in self._denied:
            return refused(wanted.partition, TOPIC_AUTHORIZATION_FAILED)
        return super().partition(wanted, room, first, done)


def _more_follows(log: PartitionLog, offset: int, end: int) -> bool:
    """Returns True if the offset ``end`` is in a later segment than the offset ``offset``. Kafka's
    DelayedFetch.tryComplete has the same check (case F)."""
    segments = log.segments
    return segments.at(end).base_offset > segments.at(offset).base_offset


def _in_memory(records: Sequence[Chunk]) -> list[Chunk] | None:
    """Returns the contents of ``records`` as bytes in memory. Returns None if the bytes of a chunk
    are not all in the page cache."""
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
