"""Clients that find the coordinator of their group and then ask nothing of it.

A consumer with ``group.protocol=consumer`` (KIP-848), a share consumer and Streams of KIP-1071 see
in ApiVersions that their protocol is not served, and never send a request of it. Java's raise an
error. librdkafka (2.16) asks for the coordinator three times within 100 ms and then sends nothing
more, for ever, and its application hears nothing.

Such a client is told from others by what it does. A new connection asks for a coordinator, and is
still open half a minute later. Meanwhile the client has sent nothing but lookups on any of its new
connections, and the group has no member of it. A consumer of the classic protocol joins at once, or
fetches; a tool asks what it came for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from broker.net.clients.unsupported import Unsupported

NEW_S = 10
"""How old a connection may be that asks."""
PATIENCE_S = 30
SEEKERS_MAX = 1000

API = "ConsumerGroupHeartbeat"
_ADVICE = (
    "it found the coordinator of group {group!r} and asks nothing of it; with"
    " group.protocol=consumer, which is not served, it never will: set group.protocol=classic"
)

_Client = tuple[str, str]
HasMember = Callable[[str, str, str], bool]
"""Whether a group has a member with this client id and host."""


class Seeking(Protocol):
    """A connection."""

    client_id: str
    client_host: str
    software: str
    opened_s: int
    last_active_s: int
    requests: int
    """Handled so far."""
    lookups: int
    """Of these, the ones that only look something up: ApiVersions, Metadata, FindCoordinator."""


class _Seeker(NamedTuple):
    connection: Seeking
    group_id: str
    at_s: int


class Seekers:
    """Those who asked for the coordinator of a group and may get nowhere."""

    def __init__(self, unsupported: Unsupported, has_member: HasMember) -> None:
        self._unsupported = unsupported
        self._has_member = has_member
        self._seekers: deque[_Seeker] = deque()
        """The one that asked first in front."""

    def asked(self, connection: Seeking, group_id: str) -> None:
        """A connection asked for the coordinator of a group, just now."""
        now_s = connection.last_active_s
        if now_s - connection.opened_s <= NEW_S and len(self._seekers) < SEEKERS_MAX:
            self._seekers.append(_Seeker(connection, group_id, now_s))

    def look(self, connections: Iterable[Seeking], now_s: int) -> None:
        """Reports those who have waited long enough; ``connections`` are the open ones."""
        due: list[_Seeker] = []
        while self._seekers and now_s - self._seekers[0].at_s >= PATIENCE_S:
            due.append(self._seekers.popleft())
        if not due:
            return
        clients = {_client(seeker.connection) for seeker in due}
        found = {each for each in connections if _client(each) in clients}
        busy_s: dict[_Client, int] = {}
        for each in found:
            if each.requests > each.lookups:
                client = _client(each)
                busy_s[client] = max(each.opened_s, busy_s.get(client, each.opened_s))
        reported = set()
        for connection, group_id, at_s in due:
            client = _client(connection)
            if (
                connection in found
                and (client, group_id) not in reported
                and busy_s.get(client, 0) < at_s - NEW_S
                and not self._has_member(group_id, *client)
            ):
                reported.add((client, group_id))
                self._unsupported.asked(connection, API, _ADVICE.format(group=group_id))


def _client(connection: Seeking) -> _Client:
    return connection.client_id, connection.client_host
