"""ShareFetch (78): a member of a share group acquires records, and acknowledges records that it
acquired before (KIP-932).

Versions: v1 has max_records and batch_size; v2 adds the acquire mode and acknowledgements of type
renew (KIP-1206, KIP-1222). Version 0 was an early access that Kafka 4.3.1 does not serve either.

The handler authorizes the group and the named topics before it checks the session. Before each read
of the logs, it authorizes all topics of the session. It applies the acknowledgements before it
acquires records, and sends the response when the acknowledgements are stored. A request waits for
records as a Fetch does; it also waits for records that other members release. Records are acquired
only while the client is connected and its session is open.

A client above its fetch quota gets its response first and is throttled afterwards. Kafka sends an
empty response instead, but that would leave the acquired records locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from broker.apis.share_fetch import READ_GROUP, READ_TOPIC
from broker.apis.share_fetch.acquiring import (
    Acquiring,
    Disconnected,
    Limits,
)
from broker.apis.share_fetch.response import ShareFetched
from broker.apis.shared.authorization import TEXTS, denied, is_allowed
from broker.apis.shared.current_leader import LED_ELSEWHERE, CurrentLeaders
from broker.apis.shared.share_acknowledgements import (
    Asked,
    ShareAcknowledgements,
    close_session,
)
from broker.loop.slices import Slices
from broker.net.request import Request
from broker.share.partitions import Code
from broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Place,
    ShareSession,
    ShareSessionError,
)
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    SHARE_SESSION_LIMIT_REACHED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.generated.share_fetch import DECODE_REQUEST, ENCODE_RESPONSE

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

ENCODED_AT_ONCE = 200
"""Responses with at most this number of partitions are encoded by the event loop's thread, which
takes up to 1 ms. Another thread encodes larger responses."""
MEMBER_ID_MAX = 36
"""The maximum length of a member id in characters, as in ShareGroupHeartbeat and in Kafka. The
limit bounds memory, because the broker keeps the ids of all sessions."""
_MODES = (0, 1)


def handle(services: Services, request: Request) -> None:
    decoded = request.context or DECODE_REQUEST[request.api_version](
        request.buffer, request.position
    )
    request.answer_later(ShareFetching(services, request, decoded).run())


class ShareFetching:
    """Handles one ShareFetch request."""

    def __init__(self, services: Services, request: Request, decoded: Any) -> None:
        assert services.share_partitions is not None
        assert services.share_sessions is not None
        (
            self.group_id,
            self.member_id,
            self.epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            mode,
            self.is_renew,
            self.topics,
            forgotten,
        ) = decoded
        self.services = services
        self.partitions = services.share_partitions
        self.sessions = services.share_sessions
        self.request = request
        self.are_limits_set = any((max_wait_ms, min_bytes, max_bytes, max_records))
        max_bytes = request.fetched_at_most(min(max_bytes, services.config["fetch.max.bytes"]))
        min_bytes = min(min_bytes, max_bytes)
        self.limits = Limits(max_wait_ms, min_bytes, max_bytes, max_records, batch_size, mode)
        self.forgotten = [(topic, index) for topic, indexes in forgotten for index in indexes]
        self.asked: list[Asked] = [
            (topic, index, batches)
            for topic, partitions in self.topics
            for index, batches in partitions
            if batches
        ]
        """The acknowledgements of the request."""

    async def run(self) -> None:
        """Handles the request and sends the response, unless the client disconnects."""
        slices = self.services.slicer.work("ShareFetch")
        try:
            error_code = self._error()
            if error_code:
                self._refuse(error_code)
                return
            refused = await self._refused(slices)
            session = await self._session(slices)
            await self._answer(slices, session, refused)
        except ShareSessionError as error:
            if not self.request.connection.closed:
                self._refuse(error.error_code)
        except Disconnected:
            pass
        finally:
            slices.end()

    # -- checks

    def _error(self) -> int:
        """Returns the error code of a request that is refused because of its group, its fields or
        its limits; NONE if the request must be checked against its share session next."""
        if not is_allowed(self.services, self.request, READ_GROUP, self.group_id or ""):
            return GROUP_AUTHORIZATION_FAILED
        if not self.group_id or not 0 < len(self.member_id or "") <= MEMBER_ID_MAX:
            return INVALID_REQUEST
        if self.limits.mode not in _MODES:
            return INVALID_REQUEST
        if self.is_renew and self.are_limits_set:
            return INVALID_REQUEST
        return INVALID_REQUEST if self.epoch == INITIAL_EPOCH and self.asked else NONE

    async def _refused(self, slices: Slices) -> Set[str]:
        registry = self.services.registry
        names = [registry.topic_name(topic_id) for topic_id, _ in self.topics]
        refused: Set[str] = await slices.through(
            denied(self.services, self.request, READ_TOPIC, names)
        )
        return refused

    async def _session(self, slices: Slices) -> ShareSession:
        """Opens or continues the session of the request. Raises ShareSessionError."""
        connection = self.request.connection
        who = self.group_id, self.member_id, connection.principal, connection
        if self.epoch == INITIAL_EPOCH:
            key = self.group_id, self.member_id
            await self.partitions.releases.until_stored(slices, key)
        if connection.closed:
            raise Disconnected  # the end of the connection would not end the session
        if self.epoch != INITIAL_EPOCH:
            return self.sessions.resume(*who, self.epoch)
        try:
            session = self.sessions.open(*who)
        except ShareSessionError as error:
            if error.error_code == SHARE_SESSION_LIMIT_REACHED and self.limits.max_wait_ms > 0:
                await self._wait_or_disconnect(slices)
            raise
        connection.on_close[self.sessions.connection_closed] = None
        return session

    async def _wait_or_disconnect(self, slices: Slices) -> None:
        """Delays the response to a refused request by max_wait_ms, because the client would repeat
        the request at once. A disconnect ends the delay."""
        disconnected = asyncio.Event()
        self.request.on_disconnect = disconnected.set
        if not self.request.connection.closed:
            await slices.wait_for(disconnected.wait(), self.limits.max_wait_ms / 1000)
        self.request.on_disconnect = None

    # -- the answer

    async def _answer(self, slices: Slices, session: ShareSession, refused: Set[str]) -> None:
        services, request = self.services, self.request
        errors = self._update(session, refused)
        acknowledgements = ShareAcknowledgements(
            services, session.group_id, session.member_id, is_renew=self.is_renew
        )
        await acknowledgements.apply(slices, self.asked, refused)
        acquiring = Acquiring(services, request, session, self.limits)
        if self.epoch == FINAL_EPOCH:
            await close_session(services, slices, session)
        elif not self.is_renew:
            await self._acquire(slices, acquiring)
            errors |= acquiring.errors
        results = await acknowledgements.results(slices)
        if not request.connection.closed:
            await self._respond(slices, errors, acquiring.acquired, results)

    async def _acquire(self, slices: Slices, acquiring: Acquiring) -> None:
        """Acquires records.

        Raises ShareSessionError if the share session ends while the request waits for records. If
        the request also had acknowledgements, returns normally instead: they were already applied,
        and the response must have their results.
        """
        try:
            await acquiring.run(slices)
        except ShareSessionError:
            if not self.asked:
                raise

    def _update(self, session: ShareSession, refused: Set[str]) -> dict[Place, Code]:
        """Adds the partitions of the request to the session. Returns the errors of partitions that
        are denied or do not exist; the session does not keep these partitions, because a client
        could invent any number of them. Raises ShareSessionError."""
        registry = self.services.registry
        errors: dict[Place, Code] = {}
        added: list[Place] = []
        for topic_id, partitions in self.topics:
            topic = registry.topic_by_id(topic_id)
            for index, _ in partitions:
                if topic is None:
                    errors[topic_id, index] = UNKNOWN_TOPIC_ID, None
                elif topic.name in refused:
                    code = TOPIC_AUTHORIZATION_FAILED
                    errors[topic_id, index] = code, TEXTS[code]
                elif not 0 <= index < topic.partitions:
                    errors[topic_id, index] = UNKNOWN_TOPIC_OR_PARTITION, None
                else:
                    added.append((topic_id, index))
        if self.epoch != FINAL_EPOCH:
            self.sessions.update(session, added, self.forgotten)
        return errors

    # -- the response

    async def _respond(
        self,
        slices: Slices,
        errors: Mapping[Place, Code],
        acquired: Mapping[Place, ShareFetched],
        results: Mapping[Place, Code],
    ) -> None:
        topics: dict[bytes, list[ShareFetched]] = {}
        worst, partitions = NONE, 0
        leaders = CurrentLeaders(self.services, self.request)
        for place in self._places(errors, acquired, results):
            topic_id, index = place
            entry = acquired.get(place) or ShareFetched(index)
            if place in errors:
                entry.error_code, entry.error_message = errors[place]
            if place in results:
                entry.acknowledge_error_code, entry.acknowledge_error_message = results[place]
            worst = worst or entry.error_code or entry.acknowledge_error_code
            if {entry.error_code, entry.acknowledge_error_code} & LED_ELSEWHERE:
                entry.leader_id, entry.leader_epoch = leaders.of(*place)
            topics.setdefault(topic_id, []).append(entry)
            partitions += 1
            if slices.over:
                await slices.pause()
        self._count(topics)
        request = self.request
        settings = self.partitions.settings_of(self.group_id)

        def frame() -> list[Any]:
            encode = ENCODE_RESPONSE[request.api_version]
            lock_ms = settings.limits.lock_duration_ms
            return encode(
                request.correlation_id,
                0,
                NONE,
                None,
                lock_ms,
                topics.items(),
                list(leaders.endpoints.values()),
            )

        if partitions <= ENCODED_AT_ONCE:
            request.complete(frame(), worst)
        else:
            work = self.services.worker.run(request.connection, frame)
            request.complete(await slices.beside(work), worst)

    def _places(self, *parts: Mapping[Place, Any]) -> Iterator[Place]:
        """Yields each partition of the response once."""
        seen: dict[Place, None] = {}
        for part in parts:
            seen |= dict.fromkeys(part)
        return iter(seen)

    def _count(self, topics: Mapping[bytes, list[ShareFetched]]) -> None:
        registry, logs = self.services.registry, self.services.logs.topics
        for topic_id, entries in topics.items():
            name = registry.topic_name(topic_id)
            if name in logs:
                logs[name].bytes_out += sum([entry.size_bytes for entry in entries])

    def _refuse(self, error_code: int) -> None:
        request, encode = self.request, ENCODE_RESPONSE[self.request.api_version]
        text = TEXTS.get(error_code)
        frame = encode(request.correlation_id, 0, error_code, text, 0, ())
        request.complete(frame, error_code)
