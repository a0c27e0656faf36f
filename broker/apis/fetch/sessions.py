"""Incremental fetch sessions (KIP-227): the broker stores a client's partitions between the
client's requests.

A session keeps its partitions in the order in which they are read. A partition that returned data
moves to the end, so that full responses do not always omit the same partitions. A session belongs
to a principal and a replica id (`Owner`); other clients can't use or close the session. The number
of sessions is bounded. A new session replaces a session that was idle for two minutes, or an older
and smaller session. Without such a session, no session is created, and the client continues with
full requests.

A follower's session (`ReplicaSession`) may have thousands of partitions, of which few change. An
unchanged partition is skipped until `stirred` is called: after an append, a new high watermark,
deleted records or another partition state. Changes without such a call, such as retention, are
noticed after `LOOKED_THROUGH_MS` at the latest.

Source: Kafka 3.9 ``FetchSession.scala``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from protocol.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)
from protocol.slotted import slotted
from security.principal import Principal

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
EVICTION_MS = 120_000
LOOKED_THROUGH_MS = 3_000
"""The interval in ms at which all partitions of a follower's session are read, changed or not."""
_INT_MAX = 2**31 - 1

TopicKey = str | bytes
Key = tuple[TopicKey, int]
"""A partition: the topic's name (from version 13 on, the topic's id) and the partition's index."""
Owner = tuple[Principal, int]
"""The owner of a session: a principal, and the broker id of the follower, or -1 for a consumer."""
CONSUMER = -1


@slotted
class Wanted:
    """A client's fetch position in one partition, and the high watermark and log start offset of
    the last response."""

    topic: TopicKey
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> Key:
        return self.topic, self.partition


class Session:
    """An incremental fetch session of one client."""

    __slots__ = ("created_ms", "epoch", "owner", "partitions", "session_id", "used_ms", "uses_ids")

    def __init__(
        self,
        session_id: int,
        owner: Owner,
        wanted: Iterable[Wanted],
        uses_ids: bool,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.owner = owner
        self.partitions: dict[Key, Wanted] = {entry.key: entry for entry in wanted}
        self.uses_ids = uses_ids
        self.epoch = 1
        """The epoch that the client's next request must have."""
        self.created_ms = self.used_ms = now_ms

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[Key]) -> None:
        """Applies the changed and the forgotten partitions of an incremental request."""
        for entry in wanted:
            known = self.partitions.get(entry.key)
            if known is None:
                self.partitions[entry.key] = entry
            else:
                known.fetch_offset = entry.fetch_offset
                known.max_bytes = entry.max_bytes
                known.current_leader_epoch = entry.current_leader_epoch
                known.last_fetched_epoch = entry.last_fetched_epoch
        for key in forgotten:
            self.partitions.pop(key, None)

    def response_was_dropped(self) -> None:
        """Makes the next response include every partition, because the last response was not
        sent."""
        for entry in self.partitions.values():
            entry.high_watermark = -1

    def gave_data(self, key: Key) -> None:
        """Called for a partition whose records are in the response. Moves this partition to the end
        of the read order."""
        entry = self.partitions.pop(key, None)
        if entry is not None:
            self.partitions[key] = entry


