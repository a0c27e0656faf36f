"""Unsupported requests of clients: APIs, versions and keys that this broker does not support.

Many clients do not report an unsupported request to their user. Therefore the broker counts these
requests by API, and logs at most one line per hour, client and API. `/metrics` and `/api/broker`
show the counts.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import structlog

from broker.net.peer import display_client_id
from broker.time import Time
from protocol.slotted import slotted

SAID_EVERY_MS = 3_600_000
CLIENTS_MAX = 1000
"""The maximum number of remembered pairs of client and API. Above the maximum, the pair whose last
request is oldest is dropped."""

logger = structlog.get_logger(__name__)


class Asking(Protocol):
    """The connection of a client that sends an unsupported request."""

    client_id: str
    client_host: str
    software: str


@slotted
class Wanted:
    """The unsupported requests of one client for one API."""

    api: str
    client_id: str
    host: str
    software: str
    """The name and version of the client's software; "" if the client did not send them
    (KIP-511)."""
    advice: str
    """A sentence that names the unsupported API, version or key, and says how to fix the client."""
    count: int
    last_ms: int
    """The wall time in ms of the client's last unsupported request for the API."""
    said_ms: int
    """The monotonic time in ms of the last log line about the client's unsupported requests for the
    API."""


class Unsupported:
    """Counts the unsupported requests of each client, and logs them at most once per hour."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self.counts = Counter[str]()
        """The number of unsupported requests by API. An API has an entry only after an unsupported
        request, since entries for all APIs would require the import of all API tables."""
        self._wanted: dict[tuple[str, str, str], Wanted] = {}

    def asked(self, connection: Asking, api: str, advice: str) -> None:
        """Counts an unsupported request of the API ``api``; ``advice`` names the unsupported part
        and the fix."""
        self.counts[api] += 1
        now = self._time.now()
        client_id = display_client_id(connection.client_id)
        key = (api, client_id, connection.client_host)
        wanted = self._wanted.pop(key, None)
        if wanted is None:
            said_ms = now.mono_ms - SAID_EVERY_MS
            wanted = Wanted(*key, connection.software, advice, 0, now.wall_ms, said_ms)
        self._wanted[key] = wanted
        if len(self._wanted) > CLIENTS_MAX:
            del self._wanted[next(iter(self._wanted))]
        wanted.software, wanted.advice = connection.software, advice
        wanted.count += 1
        wanted.last_ms = now.wall_ms
        if now.mono_ms - wanted.said_ms >= SAID_EVERY_MS:
            wanted.said_ms = now.mono_ms
            logger.warning(
                "unsupported request",
                api=api,
                client_id=client_id,
                host=connection.client_host,
                software=wanted.software,
                advice=advice,
            )

    def wanted(self) -> list[Wanted]:
        """Returns all remembered requests, the most recent first."""
        return list(reversed(self._wanted.values()))
