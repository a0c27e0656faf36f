"""A fetcher: fetches partitions from one leader, over one connection.

A fetcher has one request at a time in flight. In each round it executes the next step of each
partition:

| next step | action | step after it |
|---|---|---|
| CUT | truncates the follower's log to its high watermark | FETCH |
| ASK | asks the leader where the last epoch ended, truncates the log there | FETCH, or ASK again |
| FETCH | fetches the records after the log's end and appends them | FETCH |
| RESET | asks the leader for its log start and end offsets | FETCH |
| WAIT | waits until the controller announces another leader epoch | |

`replication/follower.py` decides the first step, CUT, ASK or FETCH, and the step after an error. A
response is applied to a partition only if the controller has not changed the partition's role since
the request.

While the leader has no new records for the partitions, each request repeats the previous one, and
the fetcher does not check the partitions. It checks all partitions again when the leader or the
controller has sent a change, and at least every `LOOKED_THROUGH_MS`.
"""

from __future__ import annotations

from asyncio import CancelledError, Event, Task
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from broker.cluster.lines import PartitionLines, Trouble
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers.peer import Address, Peer, PeerLost
from broker.cluster.replicas.fetch_messages import (
    FLEXIBLE,
    NEWEST,
    OLDEST,
    WITH_IDS,
    Answered,
    Asked,
    FetchAnswer,
    FetchHead,
    TopicKey,
    decode_fetch,
    encode_fetch,
)
from broker.cluster.replicas.fetch_session import FetchSession, SessionFields
from broker.cluster.replicas.followed import NEVER, Followed, Next, sync_cuts
from broker.cluster.replicas.leader_questions import end_of_epochs, ends_of_logs
from broker.cluster.replicas.replication_settings import ReplicationSettings
from broker.loop.slices import Slicer, Slices
from broker.time import Time
from protocol.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
    NAMES,
    NONE,
)
from protocol.messages import fetch

logger = structlog.get_logger(__name__)

Place = tuple[str, int]
Named = tuple[TopicKey, int]
"""A partition as a Fetch identifies it: topic name or topic id, and partition index."""
Spawn = Callable[[Coroutine[Any, Any, None], str], Task[None]]
_SESSION_ERRORS = frozenset(
    (FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR)
)
LOOKED_THROUGH_MS = 3_000
"""The interval in ms at which all partitions are checked again. The check finds changes that cause
no Fetch, such as a log start offset that retention has moved, and reports them to the leader."""


class FetcherParts(NamedTuple):
    """The settings and services that all fetchers of a broker share."""

    settings: ReplicationSettings
    cache: MetadataCache
    broker_epoch: Callable[[], int]
    time: Time
    slicer: Slicer
    spawn: Spawn


