"""Restarts of clients: a client that returns to its group under a new member id.

A client without `group.instance.id` gets a new id with each start, and with each return after it
left or was removed: its group rebalances when the old id is removed and when the new one joins.
Only a closed connection of the old id proves that the process has restarted (`Way`). Two ids belong
to one client when client id and host are equal and the one left at about the time when the other
joined. A static member is known by its instance id; within its session it takes over its own place,
which counts when the connection of the old id had closed. Each id is part of one return, and the
ids of a chain of returns are one place: members with the same client id are counted one by one.

The new id may join first: a client that was killed leaves an id behind that the group awaits until
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
"""From the last of the old id to the first of the new one."""
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
"""The values of a `RestartingMember` that are written as they are."""

STREAK_PAUSE_MS = 300_000
"""A longer pause ends a streak."""

_POLL_TIMEOUT = "poll timeout has expired"
"""The reason in the LeaveGroup of Apache's Java client after max.poll.interval.ms (KIP-800)."""


class Way(StrEnum):
    """How the old id of a client was lost."""

    RESTARTED = "restarted"
    """Its connection had closed, so that the new id came by another one."""
    RESTARTED_IN_SESSION = "restarted_in_session"
    """The same of a static member, which took over its own place: its session had not ended."""
    LEFT = "left"
    """By its LeaveGroup. A process that ends in good order sends one, and so does one that goes on:
    librdkafka after max.poll.interval.ms, without a reason."""
    POLL_TIMED_OUT = "poll_timed_out"
    """The same, and the LeaveGroup says so."""
    SESSION_EXPIRED = "session_expired"
    """While its connection was open: the process lived."""
    SYNC_TIMED_OUT = "sync_timed_out"
    """It joined and sent no SyncGroup."""
    JOIN_TIMED_OUT = "join_timed_out"
    """It did not rejoin within its rebalance timeout, which is its max.poll.interval.ms."""
    REMOVED = "removed"
    """For another cause."""

    @classmethod
    def of(cls, event: MemberLeft) -> Way:
        """The way of a member that is out."""
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
    """An id that came."""

    at_ms: int
    """Monotonic."""
    member_id: str


class _Gone(NamedTuple):
    """An id that went."""

    at_ms: int
    """Monotonic."""
    member_id: str
    way: Way


_IdT = TypeVar("_IdT", _Came, _Gone)


_Key = tuple[str, ...]


class SameClient(NamedTuple):
    """The other id of a client that came back."""

    member_id: str
    words: str


@slotted
class Streak:
    """How often something has happened without a long pause: a count, however few are kept."""

    count: int = 0
    since_ms: int = 0
    """Wall time of the first one."""
    last_ms: int = 0
    """The same of the last one."""

    def note(self, now_ms: int) -> None:
        """It happened."""
        if not self.count or now_ms - self.last_ms > STREAK_PAUSE_MS:
            self.count, self.since_ms = 0, now_ms
        self.count += 1
        self.last_ms = now_ms


@slotted
class RestartingMember:
    """A client that came back under a new id, once or more often."""

    client_id: str
    client_host: str
    times: int = 0
    """How often."""
    last_ms: int = 0
    """Wall time at which it was noticed last."""
    member_id: str = ""
    """Its id since then."""
    before: str = ""
    """Its id until then."""
    away_ms: int = 0
    """From the last of the old id to the first of the new one."""
    recent_ms: list[int] = field(default_factory=list)
    """Wall times of the last returns, the latest last."""
    streak: Streak = field(default_factory=Streak)
    """The last returns without a long pause between them."""
    is_kept: bool = False
    """None of the returns was seen by this run of the broker."""
    instance: str | None = None
    """Of a static member."""
    first: str = ""
    """The member id with which the chain of its returns began."""
    ways: dict[str, int] = field(default_factory=dict)
    """How often it was lost in each `Way`, of those in ``streak``."""

    @classmethod
    def read(cls, fields: Fields) -> RestartingMember:
        """The entry of a line; older files have no streak, ways, instance and first id."""
        entry = cls(**{name: fields[name] for name in _RETURNING})
        entry.streak = Streak(*fields.get("streak", ()))
        entry.ways = dict(fields.get("ways", {}))
        entry.instance, entry.first = fields.get("instance"), fields.get("first", "")
        return entry

    def fields(self) -> Fields:
        """Its line."""
        return {
            "kind": "returning",
            **{name: getattr(self, name) for name in _RETURNING},
            "streak": [self.streak.count, self.streak.since_ms, self.streak.last_ms],
            "ways": self.ways,
            "instance": self.instance,
            "first": self.first,
        }

    def copied(self) -> RestartingMember:
        """See `Entry`."""
        return replace(self, ways=dict(self.ways))

    def size(self) -> int:
        """Estimated bytes."""
        texts = (self.client_id, self.client_host, self.member_id, self.before, self.first)
        return _CLIENT_BYTES + sum(map(len, texts)) + len(self.instance or "")


class Client(NamedTuple):
    """Whose member id came or went."""

    client_id: str
    host: str
    instance: str | None = None

    @property
    def key(self) -> _Key:
        """By what its ids are taken for one client."""
        if self.instance is not None:
            return (self.instance,)
        return (self.client_id, self.host)


@slotted
class _Seen:
    """Ids of one client that are part of no return yet, the oldest first."""

    key: _Key
    gone: list[_Gone] = field(default_factory=list)
    came: list[_Came] = field(default_factory=list)

    def size(self) -> int:
        ids = sum([_ID_BYTES + len(each.member_id) for each in self.gone])
        ids += sum([_ID_BYTES + len(each.member_id) for each in self.came])
        return _SEEN_BYTES + sum(map(len, self.key)) + ids


class MemberRestarts:
    """The clients that have returned to one group, and those that may still return."""

    __slots__ = ("_seen", "clients")

    def __init__(self, ring: Callable[[int], Ring[Any]] = Ring) -> None:
        self.clients: Ring[RestartingMember] = ring(CLIENTS_KEPT)
        """By the member id now."""
        self._seen: Ring[_Seen] = ring(_SEEN_KEPT)
        """By `Client.key`."""

    def restore(self, client: RestartingMember) -> None:
        """Take over what was written down of a client."""
        earlier = [each for each in self.clients if each.first and each.first == client.first]
        for member_id in {client.before, client.member_id, *(each.member_id for each in earlier)}:
            self.clients.take(member_id)
        self.clients.put(client.member_id, client)

    def joined(self, client: Client, member_id: str, now: Now) -> SameClient | None:
        """A member entered; the id that it had before, if it is a client that was out."""
        key = client.key
        seen = self._seen.get(key) or _Seen(key)
        same = None
        while seen.gone and same is None:
            at_ms, before, way = seen.gone.pop(0)
            away_ms = now.mono_ms - at_ms
            if away_ms <= RETURNS_WITHIN_MS:
                words = "the same client rejoined with a new member id"
                same = SameClient(before, f"{words}, {seconds(away_ms)} after {before} was gone")
                self._note(client, member_id, before, away_ms, way, now)
        if same is None:
            _keep(seen.came, _Came(now.mono_ms, member_id))
        self._put(seen)
        return same

    def left(
        self, client: Client, member_id: str, silent_ms: int, way: Way, now: Now
    ) -> SameClient | None:
        """A member is out; the id that it has now, if it had come back before it was missed.

        ``silent_ms`` is how long nothing had been heard of it; -1 where that is not why it is out.
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
        """A static member took over its place within its session; its old connection had closed."""
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
