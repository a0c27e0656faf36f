"""Fetch (1): returns records of partitions, at once or when there are enough bytes.

Versions: v0 and v1 get message sets of magic 0, v2 and v3 of magic 1. v1 adds the throttle time; v3
a bound on the whole response; v4 the isolation level, and batches of magic 2; v5 log start offsets;
v7 sessions (KIP-227); v9 fencing by leader epoch. v10 is sent by clients that know zstd; its
response is that of v9. v11 adds the rack; v12 is flexible and adds the last fetched epoch; v13 has
topic ids; v15 has the replica's state in place of its id. v16 adds the endpoints of other leaders,
which Muster never sends. v17 and v18 are for replicas.

A follower reads up to the log end offset. Each of its Fetch requests reports how far it has read.

The handler first authorizes the sender's role as a follower: a Fetch that falsely claims to come
from a broker does not affect a session. Before each read of the logs, the handler authorizes all
topics, including those of the session. A session opens only with the response, so that a denied
request opens none.

The first batch of a response is complete whatever its size, so that every reader makes progress. A
response without enough bytes waits for appends until max_wait_ms. It does not wait if its records
are in an older segment than the log end, since appends could not lengthen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING

from broker.apis.fetch.answer import Answer
from broker.apis.fetch.reading import DenyingReader, Done, Elsewhere, Look, Reader
from broker.apis.fetch.response import Fetched
from broker.apis.fetch.sessions import (
    CONSUMER,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSessionError,
    Owner,
    ReplicaSession,
    Session,
    TopicKey,
    Wanted,
)
from broker.apis.shared.authorization import are_known, denied, is_allowed
from broker.apis.shared.inter_broker_listener import comes_from_broker
from broker.loop.slices import Slices
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import HandlerAcl, Rights, cluster_action
from broker.topics.long_poll import Waiter
from protocol.errors import FETCH_SESSION_ID_NOT_FOUND
from protocol.generated.fetch import DECODE_REQUEST, ENCODE_RESPONSE, Forgotten, Topic
from protocol.messages.fetch import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

ENCODED_AT_ONCE = 200
"""The maximum number of partitions in a response that the event loop's thread encodes, in 1 ms.
Another thread encodes larger responses."""
_FIRST_WITH_SESSIONS, _FIRST_WITH_IDS = 7, 13
_LOOKS_PER_CLOCK = 32
"""The number of partitions that are read between two checks of the clock. This takes about 1 ms."""


def _handle(services: Services, request: Request) -> None:
    try:
        fetch = Fetching(services, request)
    except FetchSessionError as error:
        encode, code = ENCODE_RESPONSE[request.api_version], error.error_code
        request.complete(encode(request.correlation_id, 0, code, NO_SESSION, ()), code)
        return
    fetch.begin()


class Fetching:
    """One Fetch request, from its first read of the logs to its response."""

    def __init__(self, services: Services, request: Request) -> None:
        """Raises FetchSessionError if the request does not match its fetch session."""
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
        self.reader = Reader(services, version, isolation_level == 1, replica_id)
        self.is_denied = False
        """True if every topic is denied. The request then creates no fetch session."""
        if replica_id >= 0:
            self.reader.is_client = not comes_from_broker(services, request)
            may_follow = is_allowed(services, request, FOLLOW)
            self.is_denied = self.reader.is_client or not may_follow
            if not self.is_denied:
                request.exempt()
        max_bytes = min(max_bytes, services.config["fetch.max.bytes"])
        self.max_bytes = request.fetched_at_most(max_bytes)
        self.min_bytes = min(min_bytes, self.max_bytes)
        self._opens: type[Session] | None = None
        """The class of the session that the response opens; None if it opens no session."""
        self.wanted = self._wanted(session_id, session_epoch, topics, forgotten)
        self.waiter: Waiter | None = None
        self.due = False
        """True when the wait for more bytes has ended, so that a response must be sent."""
        self.looking = False
        """True while a read of the logs continues in slices."""
        self.again = False
        """True if records were appended during a read in slices. The logs are then read again."""

    def _wanted(
        self,
        session_id: int,
        epoch: int,
        topics: Iterable[Topic],
        forgotten: Iterable[Forgotten],
    ) -> Sequence[Wanted]:
        """Returns the partitions to read. Raises FetchSessionError."""
        wanted = [
            Wanted(topic, partition, offset, max_bytes, leader_epoch, last_epoch)
            for topic, partitions in topics
            for partition, leader_epoch, offset, last_epoch, _, max_bytes in partitions
        ]
        is_full = epoch in (FINAL_EPOCH, INITIAL_EPOCH)
        if self.is_denied:
            if not is_full:
                raise FetchSessionError(FETCH_SESSION_ID_NOT_FOUND)
            return wanted
        sessions = self.services.fetch_sessions
        if is_full:
            if session_id != NO_SESSION:
                sessions.close(session_id, self._owner)
            if epoch == INITIAL_EPOCH and self.request.api_version >= _FIRST_WITH_SESSIONS:
                # a replica that waits for any change, not for a number of bytes
                follows = self.reader.replica_id >= 0 and self.min_bytes <= 1
                self._opens = ReplicaSession if follows else Session
            return wanted
        now_ms = self.services.time.now().mono_ms
        session = sessions.resume(
            session_id,
            self._owner,
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

    @property
    def _owner(self) -> Owner:
        replica_id = self.reader.replica_id
        return self.request.connection.principal, replica_id if replica_id >= 0 else CONSUMER

    # -- reading

    def begin(self) -> None:
        """Authorizes and reads the partitions. Then responds, or waits for more bytes."""
        session = self.reader.replica
        if session is not None:
            self.wanted = session.due()
        if self.waiter is not None:
            self.reader.takes_position = False
        judging = self._judge() if self.services.authorizer.judges else None
        if judging is not None and (
            len(self.wanted) > ENCODED_AT_ONCE or not self._judged_at_once(judging)
        ):
            self._look_later(judging, None, None)
            return
        look = Look(self.reader, self.wanted, self.max_bytes)
        if look.left > ENCODED_AT_ONCE:
            self._look_later(None, look, None)
            return
        try:
            if look.left <= _LOOKS_PER_CLOCK:  # the usual case
                while look.left:
                    look.step()
            else:
                self._look_at_once(look)
        except Elsewhere as found:
            self._look_later(None, look, found)
            return
        if look.left:
            self._look_later(None, look, None)
            return
        missing = self._missing(look)
        if missing > 0:
            self._wait_for(missing)
            return
        answer = self._answer(look.found)
        for _ in answer.steps():
            pass
        answer.send(self.services)

    def _judge(self) -> Steps | None:
        """Denies topics that may not be read. Returns the remaining steps; None if none remain."""
        services, request = self.services, self.request
        topics = [wanted.topic for wanted in self.wanted]
        if self.reader.replica_id >= 0:
            # Checked again: the right may have been revoked while the request waited.
            if not is_allowed(services, request, FOLLOW, is_logged=False):
                self._deny(frozenset(topics))
            return None
        names = [self._name_of(topic) for topic in dict.fromkeys(topics)]
        if are_known(services, request, READ, names):
            return None
        return self._judge_each(topics)

    def _judge_each(self, topics: Sequence[TopicKey]) -> Steps:
        names = map(self._name_of, topics)
        refused = yield from denied(self.services, self.request, READ, names)
        self._deny({topic for topic in topics if self._name_of(topic) in refused})

    def _name_of(self, topic: TopicKey) -> str | None:
        return self.services.registry.topic_name(topic) if isinstance(topic, bytes) else topic

    def _deny(self, topics: Set[TopicKey]) -> None:
        """Sets the response for these topics to TOPIC_AUTHORIZATION_FAILED."""
        if topics:
            self.reader = DenyingReader(self.reader, topics)
            self.is_denied = all(wanted.topic in topics for wanted in self.wanted)

    def _judged_at_once(self, judging: Steps) -> bool:
        """Runs ``judging`` until it ends or the turn has no time left. Returns True if it ended."""
        slicer = self.services.slicer
        until_ns, ticks_ns = slicer.direct_until_ns(), slicer.time.ticks_ns
        return ticks_ns() < until_ns and all(ticks_ns() < until_ns for _ in judging)

    def _look_at_once(self, look: Look) -> None:
        """Reads the logs of as many partitions as this turn's time allows. Raises Elsewhere."""
        slicer = self.services.slicer
        until_ns, ticks_ns = slicer.direct_until_ns(), slicer.time.ticks_ns
        while look.left and ticks_ns() < until_ns:
            for _ in range(min(look.left, _LOOKS_PER_CLOCK)):
                look.step()

    def _look_later(
        self, judging: Steps | None, look: Look | None, elsewhere: Elsewhere | None
    ) -> None:
        """Starts a task that completes ``judging`` (authorization) and then the read ``look``."""
        if self.waiter is None and self.max_wait_ms > 0:
            self._wait()  # records appended during the read must be noticed
        self.looking = True
        self.again = False
        self.request.answer_later(self._go_on(judging, look, elsewhere))

    async def _go_on(
        self, judging: Steps | None, look: Look | None, elsewhere: Elsewhere | None
    ) -> None:
        """Authorizes, reads and responds in slices. A thread reads records that are not in the page
        cache."""
        slices = self.services.slicer.work("Fetch")
        try:
            await slices.pause()
            if judging is not None:
                await slices.through(judging)
            if look is None:
                look = Look(self.reader, self.wanted, self.max_bytes)
            await self._look_on(slices, look, elsewhere)
            if self.request.connection.closed:
                self._forget()
                return
            self.looking = False
            missing = self._missing(look)
            if missing <= 0:
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
        """Runs ``elsewhere.job`` in another thread. Returns its result or exception."""
        try:
            if elsewhere.reads:
                result = await self.services.disk_reads.read(elsewhere.job)
            else:
                client = self.request.connection
                result = await self.services.worker.run(client, elsewhere.job)
        except Exception as error:  # noqa: BLE001 - raised again where it is handled
            result = error
        return Done(elsewhere.partition, result)

    async def _answer_on(self, slices: Slices, answer: Answer) -> None:
        await slices.through(answer.steps())
        frame = None
        if answer.partitions > ENCODED_AT_ONCE:
            client = self.request.connection
            frame = await slices.beside(self.services.worker.run(client, answer.frame))
        answer.send(self.services, frame)

    def _missing(self, look: Look) -> int:
        """Returns how many bytes the response lacks up to min_bytes; 0 or less if the response must
        be sent now."""
        found = look.found
        if self.due or self.max_wait_ms <= 0 or not (found or self.reader.replica):
            return 0
        if any(entry.error_code or entry.diverging or entry.more_follows for entry in found):
            return 0
        missing_bytes: int = self.min_bytes - look.size_bytes
        return missing_bytes

    # -- waiting

    def _wait(self) -> None:
        self.request.park()
        self.request.on_disconnect = self._forget
        partitions = [
            (name, entry.partition) for entry in self.wanted if (name := self._name_of(entry.topic))
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

    def _answer(self, found: list[Fetched]) -> Answer:
        """Ends the wait, opens the session if one was requested, and returns the response."""
        if self.waiter is not None or self.reader.replica is not None:
            self._forget()
        replica_id = self.reader.replica_id
        if self._opens is not None and self.wanted and not self.is_denied:
            now_ms = self.services.time.now().mono_ms
            self.session = self.services.fetch_sessions.create(
                self._owner, self.wanted, self.uses_ids, now_ms, self._opens
            )
        return Answer(
            self.request, self.session, self.is_incremental, self.wanted, found, replica_id
        )


READ = HandlerAcl(Operation.READ, ResourceType.TOPIC, "each topic, checked in every request")
FOLLOW = cluster_action("from brokers")
RIGHTS = Rights(own=(READ, FOLLOW))
SERVED = ServedApi(API, 0, 18, _handle, decoders=DECODE_REQUEST, rights=RIGHTS)
