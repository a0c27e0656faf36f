"""Detects clients that look up the coordinator of a group and then send no request for the group.

Three kinds of clients do so: a consumer with ``group.protocol=consumer`` (KIP-848), a share
consumer, and a Kafka Streams client of KIP-1071. Such a client learns from the ApiVersions response
that the broker does not support its protocol, and sends no request of that protocol. Java clients
raise an error. librdkafka 2.16 sends FindCoordinator three times within 100 ms and then nothing
more, and the application gets no error.

A client counts as stuck if all of these conditions are met. It sent FindCoordinator on a new
connection, which is still open half a minute later. Since then it has sent only lookups, on all its
new connections. It is not a member of the group. A consumer of the classic protocol would have sent
JoinGroup or Fetch, and a tool would have sent its own request. While a client is stuck, it is
recorded in the group's journal again every `AGAIN_S`.

A client that sends ConsumerGroupHeartbeat without reading ApiVersions first is also reported.
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
"""The age in seconds up to which a connection counts as new when it sends FindCoordinator."""
PATIENCE_S = 30
AGAIN_S = 300
"""The time in seconds between two journal entries about the same stuck client.

It is shorter than the default of `group.verdict.refused.ms`: if a client gets no new entry for that
long, its problem counts as solved.
"""
SEEKERS_MAX = 1000

KEY, API = 68, "ConsumerGroupHeartbeat"
_ADVICE = (
    "the client found the coordinator of group {group!r}, but sends no request for this group:"
    " a client with group.protocol=consumer, which this broker does not support, waits forever;"
    " set group.protocol=classic"
)

_Client = tuple[str, str]
HasMember = Callable[[str, str, str], bool]
"""A function that returns True if a group has a member of a client. Arguments: group id, client id
and client host."""
OnRefused = Callable[[Any, str], None]
"""A function that is called for each stuck client, with the connection of the client and the group
id."""


class Seeking(Protocol):
    """The connection of a client that may be stuck."""

    client_id: str
    client_host: str
    software: str
    opened_s: int
    last_active_s: int
    requests: int
    """The number of requests that were handled on this connection."""
    lookups: int
    """The number of handled requests that were ApiVersions, Metadata or FindCoordinator."""


class _StuckClient(NamedTuple):
    connection: Seeking
    group_id: str
    at_s: int
    """The time in seconds at which the client sent FindCoordinator."""
    due_s: int
    """The time in seconds of the next check of this client."""


class StuckClients:
    """Checks clients that sent FindCoordinator for a group, and reports those that are stuck."""

    def __init__(
        self, unsupported: Unsupported, has_member: HasMember, on_refused: OnRefused
    ) -> None:
        self._unsupported = unsupported
        self._has_member = has_member
        self._on_refused = on_refused
        self._stuck_clients: deque[_StuckClient] = deque()
        """The clients that have not been checked yet, in the order of their FindCoordinator
        requests."""
        self._again: deque[_StuckClient] = deque()
        """The clients that were reported as stuck, in the order of their next check."""

    def asked(self, connection: Seeking, group_id: str) -> None:
        """Remembers a client that sent FindCoordinator for a group on a new connection."""
        now_s = connection.last_active_s
        if now_s - connection.opened_s <= NEW_S and len(self._stuck_clients) < SEEKERS_MAX:
            self._stuck_clients.append(
                _StuckClient(connection, group_id, now_s, now_s + PATIENCE_S)
            )

    def sent(self, connection: Seeking, frame: Buffer) -> None:
        """Reports a client that sent ConsumerGroupHeartbeat, although the broker's ApiVersions
        response does not list this API."""
        try:
            group_id, _ = read_compact_string(frame, decode_request_header(frame).position)
        except (ProtocolError, IndexError, UnicodeDecodeError):
            return
        self._on_refused(connection, group_id)

    def look(self, connections: Iterable[Seeking], now_s: int) -> None:
        """Reports the clients that are due for a check and are stuck. ``connections`` are all open
        connections."""
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
                # A reported client's connection may have been closed as idle; another connection
                # counts.
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
    """Removes and yields the clients that are due for a check."""
    while stuck_clients and stuck_clients[0].due_s <= now_s:
        yield stuck_clients.popleft()


def _client(connection: Seeking) -> _Client:
    return connection.client_id, connection.client_host
