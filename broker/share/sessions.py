"""Share sessions: the partitions that one member of a share group fetches from this broker.

A request with epoch 0 opens a session. Requests with epochs 1, 2, ... continue it and need not
repeat the partitions. A session belongs to the principal that opened it; other principals can
neither use nor replace it.

A session ends when the member closes it with epoch -1, when its connection closes, or when the
group removes the member. Then the records that the member has acquired are released.
``group.share.max.share.sessions`` limits the number of sessions. `PARTITIONS_MAX` limits the number
of partitions in all sessions together.

Source: Kafka 4.3.1 ``SharePartitionManager.newContext``, ``ShareSessionCache``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator

from protocol.errors import (
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
)
from security.principal import Principal

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
PARTITIONS_MAX = 500_000
"""The maximum number of partitions in all sessions together. So many partitions need about 100 MB.
"""
_INT_MAX = 2**31 - 1

Place = tuple[bytes, int]
"""A partition: topic id and partition index."""
MemberKey = tuple[str, str]
"""A member: group id and member id."""


class ShareSessionError(Exception):
    """Raised if a request does not match its session; ``error_code`` is the error code for the
    response."""

    def __init__(self, error_code: int) -> None:
        super().__init__(error_code)
        self.error_code = error_code


class ShareSession:
    """The share session of one member on this broker."""

    __slots__ = (
        "connection",
        "epoch",
        "group_id",
        "member_id",
        "on_end",
        "partitions",
        "principal",
    )

    def __init__(
        self, group_id: str, member_id: str, principal: Principal, connection: Hashable
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.principal = principal
        self.connection = connection
        """The connection of the last request; the session ends when this connection closes."""
        self.epoch = 1
        """The epoch that the session's next request must have."""
        self.partitions: dict[Place, None] = {}
        """The partitions in the order in which they are read."""
        self.on_end: Callable[[], None] | None = None
        """A function that is called when the session has ended; set by a request that waits."""

    @property
    def key(self) -> MemberKey:
        return self.group_id, self.member_id

    def gave_records(self, place: Place) -> None:
        """Moves a partition to the end of the read order, so that full responses do not always omit
        the same partitions."""
        if place in self.partitions:
            del self.partitions[place]
            self.partitions[place] = None


class ShareSessions:
    """The share sessions of one broker; only the event loop's thread may use this class."""

    def __init__(
        self,
        slots: Callable[[], int],
        on_ended: Callable[[str, str], None],
        on_first: Callable[[str], None] = lambda _: None,
        run: Callable[[Iterator[None]], object] = list,
    ) -> None:
        """``slots`` returns the maximum number of sessions. ``on_ended`` is called with the group
        id and member id of an ended session. ``on_first`` is called with the group id before the
        first session of a group opens. ``run`` runs steps, some of them in later turns."""
        self._slots = slots
        self._on_ended = on_ended
        self._run = run
        self._on_first = on_first
        self._of_group: Counter[str] = Counter()
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._by_connection: dict[Hashable, dict[MemberKey, None]] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        """Returns the session of a member, regardless of its principal."""
        return self._sessions.get((group_id, member_id))

    def is_open(self, session: ShareSession) -> bool:
        """Returns True if the session has neither ended nor been replaced."""
        return self._sessions.get(session.key) is session

    # -- requests

    def open(
        self, group_id: str, member_id: str, principal: Principal, connection: Hashable
    ) -> ShareSession:
        """Opens a session for a request with epoch 0, and replaces the member's earlier session.
        The member keeps the records that it acquired in the earlier session, as in Kafka. Raises
        ShareSessionError."""
        key = group_id, member_id
        earlier = self._sessions.get(key)
        if earlier is not None:
            if earlier.principal != principal:
                raise ShareSessionError(SHARE_SESSION_NOT_FOUND)
            self._remove(earlier)
        if len(self._sessions) >= self._slots():
            raise ShareSessionError(SHARE_SESSION_LIMIT_REACHED)
        if group_id not in self._of_group and earlier is None:
            self._on_first(group_id)
        self._of_group[group_id] += 1
        session = self._sessions[key] = ShareSession(group_id, member_id, principal, connection)
        self._by_connection.setdefault(connection, {})[key] = None
        return session

    def resume(
        self,
        group_id: str,
        member_id: str,
        principal: Principal,
        connection: Hashable,
        epoch: int,
    ) -> ShareSession:
        """Returns the session for a request with an epoch other than 0, and increments the
        session's expected epoch. With epoch -1, the session stays open until `close` is called.
        Raises ShareSessionError."""
        key = group_id, member_id
        session = self._sessions.get(key)
        if session is None or session.principal != principal:
            raise ShareSessionError(SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise ShareSessionError(INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _INT_MAX else epoch + 1
        if session.connection is not connection:
            self._leave_connection(session)
            session.connection = connection
            self._by_connection.setdefault(connection, {})[key] = None
        return session

    def update(
        self, session: ShareSession, added: Iterable[Place], forgotten: Iterable[Place]
    ) -> None:
        """Adds and removes partitions of a session. Raises ShareSessionError, and adds nothing, if
        all sessions together would exceed `PARTITIONS_MAX`."""
        partitions = session.partitions
        before = len(partitions)
        for place in forgotten:
            partitions.pop(place, None)
        new = [place for place in added if place not in partitions]
        has_room = self._partitions + len(partitions) - before + len(new) <= PARTITIONS_MAX
        if has_room:
            for place in new:
                partitions[place] = None
        self._partitions += len(partitions) - before
        if not has_room:
            raise ShareSessionError(INVALID_REQUEST)

    # -- the ends of sessions

    def close(self, session: ShareSession) -> None:
        """Ends a session; does nothing if it has ended or been replaced."""
        if self.is_open(session):
            self._remove(session)
            self._on_ended(session.group_id, session.member_id)

    def connection_closed(self, connection: Hashable) -> None:
        """Ends the share sessions of a closed connection, one session per step. A session does not
        end if its member has continued it on another connection before its step."""
        self._run(self._ends(connection))

    def _ends(self, connection: Hashable) -> Iterator[None]:
        while keys := self._by_connection.get(connection):
            self.close(self._sessions[next(iter(keys))])
            yield

    def member_removed(self, group_id: str, member_id: str) -> None:
        session = self._sessions.get((group_id, member_id))
        if session is not None:
            self.close(session)
        else:
            self._on_ended(group_id, member_id)  # it may still hold records

    def _remove(self, session: ShareSession) -> None:
        del self._sessions[session.key]
        self._of_group[session.group_id] -= 1
        if not self._of_group[session.group_id]:
            del self._of_group[session.group_id]
        self._leave_connection(session)
        self._partitions -= len(session.partitions)
        session.partitions = {}
        on_end, session.on_end = session.on_end, None
        if on_end is not None:
            on_end()

    def _leave_connection(self, session: ShareSession) -> None:
        keys = self._by_connection[session.connection]
        del keys[session.key]
        if not keys:
            del self._by_connection[session.connection]
