"""Restarts of clients: a client that returns to its group under a new member id.

A client without `group.instance.id` gets a new member id whenever it joins after a start, after a
LeaveGroup or after its removal. Its group rebalances twice: when the old id is removed and when the
new id joins. Only a closed connection of the old id proves that the process restarted (`Way`).

Two member ids belong to one client if their client ids and hosts are equal, and one id left within
RETURNS_WITHIN_MS of the join of the other. A static member is identified by its instance id. A
static member that rejoins within its session replaces its old member id; this counts as a return if
the connection of the old id had closed.

Each join and each removal is part of at most one return. The consecutive returns of one client are
one entry, so that several clients with the same client id are counted separately.

The new id may join before the old id is removed: the id of a killed client stays in the group until
its session ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from coordinator.events import Cause, MemberLeft
from coordinator.wording import seconds
from journal.entry import Fields
from journal.pages import Ring
from protocol.now import Now
from protocol.slotted import slotted

RETURNS_WITHIN_MS = 60_000
"""The maximum time in ms between the end of a client's old member id (its removal or its last
request) and a join that counts as a restart of the client."""
CLIENTS_KEPT = 64
TIMES_KEPT = 16
_IDS_KEPT = 16
_SEEN_KEPT = 256
_CLIENT_BYTES = 900
_SEEN_BYTES = 400
_ID_BYTES = 200
_RETURNING = (
    "client_id", "client_host", "times", "last_ms", "member_id", "before", "away_ms", "recent_ms",
)  # fmt: skip
"""Fields of a `RestartingMember` that have the same name in its journal line."""

STREAK_PAUSE_MS = 300_000
"""Restarts of a client belong to one streak if each of them follows the previous one within this
number of milliseconds."""

_POLL_TIMEOUT = "poll timeout has expired"
"""Part of the reason that Apache's Java client sends in LeaveGroup after it exceeded
max.poll.interval.ms (KIP-800)."""


class Way(StrEnum):
    """The way in which a client lost its old member id."""

    RESTARTED = "restarted"
    """The connection of the old id had closed, and the new id joined on another connection."""
    RESTARTED_IN_SESSION = "restarted_in_session"
    """A static member replaced its old member id within its session, after the old connection had
    closed."""
    LEFT = "left"
    """The member sent LeaveGroup. Its process shut down cleanly, or still runs: librdkafka sends
    LeaveGroup without a reason after max.poll.interval.ms."""
    POLL_TIMED_OUT = "poll_timed_out"
    """The member sent LeaveGroup with the reason that max.poll.interval.ms had passed."""
    SESSION_EXPIRED = "session_expired"
    """The member's session expired while its connection was open, so its process was alive."""
    SYNC_TIMED_OUT = "sync_timed_out"
    """The member joined but did not send SyncGroup within the sync phase."""
    JOIN_TIMED_OUT = "join_timed_out"
    """The member did not rejoin within its rebalance timeout, which is the client's
    max.poll.interval.ms."""
    REMOVED = "removed"
    """The member was removed for a cause that no other `Way` describes."""

    @classmethod
    def of(cls, event: MemberLeft) -> Way:
        if event.cause is Cause.MEMBER_LEFT:
            return cls.POLL_TIMED_OUT if _POLL_TIMEOUT in event.detail else cls.LEFT
        if event.connection_closed:
            return cls.RESTARTED
        return _WAYS.get(event.cause, cls.REMOVED)


_WAYS = {
    Cause.SESSION_EXPIRED: Way.SESSION_EXPIRED,
    Cause.SYNC_TIMED_OUT: Way.SYNC_TIMED_OUT,
    Cause.JOIN_TIMED_OUT: Way.JOIN_TIMED_OUT,
}


class _Came(NamedTuple):
    """A member id with which a client joined, and the time of the join."""

    at_ms: int
    member_id: str


class _Gone(NamedTuple):
    """A member id that left or was removed, and the time of its removal."""

    at_ms: int
    member_id: str
    way: Way


_IdT = TypeVar("_IdT", _Came, _Gone)


