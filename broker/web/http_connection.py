"""One HTTP connection: uvicorn's, with bounds on what a peer may keep open.

uvicorn waits for the rest of a request, and for an answer to be read, without limit. Here a request
must be complete within a time, an answer that nobody reads is dropped, and the number of
connections is bounded, so that they do not take the descriptors that Kafka's listeners need.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from broker.time import Time
from security.principal import Principal

_AWAITED = (h11.IDLE, h11.SEND_BODY, h11.ERROR)
"""States of the peer in which it is its turn."""


CERTIFIED = "muster.certified"
"""In the state of each request: the principal of the connection's certificate."""


class HttpLimits(NamedTuple):
    """What the connections are held to."""

    connections: int = 128
    """At the same time; `/api/live` has 32 of them at most."""
    request_s: float = 10.0
    """From the connection's beginning, or the last answer, to the end of a request."""
    idle_s: int = 5
    """A connection that waits for its next request is closed after so long."""
    unread_s: float = 30.0
    """In so long a peer has to read ``unread_bytes`` of what waits for it, or all."""
    unread_bytes: int = 16384
    head_bytes: int = 16384
    """Of a request's line and headers."""


HTTP_LIMITS = HttpLimits()


class BoundedConnection(H11Protocol):
    """uvicorn's connection within ``limits``.

    One timer runs while the peer has to send, another while it has to read.
    """

    def __init__(self, *args: Any, limits: HttpLimits, time: Time, **more: Any) -> None:
        super().__init__(*args, **more)
        self._limits = limits
        self._time = time
        self._late: asyncio.TimerHandle | None = None
        """Set while a request is awaited."""
        self._unread: asyncio.TimerHandle | None = None
        """Set while much waits to be read, or the end of the last answer."""
        self._since_s = 0.0
        """When it became the peer's turn."""
        self._left = 0
        """Bytes that the peer had not read when it was last looked at."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if there are too many, close the one that has waited longest."""
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > self._limits.connections:
            waiting = [
                each
                for each in self.connections
                if isinstance(each, BoundedConnection) and each._late is not None
            ]
            min(waiting, key=lambda each: each._since_s)._end()

    @property
    def principal(self) -> Principal | None:
        """Whom the peer's certificate stands for; None without one."""
        found = self.app_state.get(CERTIFIED)
        assert found is None or isinstance(found, Principal)
        return found

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self.app_state = {**self.app_state, CERTIFIED: principal}

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka's connections have it."""
        return f"/{self.client[0]}" if self.client else "/"

    @property
    def peer(self) -> str:
        """The peer's address and port."""
        return ":".join(map(str, self.client or ()))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets it."""
        self._stop_waiting()
        self._stop_looking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Goes on with a request; its time runs on until all of it is there."""
        super().data_received(data)
        if self.conn.their_state not in _AWAITED:
            self._stop_waiting()
        elif self._late is None:
            self._await_request()

    def on_response_complete(self) -> None:
        """Waits for the next request, or for the end of the answer to be read."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()
        elif self._late is None and self.conn.their_state in _AWAITED:
            self._await_request()

    def pause_writing(self) -> None:
        """More than a little waits to be read."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Most of it was read."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_looking()

    def _await_reading(self) -> None:
        if self._unread is None:
            self._left = self.transport.get_write_buffer_size()
            self._unread = self._time.call_later(self._limits.unread_s, self._look_at_reading)

    def _look_at_reading(self) -> None:
        self._unread = None
        read = self._left - self.transport.get_write_buffer_size()
        if read >= self._limits.unread_bytes:
            self._await_reading()
        else:
            self._end()

    def _stop_looking(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _await_request(self) -> None:
        self._since_s = self._time.monotonic_s()
        self._late = self._time.call_later(self._limits.request_s, self._too_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        self.transport.close()
        self._await_reading()  # what was answered may still be on its way to a slow peer

    def _end(self) -> None:
        self.connections.discard(self)
        self._stop_waiting()
        self.transport.abort()
