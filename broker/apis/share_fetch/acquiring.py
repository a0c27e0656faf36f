"""Acquires records for one ShareFetch: reads the logs, and waits while there are too few records.

While a request reads the log of a share partition, it locks the share partition, so that no other
request acquires the same records. Records are acquired in the same turn in which the last read
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.apis.share_fetch import READ_GROUP, READ_TOPIC
from broker.apis.share_fetch.reading import (
    Reading,
    aborted_ranges,
    chunk,
    read_batches,
)
from broker.apis.share_fetch.response import ShareFetched
from broker.apis.shared.authorization import TEXTS, denied, is_allowed
from broker.loop.slices import Slices
from broker.net.request import Request
from broker.share.live_partition import LivePartition
from broker.share.partitions import Code
from broker.share.sessions import Place, ShareSession, ShareSessionError
from broker.topics.long_poll import Waiter
from log.errors import CorruptLog, NotInMemory, OffsetOutOfRange
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    SHARE_SESSION_NOT_FOUND,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
)
from share.partition.values import FetchedRecords

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

logger = structlog.get_logger(__name__)


class Limits(NamedTuple):
    """The limits of a ShareFetch: how much it acquires, and how long it waits."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: int


class Disconnected(Exception):
    """Raised when the client has disconnected; its request gets no response."""


