"""Detects clients that look up the coordinator of a group and then send no request for the group.

Three kinds of clients behave so: a consumer with ``group.protocol=consumer`` (KIP-848), a share
consumer, and a Streams client of KIP-1071. Such a client reads in the ApiVersions response that the
broker does not support its protocol, and then sends no request of that protocol. Java clients raise
an error. librdkafka (2.16) sends FindCoordinator three times within 100 ms and then nothing more,
and its application gets no error.

The broker recognizes such a client by these facts: a new connection sent FindCoordinator and is
still open half a minute later; since then the client has sent only lookups on all its new
connections; and the client is not a member of the group. A consumer of the classic protocol would
have joined or fetched; a tool would have sent its own request. As long as the client is stuck, the
group's journal records the client again every `AGAIN_S`.

A client that sends ConsumerGroupHeartbeat without first reading ApiVersions is also reported.
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
"""A connection is new if it sends FindCoordinator within this number of seconds after it opened."""
PATIENCE_S = 30
AGAIN_S = 300
"""The number of seconds between two journal entries for a client that is still stuck. The interval
is shorter than the default of `group.verdict.refused.ms`, after which the problem of a rejected
client counts as resolved."""
SEEKERS_MAX = 1000

KEY, API = 68, "ConsumerGroupHeartbeat"
_ADVICE = (
    "the client found the coordinator of group {group!r}, but sends no request for this group:"
    " a client with group.protocol=consumer, which this broker does not support, waits forever;"
    " set group.protocol=classic"
)

_Client = tuple[str, str]
HasMember = Callable[[str, str, str], bool]
"""Returns True if a group has a member with this client id and host; the arguments are group id,
client id and host."""
OnRefused = Callable[[Any, str], None]
"""A function that is called with the connection of a client that uses the new group protocol, and
with the group id."""


class Seeking(Protocol):
    """The connection of a client that may be stuck."""

    client_id: str
    client_host: str
    software: str
    opened_s: int
    last_active_s: int
    requests: int
    """The number of requests of the connection that were handled."""
    lookups: int
    """The number of handled requests that only look something up: ApiVersions, Metadata and
    FindCoordinator requests."""


class _StuckClient(NamedTuple):
    connection: Seeking
    group_id: str
    at_s: int
    """The time at which the client sent FindCoordinator, in seconds."""
    due_s: int
    """The time at which the client is next checked."""


class StuckClients:
    """Clients that sent FindCoordinator for a group and may be stuck."""

    def __init__(
        self, unsupported: Unsupported, has_member: HasMember, on_refused: OnRefused
    ) -> None:
        self._unsupported = unsupported
        self._has_member = has_member
        self._on_refused = on_refused
        self._stuck_clients: deque[_StuckClient] = deque()
        """The clients that have not been reported, in the order of their FindCoordinator requests.
        """
        self._again: deque[_StuckClient] = deque()
        """The reported clients that are still stuck, in the order of their next check."""

    def asked(self, connection: Seeking, group_id: str) -> None:
        """Records a FindCoordinator request for a group."""
        now_s = connection.last_active_s
        if now_s - connection.opened_s <= NEW_S and len(self._stuck_clients) < SEEKERS_MAX:
            self._stuck_clients.append(
                _StuckClient(connection, group_id, now_s, now_s + PATIENCE_S)
            )

    def sent(self, connection: Seeking, frame: Buffer) -> None:
        """Reports a client that sent ConsumerGroupHeartbeat although ApiVersions does not list this
        API."""
        try:
            group_id, _ = read_compact_string(frame, decode_request_header(frame).position)
        except (ProtocolError, IndexError, UnicodeDecodeError):
            return
        self._on_refused(connection, group_id)

    def look(self, connections: Iterable[Seeking], now_s: int) -> None:
        """Reports the clients that have been stuck for `PATIENCE_S`; ``connections`` contains the
        open connections."""
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
    """Removes and yields the clients whose time for the next check has been reached."""
    while stuck_clients and stuck_clients[0].due_s <= now_s:
        yield stuck_clients.popleft()


def _client(connection: Seeking) -> _Client:
    return connection.client_id, connection.client_host