_Key = tuple[str, ...]


class SameClient(NamedTuple):
    """Another member id that belongs to the same client, and a text that says why."""

    member_id: str
    words: str


@slotted
class Streak:
    """Counts consecutive events with pauses of at most STREAK_PAUSE_MS between them. Only the times
    of the first and the last event are stored."""

    count: int = 0
    since_ms: int = 0
    last_ms: int = 0

    def note(self, now_ms: int) -> None:
        if not self.count or now_ms - self.last_ms > STREAK_PAUSE_MS:
            self.count, self.since_ms = 0, now_ms
        self.count += 1
        self.last_ms = now_ms


@slotted
class RestartingMember:
    """A client that returned under a new member id at least once."""

    client_id: str
    client_host: str
    times: int = 0
    last_ms: int = 0
    """The wall time in ms at which the client last returned under a new member id."""
    member_id: str = ""
    """The client's newest member id, from its last return."""
    before: str = ""
    """The member id that the client had before its last return."""
    away_ms: int = 0
    """Milliseconds from the end of the client's old member id to its last join with a new one."""
    recent_ms: list[int] = field(default_factory=list)
    """The wall times in ms at which the client returned under a new member id, oldest first. Only
    the latest ones are kept."""
    streak: Streak = field(default_factory=Streak)
    """The client's latest streak of returns, in which each return followed the previous one within
    STREAK_PAUSE_MS."""
    is_kept: bool = False
    """True if the entry was read from the journal's file, and the client has not returned since the
    broker's start."""
    instance: str | None = None
    """The instance id of a static member; None for a dynamic member."""
    first: str = ""
    """The member id that the client had before its first return."""
    ways: dict[str, int] = field(default_factory=dict)
    """How often the client returned during `streak`, by the `Way` in which it had lost its old
    member id."""

    @classmethod
    def read(cls, fields: Fields) -> RestartingMember:
        """Reads the entry from its line in the journal's file. Lines of older Muster versions lack
        the fields `streak`, `ways`, `instance` and `first`."""
        entry = cls(**{name: fields[name] for name in _RETURNING})
        entry.streak = Streak(*fields.get("streak", ()))
        entry.ways = dict(fields.get("ways", {}))
        entry.instance, entry.first = fields.get("instance"), fields.get("first", "")
        return entry

    def fields(self) -> Fields:
        return {
            "kind": "returning",
            **{name: getattr(self, name) for name in _RETURNING},
            "streak": [self.streak.count, self.streak.since_ms, self.streak.last_ms],
            "ways": self.ways,
            "instance": self.instance,
            "first": self.first,
        }

    def copied(self) -> RestartingMember:
        return replace(self, ways=dict(self.ways))

    def size(self) -> int:
        """Returns the estimated memory of the entry in bytes."""
        texts = (self.client_id, self.client_host, self.member_id, self.before, self.first)
        return _CLIENT_BYTES + sum(map(len, texts)) + len(self.instance or "")


class Client(NamedTuple):
    """The client of a member id that joined or left."""

    client_id: str
    host: str
    instance: str | None = None

    @property
    def key(self) -> _Key:
        if self.instance is not None:
            return (self.instance,)
        return (self.client_id, self.host)


@slotted
class _Seen:
    """The latest joins and removals of member ids of one client, oldest first. A removal and a join
    that were recognized as one return of the client are deleted from these lists."""

    key: _Key
    gone: list[_Gone] = field(default_factory=list)
    came: list[_Came] = field(default_factory=list)

    def size(self) -> int:
        ids = sum([_ID_BYTES + len(each.member_id) for each in self.gone])
        ids += sum([_ID_BYTES + len(each.member_id) for each in self.came])
        return _SEEN_BYTES + sum(map(len, self.key)) + ids