class Acquiring:
    """The acquisition of records for one ShareFetch request."""

    def __init__(
        self, services: Services, request: Request, session: ShareSession, limits: Limits
    ) -> None:
        assert services.share_partitions is not None
        assert services.share_sessions is not None
        self._services = services
        self._partitions = services.share_partitions
        self._sessions = services.share_sessions
        self._request = request
        self._session = session
        self._limits = limits
        self._settings = self._partitions.settings_of(session.group_id)
        self.errors: dict[Place, Code] = {}
        """The error of each share partition that can't be read."""
        self.acquired: dict[Place, ShareFetched] = {}
        """The response entries of the share partitions from which records were acquired."""
        self._lives: dict[Place, LivePartition] = {}
        self._waiter: Waiter | None = None
        self._woken: asyncio.Future[None] | None = None
        self._is_due = limits.max_wait_ms <= 0
        """True when the wait has ended: the response then has the records that are available."""
        self._is_stale = False
        """True if the logs must be read again, because new records may have become available after
        the last read had begun."""

    async def run(self, slices: Slices) -> None:
        """Acquires records, or waits for them until max_wait_ms.

        Raises ShareSessionError if the session ends during the wait. Raises Disconnected.
        """
        if self._limits.max_records <= 0:
            return
        try:
            while not await self._is_answered(slices):
                await self._wait(slices)
        finally:
            self._forget()

    async def _is_answered(self, slices: Slices) -> bool:
        """Reads the logs once, and acquires records if there are enough. Returns True if the
        response must be sent now."""
        self._is_stale = False
        await self._authorize(slices)
        await self._find(slices)
        if not self._lives:
            return True
        readings: list[Reading] = []
        try:
            await self._read(slices, readings)
            self._check()
            enough = sum([reading.batches.size_bytes for reading in readings])
            if readings and (self._is_due or enough >= self._limits.min_bytes):
                self._acquire(readings)
        finally:
            for reading in readings:
                self._unlock(reading.live)
        return bool(self.acquired) or self._is_due or not self._lives

    def _check(self) -> None:
        """Raises Disconnected if the client has disconnected, and ShareSessionError if its session
        has ended."""
        if self._request.connection.closed:
            raise Disconnected
        if not self._sessions.is_open(self._session):
            raise ShareSessionError(SHARE_SESSION_NOT_FOUND)

    # -- finding the share partitions

    async def _authorize(self, slices: Slices) -> None:
        """Sorts the topics of the session into topics to read and refused topics (denied or
        deleted).

        The permissions may have changed while the request waited. Raises ShareSessionError if the
        client may no longer read the group.
        """
        if not is_allowed(self._services, self._request, READ_GROUP, self._session.group_id):
            raise ShareSessionError(GROUP_AUTHORIZATION_FAILED)
        registry = self._services.registry
        topic_ids = dict.fromkeys([topic_id for topic_id, _ in self._session.partitions])
        names = {topic_id: registry.topic_name(topic_id) for topic_id in topic_ids}
        refused = await slices.through(
            denied(self._services, self._request, READ_TOPIC, names.values())
        )
        self._names: dict[bytes, str] = {}
        self._refused: dict[bytes, Code] = {}
        for topic_id, name in names.items():
            if name is None:
                self._refused[topic_id] = UNKNOWN_TOPIC_ID, None
            elif name in refused:
                code = TOPIC_AUTHORIZATION_FAILED
                self._refused[topic_id] = code, TEXTS[code]
            else:
                self._names[topic_id] = name

    async def _find(self, slices: Slices) -> None:
        """Finds the share partitions of the session, and starts to load those that are not
        loaded."""
        for place in list(self._session.partitions):
            topic_id, index = place
            live = self._lives.get(place)
            if topic_id in self._refused:
                self._give_up(place, self._refused[topic_id])
            elif place in self.errors:
                continue
            elif live is not None and live.error_code:
                self._give_up(place, (live.error_code, live.error_message))
            elif live is None or live.is_dropped:
                found = self._partitions.get(
                    self._session.group_id, topic_id, self._names[topic_id], index
                )
                if isinstance(found, int):
                    self._give_up(place, (found, None))
                else:
                    self._watch(place, found)
            if slices.over:
                await self._pause(slices)

    def _give_up(self, place: Place, error: Code) -> None:
        self.errors[place] = error
        live = self._lives.pop(place, None)
        if live is not None and self._waiter is not None:
            live.waiting.pop(self._waiter, None)

    def _watch(self, place: Place, live: LivePartition) -> None:
        earlier = self._lives.get(place)
        self._lives[place] = live
        if self._waiter is not None:
            if earlier is not None:
                earlier.waiting.pop(self._waiter, None)
            live.waiting[self._waiter] = None

    async def _pause(self, slices: Slices) -> None:
        self._may_miss()
        await slices.pause()

    def _may_miss(self) -> None:
        """If the request has no waiter, notes that it may miss new records, because the broker
        reports new records only to waiters."""
        if self._waiter is None:
            self._is_stale = True

    # -- reading and acquiring

    async def _read(self, slices: Slices, readings: list[Reading]) -> None:
        """Locks and reads share partitions that have records to acquire, until a limit of the
        request is reached."""
        limits = self._limits
        size_bytes = records = 0
        for place in list(self._session.partitions):
            live = self._lives.get(place)
            if live is not None and size_bytes < limits.max_bytes and records < limits.max_records:
                room = limits.max_bytes - size_bytes, limits.max_records - records
                reading = await self._read_one(slices, place, live, room, not readings)
                if reading is not None:
                    readings.append(reading)
                    size_bytes += reading.batches.size_bytes
                    records += reading.batches.headers[-1].last_offset - reading.offset + 1
            if slices.over:
                await self._pause(slices)

    async def _read_one(
        self,
        slices: Slices,
        place: Place,
        live: LivePartition,
        room: tuple[int, int],
        is_first: bool,
    ) -> Reading | None:
        """Locks a share partition and reads its log. Returns None, without a lock, if there is
        nothing to acquire. ``room`` is the maximum number of bytes and of records to read."""
        if live.is_reading:
            live.is_contended = True
            self._may_miss()
            return None
        if live.share is None or live.is_dropped:
            return None
        live.follow_log_start()
        live.configure(self._settings.limits)
        if not live.share.can_acquire():
            return None
        committed = self._settings.read_committed
        partition = live.partition
        end = partition.last_stable_offset if committed else partition.high_watermark
        offset = live.share.next_fetch_offset()
        if offset >= end:
            return None
        live.is_reading = True
        reading = None
        try:
            job = partial(
                read_batches,
                partition.log,
                offset,
                room[0],
                is_first,
                end,
                live.share.last_wanted(offset, room[1]),
            )
            try:
                batches = job(False)
            except NotInMemory:
                self._may_miss()
                future = self._services.disk_reads.read(partial(job, True))
                await slices.until(future)
                batches = future.result()
            if batches is not None:
                aborted: Sequence[tuple[int, int]] = ()
                if committed:
                    found = partition.log.aborted_in(batches.info, offset, end)
                    aborted = aborted_ranges(batches.headers, found) if found else ()
                reading = Reading(live, offset, batches, aborted)
        except OffsetOutOfRange:
            pass  # the records were deleted during the read
        except (CorruptLog, OSError) as error:
            logger.error("log can't be read", partition=partition.name, why=str(error))
            self._give_up(place, (KAFKA_STORAGE_ERROR, None))
        finally:
            if reading is None:
                self._unlock(live)
        return reading

    def _unlock(self, live: LivePartition) -> None:
        live.is_reading = False
        if live.is_contended:
            live.is_contended = False
            live.wake(self._services.long_polls)

    def _acquire(self, readings: Sequence[Reading]) -> None:
        """Acquires records for the member; called in the turn in which the last read ended."""
        limits, member_id = self._limits, self._session.member_id
        now = self._services.time.now()
        left = limits.max_records
        for live, offset, batches, aborted in readings:
            if live.is_dropped or left <= 0:
                continue
            fetched = FetchedRecords(offset, batches.fetched(offset), aborted)
            ranges = live.ready.acquire(
                member_id, fetched, left, max(1, limits.batch_size), limits.mode, now
            )
            self._partitions.arm(live)
            if not ranges:
                # Only aborted records: the next look begins after them.
                self._is_stale |= live.ready.next_fetch_offset() != offset
                continue
            left -= sum([each.last_offset - each.first_offset + 1 for each in ranges])
            piece = batches.piece(ranges[0].first_offset, ranges[-1].last_offset)
            place = live.key.topic_id, live.key.partition
            self.acquired[place] = ShareFetched(
                live.key.partition,
                records=[chunk(piece)],
                size_bytes=piece.length,
                acquired=ranges,
            )
            self._session.gave_records(place)

    # -- waiting

    async def _wait(self, slices: Slices) -> None:
        """Waits until records may be available, or until max_wait_ms is over."""
        if self._waiter is None:
            self._begin_to_wait()
        if self._is_stale:
            await slices.pause()
            return
        assert self._waiter is not None
        self._woken = asyncio.get_running_loop().create_future()
        self._waiter.missing_bytes = 1
        await slices.until(self._woken)
        self._woken = None
        self._check()

    def _begin_to_wait(self) -> None:
        services = self._services
        deadline_ms = services.long_polls.until_ms(self._limits.max_wait_ms)
        places = [(live.partition.topic, live.partition.index) for live in self._lives.values()]
        waiter = self._waiter = Waiter(
            places, deadline_ms, 1, self._wake, committed=self._settings.read_committed
        )
        services.long_polls.wait(waiter)
        for live in self._lives.values():
            live.waiting[waiter] = None
        self._session.on_end = self._request.on_disconnect = self._ended

    def _wake(self, is_due: bool) -> None:
        self._is_due = self._is_due or is_due
        self._ended()

    def _ended(self) -> None:
        self._is_stale = True
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _forget(self) -> None:
        if self._waiter is not None:
            self._services.long_polls.forget(self._waiter)
            for live in self._lives.values():
                live.waiting.pop(self._waiter, None)
        self._session.on_end = self._request.on_disconnect = None