class ReplicaSession(Session):
    """The fetch session of another broker, which follows partitions that this broker leads."""

    __slots__ = ("_due", "_through_ms", "wake")

    def __init__(
        self,
        session_id: int,
        owner: Owner,
        wanted: Iterable[Wanted],
        uses_ids: bool,
        now_ms: int,
    ) -> None:
        super().__init__(session_id, owner, wanted, uses_ids, now_ms)
        self._due = dict(self.partitions)
        """The partitions that may have changed since their last read."""
        self._through_ms = now_ms
        """The monotonic time in ms at which all partitions were last added to ``_due``."""
        self.wake: Callable[[], None] | None = None
        """A function that makes the parked Fetch read the logs again; None if no Fetch is parked.
        """

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[Key]) -> None:
        """Implements `Session.update`. Also marks the partitions in ``wanted`` to be read."""
        wanted, forgotten = list(wanted), list(forgotten)
        super().update(wanted, forgotten)
        for entry in wanted:
            self._due[entry.key] = self.partitions[entry.key]
        for key in forgotten:
            self._due.pop(key, None)

    def gave_data(self, key: Key) -> None:
        """Implements `Session.gave_data`. If the partition is in ``_due``, it moves to the end of
        ``_due``."""
        super().gave_data(key)
        entry = self._due.pop(key, None)
        if entry is not None:
            self._due[key] = entry

    def look_through(self, now_ms: int) -> None:
        """Marks all partitions of the session, so that the next Fetch reads all of them. Does
        nothing if they were last marked less than LOOKED_THROUGH_MS ago."""
        if now_ms - self._through_ms >= LOOKED_THROUGH_MS:
            self._through_ms = now_ms
            self._due = dict(self.partitions)

    def due(self) -> list[Wanted]:
        """Returns the partitions that are marked to be read."""
        return list(self._due.values())

    def quiet(self, wanted: Wanted) -> None:
        """Makes the next Fetch requests skip a partition, because it has not changed. They skip it
        until `stirred` is called for this partition."""
        self._due.pop(wanted.key, None)

    def stirred(self, wanted: Wanted, *, wake: bool) -> None:
        """Marks ``wanted``, a partition that has changed, to be read for the next response. If
        ``wake`` is True, also makes a parked Fetch of this session read the logs again at once."""
        if self.partitions.get(wanted.key) is wanted:
            self._due[wanted.key] = wanted
            if wake and self.wake is not None:
                self.wake()


class FetchSessionError(Exception):
    """A request that does not match its fetch session; ``error_code`` is the error for the
    response."""

    def __init__(self, error_code: int) -> None:
        super().__init__(error_code)
        self.error_code = error_code


class FetchSessions:
    """The fetch sessions of one broker; ``slots`` is the maximum number of sessions."""

    def __init__(self, slots: int, chance: Random) -> None:
        self.slots = slots
        self._chance = chance
        self._sessions: dict[int, Session] = {}
        """The sessions by id, in the order of their last use; the least recently used session is
        first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> Session | None:
        """Returns a session, regardless of its owner."""
        return self._sessions.get(session_id)

    def resume(
        self,
        session_id: int,
        owner: Owner,
        epoch: int,
        wanted: Iterable[Wanted],
        forgotten: Iterable[Key],
        uses_ids: bool,
        now_ms: int,
    ) -> Session | None:
        """Applies an incremental request to its session. Returns the session; None if it has no
        partitions left. Raises FetchSessionError."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise FetchSessionError(FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise FetchSessionError(INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            raise FetchSessionError(FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(wanted, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            return None
        session.used_ms = now_ms
        session.epoch = next_epoch(epoch)
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def close(self, session_id: int, owner: Owner) -> None:
        """Closes the session if it exists and belongs to the owner."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            del self._sessions[session_id]

    def create(
        self,
        owner: Owner,
        wanted: Sequence[Wanted],
        uses_ids: bool,
        now_ms: int,
        kind: type[Session] = Session,
    ) -> Session | None:
        """Creates and returns a session. Returns None if no existing session may be replaced."""
        if len(self._sessions) >= self.slots and not self._evict(len(wanted), now_ms):
            return None
        session_id = self._chance.randint(1, _INT_MAX)
        while session_id in self._sessions:
            session_id = self._chance.randint(1, _INT_MAX)
        session = self._sessions[session_id] = kind(session_id, owner, wanted, uses_ids, now_ms)
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.session_id]
            return True
        settled = [s for s in self._sessions.values() if now_ms - s.created_ms > EVICTION_MS]
        smallest = min(settled, key=lambda s: len(s.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        del self._sessions[smallest.session_id]
        return True


def next_epoch(epoch: int) -> int:
    """Returns the session epoch after ``epoch``. The epoch after the highest one is 1, because 0
    means a new session."""
    return 1 if epoch < 0 or epoch == _INT_MAX else epoch + 1
