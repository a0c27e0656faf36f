"""Clients that find the coordinator of their group and then send it no request.

A consumer with ``group.protocol=consumer`` (KIP-848), a share consumer and Streams of KIP-1071 see
in ApiVersions that their protocol is not served, and never send a request of it. Java's raise an
error. librdkafka (2.16) asks for the coordinator three times within 100 ms and then sends nothing
more, and its application gets no error.

Such a client is recognized by its behaviour. A new connection asks for a coordinator, and is still
open half a minute later. In that time the client has sent only lookups on all its new connections,
and the group has no member of it. A consumer of the classic protocol joins at once, or fetches; a
tool sends its own request. While the client remains stuck, the group's journal records it again.

A client that sends ConsumerGroupHeartbeat without reading ApiVersions is reported for its group
too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from broker.net.clients.unsupported import Unsupported
from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.headers import decode_request_header
from protocol.wire import read_compact_string

NEW_S = 10
"""How old a connection may be that asks."""
PATIENCE_S = 30
AGAIN_S = 300
"""Seconds between journal entries for a client that is still stuck: less than the default of
`group.verdict.refused.ms`, after which a refusal counts as past."""
SEEKERS_MAX = 1000

KEY, API = 68, "ConsumerGroupHeartbeat"
_ADVICE = (
    "it found the coordinator of group {group!r}, but sends no request for"
    " the group: with group.protocol=consumer, which is not served, it waits"
    " forever; set group.protocol=classic"
)

_Client = tuple[str, str]
HasMember = Callable[[str, str, str], bool]
"""Whether a group has a member with this client id and host."""
OnRefused = Callable[[Any, str], None]
"""Is called with the connection of a client that uses the new protocol, and its group's id."""


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


class _StuckClient(NamedTuple):
    connection: Seeking
    group_id: str
    at_s: int
    """The time of its request for the coordinator."""
    due_s: int
    """When it has waited long enough."""


class StuckClients:
    """Clients that asked for the coordinator of a group and may be stuck."""

    def __init__(
        self, unsupported: Unsupported, has_member: HasMember, on_refused: OnRefused
    ) -> None:
        self._unsupported = unsupported
        self._has_member = has_member
        self._on_refused = on_refused
        self._stuck_clients: deque[_StuckClient] = deque()
        """The one that asked first in front."""
        self._again: deque[_StuckClient] = deque()
        """The reported clients that are still stuck, the next one due in front."""

    def asked(self, connection: Seeking, group_id: str) -> None:
        """Records that a connection has asked for the coordinator of a group."""
        now_s = connection.last_active_s
        if now_s - connection.opened_s <= NEW_S and len(self._stuck_clients) < SEEKERS_MAX:
            self._stuck_clients.append(
                _StuckClient(connection, group_id, now_s, now_s + PATIENCE_S)
            )

    def sent(self, connection: Seeking, frame: Buffer) -> None:
        """A ConsumerGroupHeartbeat was sent, though ApiVersions does not list it."""
        try:
            group_id, _ = read_compact_string(frame, decode_request_header(frame).position)
        except (ProtocolError, IndexError, UnicodeDecodeError):
            return
        self._on_refused(connection, group_id)

    def look(self, connections: Iterable[Seeking], now_s: int) -> None:
        """Reports the clients that have waited long enough; ``connections`` are the open ones."""
        due = [*_due(self._stuck_clients, now_s), *_due(self._again, now_s)]
        if not due:
            return
        clients = {_client(seeker.connection) for seeker in due}
        found = {each for each in connections if _client(each) in clients}
        there = {_client(each) for each in found}
        busy_s: dict[_Client, int] = {}
        for each in found:
            if each.requests > each.lookups:
                client = _client(each)
                busy_s[client] = max(each.opened_s, busy_s.get(client, each.opened_s))
        reported = set()
        for seeker in due:
            connection, group_id = seeker.connection, seeker.group_id
            client = _client(connection)
            is_first = seeker.due_s == seeker.at_s + PATIENCE_S
            if (
                # Later the connection may have been closed as an idle one.
                (connection in found if is_first else client in there)
                and (client, group_id) not in reported
                and busy_s.get(client, 0) < seeker.at_s - NEW_S
                and not self._has_member(group_id, *client)
            ):
                reported.add((client, group_id))
                if is_first:
                    advice = _ADVICE.format(group=group_id)
                    self._unsupported.asked(connection, API, advice)
                self._on_refused(connection, group_id)
                if len(self._again) < SEEKERS_MAX:
                    self._again.append(seeker._replace(due_s=now_s + AGAIN_S))


def _due(stuck_clients: deque[_StuckClient], now_s: int) -> Iterator[_StuckClient]:
    """Takes those out that are due."""
    while stuck_clients and stuck_clients[0].due_s <= now_s:
        yield stuck_clients.popleft()


def _client(connection: Seeking) -> _Client:
    return connection.client_id, connection.client_host