class MemberRestarts:
    """The clients of one group that have returned under a new member id, and the clients that may
    still return."""

    __slots__ = ("_seen", "clients")

    def __init__(self, ring: Callable[[int], Ring[Any]] = Ring) -> None:
        self.clients: Ring[RestartingMember] = ring(CLIENTS_KEPT)
        """Clients that returned under a new member id, by their current member id."""
        self._seen: Ring[_Seen] = ring(_SEEN_KEPT)
        """By `Client.key`: recent joins and removals of member ids of the same client. If a join
        follows a removal, the client may have returned under a new member id."""

    def restore(self, client: RestartingMember) -> None:
        """Loads the entry about a client's restarts from the journal's file. Removes older entries
        about the same client."""
        earlier = [each for each in self.clients if each.first and each.first == client.first]
        for member_id in {client.before, client.member_id, *(each.member_id for each in earlier)}:
            self.clients.take(member_id)
        self.clients.put(client.member_id, client)

    def joined(self, client: Client, member_id: str, now: Now) -> SameClient | None:
        """Notes that a member joined. If the client has returned, returns its old member id with a
        description."""
        key = client.key
        seen = self._seen.get(key) or _Seen(key)
        same = None
        while seen.gone and same is None:
            at_ms, before, way = seen.gone.pop(0)
            away_ms = now.mono_ms - at_ms
            if away_ms <= RETURNS_WITHIN_MS:
                words = "the same client rejoined with a new member id"
                same = SameClient(before, f"{words}, {seconds(away_ms)} after {before} had left")
                self._note(client, member_id, before, away_ms, way, now)
        if same is None:
            _keep(seen.came, _Came(now.mono_ms, member_id))
        self._put(seen)
        return same

    def left(
        self, client: Client, member_id: str, silent_ms: int, way: Way, now: Now
    ) -> SameClient | None:
        """Records that a member was removed. If the client has already joined under a new member
        id, returns this id with a description.

        ``silent_ms`` is the time since the member's last request if its session expired; otherwise
        -1.
        """
        key = client.key
        seen = self._seen.get(key) or _Seen(key)
        seen.came = [each for each in seen.came if each.member_id != member_id]
        same = None
        heard_ms = now.mono_ms - silent_ms
        for each in seen.came if silent_ms >= 0 else ():
            if 0 <= (away_ms := each.at_ms - heard_ms) <= RETURNS_WITHIN_MS:
                words = "the same client had already rejoined with a new member id"
                same = SameClient(each.member_id, f"{words}, {each.member_id}")
                seen.came.remove(each)
                self._note(client, each.member_id, member_id, away_ms, way, now)
                break
        if same is None:
            _keep(seen.gone, _Gone(now.mono_ms, member_id, way))
        self._put(seen)
        return same

    def took_over(
        self, client: Client, member_id: str, before: str, away_ms: int, now: Now
    ) -> None:
        """Records that a static member has replaced its old member id ``before``. The old
        connection had closed, but the old session had not expired."""
        seen = self._seen.get(client.key) or _Seen(client.key)
        seen.came = [each for each in seen.came if each.member_id != before]
        self._put(seen)
        self._note(client, member_id, before, away_ms, Way.RESTARTED_IN_SESSION, now)

    def _put(self, seen: _Seen) -> None:
        if seen.gone or seen.came:
            self._seen.put(seen.key, seen)
        else:
            self._seen.take(seen.key)

    def _note(
        self, who: Client, member_id: str, before: str, away_ms: int, way: Way, now: Now
    ) -> None:
        client = self.clients.take(before)
        if client is None:
            client = RestartingMember(who.client_id, who.host, instance=who.instance, first=before)
        client.client_id, client.client_host = who.client_id, who.host
        client.times += 1
        client.streak.note(now.wall_ms)
        if client.streak.count == 1:
            client.ways.clear()
        client.ways[way] = client.ways.get(way, 0) + 1
        client.is_kept = False
        client.last_ms = now.wall_ms
        client.member_id, client.before, client.away_ms = member_id, before, away_ms
        client.recent_ms = [*client.recent_ms[1 - TIMES_KEPT :], now.wall_ms]
        self.clients.put(member_id, client)


def _keep(ids: list[_IdT], entry: _IdT) -> None:
    if len(ids) >= _IDS_KEPT:
        del ids[0]
    ids.append(entry)
