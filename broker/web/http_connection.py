"""An HTTP connection of uvicorn with limits on what a peer may keep open.

uvicorn waits without limit for the rest of a request, and for a peer to read an answer. Here a
request must be complete within a time, an answer that the peer does not read is dropped, and the
number of connections is bounded, so that they do not use up the file descriptors that Kafka's
listeners need.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from broker.time import Time
from security.principal import Principal

_AWAITED = (h11.IDLE, h11.SEND_BODY, h11.ERROR)
"""States in which the peer has to send."""


CERTIFIED = "muster.certified"
"""Key in the state of each request: the principal of the connection's certificate."""


class HttpLimits(NamedTuple):
    """The limits of connections."""

    connections: int = 128
    """At the same time; `/api/live` has at most 32 of them."""
    request_s: float = 10.0
    """From the start of the connection, or the last answer, to the end of a request."""
    idle_s: int = 5
    """A connection that is idle for this long is closed."""
    unread_s: float = 30.0
    """Within this time a peer must read ``unread_bytes``, or all that waits for it."""
    unread_bytes: int = 16384
    head_bytes: int = 16384
    """The size of a request's line and headers."""


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
        """Set while much data, or the end of the last answer, waits to be read."""
        self._since_s = 0.0
        """When the peer's turn to send began."""
        self._left = 0
        """Bytes that the peer had not read at the last check."""

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
        """The principal of the peer's certificate; None without one."""
        found = self.app_state.get(CERTIFIED)
        assert found is None or isinstance(found, Principal)
        return found

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self.app_state = {**self.app_state, CERTIFIED: principal}

    @property
    def client_host(self) -> str:
        """The peer's address in the form of Kafka's connections."""
        return f"/{self.client[0]}" if self.client else "/"

    @property
    def peer(self) -> str:
        """The peer's address and port."""
        return ":".join(map(str, self.client or ()))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_waiting()
        self._stop_looking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Continue a request; its timer runs until the request is complete."""
        super().data_received(data)
        if self.conn.their_state not in _AWAITED:
            self._stop_waiting()
        elif self._late is None:
            self._await_request()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the peer to read the end of the answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()
        elif self._late is None and self.conn.their_state in _AWAITED:
            self._await_request()

    def pause_writing(self) -> None:
        """Start the timer for reading: much data waits."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Stop the timer for reading: the peer has read most of it."""
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
        self._await_reading()  # the answer may still be on its way to a slow peer

    def _end(self) -> None:
        self.connections.discard(self)
        self._stop_waiting()
        self.transport.abort()