class Fetcher:
    """Fetches partitions from one leader over one connection."""

    def __init__(self, leader: int, number: int, parts: FetcherParts) -> None:
        self.leader, self.number = leader, number
        self.followed: dict[Place, Followed] = {}
        self._settings, self._cache, self._broker_epoch = parts[:3]
        self._time, self._slicer, spawn = parts[3:]
        self._peer: Peer | None = None
        self._session = FetchSession()
        self._places: dict[Named, Followed] = {}
        """The partitions of the last Fetch or, if the Fetch uses a fetch session, of this session.
        A key contains the name or the id of the topic, as in the Fetch."""
        self._version = OLDEST
        self._quiet_until_ms = 0
        """Until this monotonic time in ms, the fetcher repeats the same Fetch, unless `_news` is
        set."""
        self.lines = PartitionLines()
        self.lost: str | None = None
        """The reason why the last request failed; None if the last request succeeded."""
        self._trouble = Trouble(self._time)
        self._news = Event()
        self._task = spawn(self._work(), "replica fetcher")
        self.client_id = f"broker-{self._settings.node_id}-fetcher-{number}"

    @property
    def failures(self) -> int:
        """The number of consecutive failed requests."""
        return self._trouble.attempts

    def add(self, place: Place, followed: Followed) -> None:
        self.followed[place] = followed
        self._news.set()

    def remove(self, place: Place) -> None:
        del self.followed[place]
        self._news.set()

    def stop(self) -> Task[None]:
        """Cancels the fetcher's task, and returns the task."""
        self._task.cancel()
        return self._task

    async def _work(self) -> None:
        try:
            while True:
                slices = self._slicer.work("replica fetcher")
                lost: PeerLost | None = None
                try:
                    await slices.beside(self._round(slices))
                    self._trouble.is_over()
                    self.lost = None
                except PeerLost as error:
                    lost = error
                except Exception as error:
                    logger.exception("replica fetcher failed: internal error")
                    lost = PeerLost(f"internal error: {error!r}")
                finally:
                    self.lines.write()
                    slices.end()
                if lost is not None:
                    await self._lost(lost)
        except CancelledError:
            pass
        finally:
            if self._peer is not None:
                self._peer.close()

    async def _lost(self, lost: PeerLost) -> None:
        """Logs a failed request to the leader, and pauses."""
        self.lost = str(lost)
        if self._trouble.is_news():
            logger.warning(
                "fetch from leader failed, retrying",
                leader=self.leader,
                attempts=self._trouble.attempts,
                partitions=len(self.followed),
                reason=str(lost),
            )
        await self._time.sleep(self._settings.backoff_ms / 1000)

    # -- a round

    async def _round(self, slices: Slices) -> None:
        """Executes the next step of each partition that is due. Raises PeerLost."""
        now_ms = self._time.now().mono_ms
        if now_ms < self._quiet_until_ms and not self._news.is_set():
            await self._fetch_on(await self._connected(), slices)
            return
        self._news.clear()
        self._quiet_until_ms = 0  # a Fetch with new offsets follows, and the last one is obsolete
        due = [each for each in self.followed.values() if each.is_due(now_ms)]
        if not due:
            await self._wait_until_due(now_ms)
            return
        peer = await self._connected()
        for each in self._at(due, Next.CUT):
            each.cut_to_high_watermark(self._again_ms())
            if slices.over:
                await slices.pause()
        asking = self._at(due, Next.ASK)
        if asking:
            for followed, answer in await end_of_epochs(peer, self._settings, asking):
                if self._is_followed(followed):
                    followed.epoch_ended(answer, self._again_ms())
        resetting = self._at(due, Next.RESET)
        if resetting:
            for followed, ends in await ends_of_logs(peer, self._settings, resetting):
                if self._is_followed(followed):
                    followed.reset(ends, self._again_ms())
        await slices.beside(sync_cuts(due, self._time))
        fetching = self._at(due, Next.FETCH)
        allowed = [each for each in fetching if not each.is_held_back]
        if allowed:
            given = await self._fetch(peer, allowed, slices)
            if given is not None and self._is_quiet(given, len(allowed)):
                self._quiet_until_ms = now_ms + LOOKED_THROUGH_MS
        elif fetching:
            await self._wait_until_due(now_ms, self._again_ms())

    def _again_ms(self) -> int:
        """Returns the monotonic time in ms of the next attempt after an error."""
        return self._time.now().mono_ms + self._settings.backoff_ms

    def _is_followed(self, followed: Followed) -> bool:
        """Returns True if this broker still follows the partition as ``followed`` describes: the
        controller has not changed the partition since the request was sent."""
        return self.followed.get(followed.place) is followed

    def _at(self, due: Iterable[Followed], step: Next) -> list[Followed]:
        return [each for each in due if each.step is step and self._is_followed(each)]

    async def _wait_until_due(self, now_ms: int, held_back_until_ms: int = NEVER) -> None:
        later = [each.due_ms for each in self.followed.values() if not each.is_due(now_ms)]
        due_ms = min([*later, held_back_until_ms])
        with suppress(TimeoutError):
            if due_ms == NEVER:
                await self._news.wait()
            else:
                async with self._time.within(max(0, due_ms - now_ms) / 1000):
                    await self._news.wait()

    async def _connected(self) -> Peer:
        node = self._cache.node(self.leader, self._settings.listener)
        if node is None:
            raise PeerLost(f"broker {self.leader} is down or unknown")
        address = Address(node.host, node.port)
        if self._peer is None or self._peer.lost is not None or self._peer.address != address:
            if self._peer is not None:
                self._peer.close()
            self._peer = await self._settings.connect(
                address, self.client_id, self._time, self._settings.socket_timeout_ms
            )
        return self._peer

    # -- fetching

    async def _fetch(
        self, peer: Peer, fetching: list[Followed], slices: Slices
    ) -> FetchAnswer | None:
        """Fetches partitions and appends the records. Returns None if a new fetch session must
        start."""
        self._version, self._places = version, places = self._named(fetching)
        asked: dict[Named, Asked] = {}
        for place, each in places.items():  # a partition whose role changes now gets an error
            asked[place] = each.asked(
                self._settings.partition_max_bytes, by_epoch=version >= FLEXIBLE
            )
            if slices.over:
                await slices.pause()
        fields = self._session.fields_for(asked, by_id=version >= WITH_IDS)
        answer = await self._answer(peer, fields)
        if answer is not None:
            await self._take_all(answer, places, slices)
        return answer

    async def _fetch_on(self, peer: Peer, slices: Slices) -> None:
        """Sends a Fetch that contains no changes of the session's partitions. Called if the last
        response had no records and no partition has changed since then."""
        answer = await self._answer(peer, self._session.unchanged_fields())
        if answer is None or answer.partitions or not self._session.lasts:
            self._quiet_until_ms = 0
        if answer is not None and answer.partitions:
            await self._take_all(answer, self._places, slices)

    def _is_quiet(self, answer: FetchAnswer, allowed: int) -> bool:
        """Returns True if the leader's response has no partitions, and this fetcher's fetch session
        at the leader contains all partitions of the fetcher."""
        return not answer.partitions and allowed == len(self.followed) and self._session.lasts

    async def _answer(self, peer: Peer, fields: SessionFields) -> FetchAnswer | None:
        """Sends a Fetch and returns the response; None if the leader does not have the fetch
        session. Raises PeerLost."""
        settings, version = self._settings, self._version
        head = FetchHead(
            settings.node_id,
            self._broker_epoch(),
            settings.wait_max_ms,
            settings.min_bytes,
            settings.max_bytes,
            fields.session_id,
            fields.epoch,
        )
        try:
            answer: FetchAnswer = await peer.send(
                fetch.API,
                version,
                encode_fetch(version, head, fields.asked, fields.forgotten),
                lambda frame, position: decode_fetch(version, frame, position),
                settings.wait_max_ms + settings.socket_timeout_ms,
            )
        except PeerLost:
            self._broken()
            raise
        if answer.error_code in _SESSION_ERRORS:
            self._broken(is_unknown=answer.error_code == FETCH_SESSION_ID_NOT_FOUND)
            return None
        if answer.error_code != NONE:
            self._broken()
            error = NAMES.get(answer.error_code, answer.error_code)
            raise PeerLost(f"broker {self.leader} rejects the fetch: {error}")
        self._session.answered(answer.session_id)
        return answer

    def _broken(self, *, is_unknown: bool = False) -> None:
        """Marks the fetch session as broken, so that the next Fetch contains all partitions."""
        self._session.broken(is_unknown=is_unknown)
        self._quiet_until_ms = 0

    def _named(self, fetching: Iterable[Followed]) -> tuple[int, dict[Named, Followed]]:
        """Returns the version of the next Fetch, and its partitions. Each partition is identified
        by topic id if the ids of all topics are known, otherwise by topic name."""
        version = self._settings.spoken.version_of(fetch.API.name)
        assert version is not None
        assert OLDEST <= version <= NEWEST
        if version >= WITH_IDS:
            known = self._cache.topics
            places: dict[Named, Followed] = {}
            for each in fetching:
                topic = known.get(each.place[0])
                if topic is None or topic.topic_id is None:
                    break  # a request names all topics by id, or none
                places[topic.topic_id, each.place[1]] = each
            else:
                return version, places
            version = FLEXIBLE
        return version, {each.place: each for each in fetching}

    async def _take_all(
        self, answer: FetchAnswer, places: dict[Named, Followed], slices: Slices
    ) -> None:
        """Applies a response to the logs, in slices."""
        for topic, found in answer.partitions:
            known = places.get((topic, found.partition))
            if known is not None and found.records:
                self._put_last(known)
            left: Answered | None = found
            while known is not None and left is not None:
                left = self._take(known, left)
                if slices.over:
                    await slices.pause()
        for each in places.values():  # the next Fetch reports the flushed offsets
            if each.replica.is_flushing:
                await slices.beside(each.replica.settled())

    def _put_last(self, followed: Followed) -> None:
        """Moves a partition that got records to the end of the order in which the fetcher requests
        its partitions. The next response, whose size is limited, then has records of other
        partitions."""
        if self._is_followed(followed):
            self.followed[followed.place] = self.followed.pop(followed.place)

    def _take(self, followed: Followed, found: Answered) -> Answered | None:
        if self._is_followed(followed):
            try:
                left = followed.answered(found, self._again_ms())
                followed.note_lag(self._time.now().mono_ms)
                return left
            except Exception:  # a bug of ours affects only this partition (law 10)
                logger.exception("replica failed: internal error", partition=followed.replica.name)
                followed.wait()
        return None
