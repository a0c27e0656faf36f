"""Fetch (1): records of partitions, at once or when there are enough of them.

v0 and v1 get message sets of magic 0, v2 and v3 of magic 1; v1 throttle time; v3 a bound on the
whole answer; v4 isolation level, and batches of magic 2; v5 log start offsets; v7 sessions
(KIP-227); v9 fencing by leader epoch; v10 zstd; v11 rack; v12 flexible, last fetched epoch; v13
topic ids; v15 the replica's state in place of its id; v16 other leaders (never here); v17 and v18
are for replicas. Another replica reads to the log's end, and tells by each Fetch how far it is.

The first batch of an answer is whole however large it is, so that every reader makes progress. An
answer without enough bytes waits for appends until max_wait_ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from broker.apis.among_brokers import comes_from_broker
from broker.apis.fetch.reading import NO_NEWS, Done, Elsewhere, Look, Reader
from broker.apis.fetch.response import Fetched, fetch_frame
from broker.apis.fetch.rights import RIGHTS
from broker.apis.fetch.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSessionError,
    ReplicaSession,
    Session,
    TopicKey,
    Wanted,
)
from broker.loop.slices import Slices
from broker.net.request import Chunk, Handler, Request, ServedApi
from broker.topics.long_poll import Waiter
from broker.topics.replica_of import replica_of
from broker.topics.topic_logs import TopicLogs
from protocol.errors import NONE
from protocol.generated.fetch import DECODE_REQUEST, Forgotten, Topic
from protocol.messages.fetch import API

if TYPE_CHECKING:
    from broker.apis.services import Services

AT_ONCE = 200
"""So many partitions are looked at in one piece: 2 ms."""
_FIRST_WITH_IDS = 13


def handler_of(make: Callable[[Services, Request], Any]) -> Handler:
    """What handles a request; ``make`` makes its work, a `Fetching` or what begins like one."""

    def handle(services: Services, request: Request) -> None:
        try:
            fetch = make(services, request)
        except FetchSessionError as error:
            version, code = request.api_version, error.error_code
            frame = fetch_frame(version, request.correlation_id, code, NO_SESSION, ())
            request.complete(frame, code)
            return
        fetch.begin()

    return handle


class Fetching:
    """One request, from its first read of the logs to its answer."""

    def __init__(self, services: Services, request: Request) -> None:
        version = request.api_version
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten,
            _,
        ) = request.context or DECODE_REQUEST[version](request.buffer, request.position)
        self.services = services
        self.request = request
        self.max_wait_ms = max_wait_ms
        self.uses_ids = version >= _FIRST_WITH_IDS
        self.session: Session | None = None
        self.is_incremental = False
        self.max_bytes = min(max_bytes, services.config["fetch.max.bytes"])
        self.min_bytes = min(min_bytes, self.max_bytes)
        self.reader = Reader(services, version, isolation_level == 1, replica_id)
        if replica_id >= 0:
            self.reader.is_client = not comes_from_broker(services, request)
        self.wanted = self._wanted(session_id, session_epoch, topics, forgotten)
        self.waiter: Waiter | None = None
        self.due = False
        """The time to wait is over: what is there is answered."""
        self.looking = False
        """A look goes on in slices."""
        self.again = False
        """Something came meanwhile."""

    def _wanted(
        self,
        session_id: int,
        epoch: int,
        topics: Iterable[Topic],
        forgotten: Iterable[Forgotten],
    ) -> Sequence[Wanted]:
        """What is to be read, by the request or by its session. Raises FetchSessionError."""
        sessions = self.services.fetch_sessions
        now_ms = self.services.time.now().mono_ms
        wanted = [
            Wanted(topic, partition, offset, max_bytes, leader_epoch, last_epoch)
            for topic, partitions in topics
            for partition, leader_epoch, offset, last_epoch, _, max_bytes in partitions
        ]
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION:
                sessions.close(session_id)
            if epoch == INITIAL_EPOCH and self.request.api_version >= 7 and wanted:
                told = self.reader.replica_id >= 0 and self.min_bytes <= 1  # of whatever comes
                kind = ReplicaSession if told else Session
                self.session = sessions.create(wanted, self.uses_ids, now_ms, kind)
            return wanted
        session = sessions.resume(
            session_id,
            epoch,
            wanted,
            ((topic, partition) for topic, partitions in forgotten for partition in partitions),
            self.uses_ids,
            now_ms,
        )
        if session is None:
            return wanted
        self.session = session
        self.is_incremental = self.reader.only_news = True
        if isinstance(session, ReplicaSession):
            session.look_through(now_ms)
            session.wake = self._stirred
            self.reader.replica = session
            return ()
        return list(session.partitions.values())

    # -- looking

    def begin(self) -> None:
        """Looks at the logs; answers, or waits for more."""
        session = self.reader.replica
        if session is not None:
            self.wanted = session.due()
        if self.waiter is not None:
            self.reader.takes_position = False
        look = Look(self.reader, self.wanted, self.max_bytes)
        elsewhere = None
        if look.left <= AT_ONCE:
            try:
                while look.left:
                    look.step()
            except Elsewhere as found:
                elsewhere = found
            else:
                self._looked(look)
                return
        if self.waiter is None and self.max_wait_ms > 0:
            self._wait()  # what is appended behind the look's back must not be missed
        self.looking = True
        self.again = False
        self.request.answer_later(self._go_on(look, elsewhere))

    def _looked(self, look: Look) -> None:
        """Answers at once what was found at once, or waits."""
        missing = self._missing(look)
        if missing > 0:
            self._wait_for(missing)
            return
        self._forget()
        answer = self._answer(look.found)
        for _ in answer.steps():
            pass
        answer.send(self.services)

    async def _go_on(self, look: Look, elsewhere: Elsewhere | None) -> None:
        """Looks and answers in slices; reads in a thread what is not in memory."""
        slices = self.services.slicer.work("Fetch")
        try:
            await slices.pause()
            await self._look_on(slices, look, elsewhere)
            if self.request.connection.closed:
                self._forget()
                return
            self.looking = False
            missing = self._missing(look)
            if missing <= 0:
                self._forget()
                await self._answer_on(slices, self._answer(look.found))
            elif self.again:
                self.begin()
            else:
                self._wait_for(missing)
        except BaseException:
            self._forget()
            raise
        finally:
            slices.end()

    async def _look_on(self, slices: Slices, look: Look, elsewhere: Elsewhere | None) -> None:
        while look.left and not self.request.connection.closed:
            done = None
            if elsewhere is not None:
                done = await slices.beside(self._done(elsewhere))
                elsewhere = None
            try:
                look.step(done)
            except Elsewhere as found:
                elsewhere = found
            if slices.over:
                await slices.pause()

    async def _done(self, elsewhere: Elsewhere) -> Done:
        """What comes of a job, in the thread for its kind."""
        try:
            if elsewhere.reads:
                result = await self.services.disk_reads.read(elsewhere.job)
            else:
                client = self.request.connection
                result = await self.services.worker.run(client, elsewhere.job)
        except Exception as error:  # noqa: BLE001 - raised again where it is handled
            result = error
        return Done(elsewhere.partition, result)

    async def _answer_on(self, slices: Slices, answer: _Answer) -> None:
        await slices.through(answer.steps())
        frame = None
        if answer.partitions > AT_ONCE:
            client = self.request.connection
            frame = await slices.beside(self.services.worker.run(client, answer.frame))
        answer.send(self.services, frame)

    def _missing(self, look: Look) -> int:
        """How many bytes must still come; 0 or less where there is to be an answer now."""
        found = look.found
        if self.due or self.max_wait_ms <= 0 or not (found or self.reader.replica):
            return 0
        if any(entry.error_code or entry.diverging for entry in found):
            return 0
        missing_bytes: int = self.min_bytes - look.size_bytes
        return missing_bytes

    # -- waiting

    def _wait(self) -> None:
        self.request.park()
        self.request.on_disconnect = self._forget
        names = self.services.registry
        partitions = [
            (name, entry.partition)
            for entry in self.wanted
            if (
                name := names.topic_name(entry.topic)
                if isinstance(entry.topic, bytes)
                else entry.topic
            )
        ]
        deadline_ms = self.services.long_polls.until_ms(self.max_wait_ms)
        committed = self.reader.read_committed
        to_end = self.reader.replica_id >= 0
        self.waiter = Waiter(partitions, deadline_ms, 1, self._woken, committed, to_end)
        self.services.long_polls.wait(self.waiter)

    def _wait_for(self, missing_bytes: int) -> None:
        if self.waiter is None:
            self._wait()
        assert self.waiter is not None
        self.waiter.missing_bytes = missing_bytes

    def _stirred(self) -> None:
        if self.waiter is not None:
            self.services.long_polls.wake(self.waiter)

    def _woken(self, due: bool) -> None:
        self.due = self.due or due
        if self.looking:
            self.again = True
            return
        try:
            self.begin()
        except Exception:  # noqa: BLE001 - logged, with its traceback
            self._forget()
            self.request.fail()

    def _forget(self) -> None:
        session = self.reader.replica
        if session is not None and session.wake == self._stirred:
            session.wake = None
        if self.waiter is not None:
            self.services.long_polls.forget(self.waiter)

    def _answer(self, found: list[Fetched]) -> _Answer:
        replica_id = self.reader.replica_id
        return _Answer(
            self.request, self.session, self.is_incremental, self.wanted, found, replica_id
        )


class _Answer:
    """The answer: everything that was found, or in a session what has changed."""

    def __init__(
        self,
        request: Request,
        session: Session | None,
        is_incremental: bool,
        wanted: Sequence[Wanted],
        found: Sequence[Fetched],
        replica_id: int,
    ) -> None:
        """``replica_id`` is the broker to which it goes, which is no consumer; else -1."""
        self.partitions = 0
        """How many partitions are in the answer."""
        self._replica_id = replica_id
        self._request = request
        self._session = session
        self._is_incremental = is_incremental
        self._wanted = wanted
        self._found = found
        self._topics: dict[TopicKey, list[Fetched]] = {}
        self._worst = NONE

    def steps(self) -> Iterator[None]:
        """Gathers the answer, partition by partition."""
        session = self._session
        for wanted, entry in zip(self._wanted, self._found, strict=True):
            if entry is NO_NEWS:
                yield
                continue
            self._worst = self._worst or entry.error_code
            if session is None or _is_news(wanted, entry) or not self._is_incremental:
                self._topics.setdefault(wanted.topic, []).append(entry)
                self.partitions += 1
            if session is not None and entry.size_bytes:
                session.gave_data(wanted.key)
            yield

    def frame(self) -> list[Chunk]:
        """The answer's frame; in any thread."""
        session_id = NO_SESSION if self._session is None else self._session.session_id
        request = self._request
        topics = list(self._topics.items())
        return fetch_frame(request.api_version, request.correlation_id, NONE, session_id, topics)

    def send(self, services: Services, frame: list[Chunk] | None = None) -> None:
        """Ends the request, with ``frame`` if that has been made."""
        if self._replica_id >= 0:
            self._count_replicated(services)
        else:
            self._count(services)
        self._request.complete(self.frame() if frame is None else frame, self._worst)

    def _count(self, services: Services) -> None:
        for key, entries in self._topics.items():
            size_bytes = sum([entry.size_bytes for entry in entries])
            if size_bytes and (topic := _topic(services, key)) is not None:
                topic.bytes_out += size_bytes

    def _count_replicated(self, services: Services) -> None:
        for key, entries in self._topics.items():
            topic = _topic(services, key)
            for entry in entries:
                partition = None if topic is None else topic.partition(entry.partition)
                replica = replica_of(partition)
                if replica is not None:
                    replica.quotas.leader.count(replica.topic, replica.index, entry.size_bytes)
                    replica.totals.given(replica.state, self._replica_id, entry.size_bytes)


def _topic(services: Services, key: TopicKey) -> TopicLogs | None:
    name = services.registry.topic_name(key) if isinstance(key, bytes) else key
    return None if name is None else services.logs.topics.get(name)


def _is_news(wanted: Wanted, entry: Fetched) -> bool:
    """Whether an incremental answer must have this partition; remembers what it has."""
    news = (
        entry.size_bytes > 0
        or entry.error_code != NONE
        or entry.diverging is not None
        or entry.high_watermark != wanted.high_watermark
        or entry.log_start_offset != wanted.log_start_offset
    )
    # After an error the next answer has the partition as soon as the error is gone.
    wanted.high_watermark = -1 if entry.error_code else entry.high_watermark
    wanted.log_start_offset = entry.log_start_offset
    return news


SERVED = ServedApi(API, 0, 18, handler_of(Fetching), decoders=DECODE_REQUEST, rights=RIGHTS)
