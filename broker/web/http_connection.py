"""An HTTP connection of uvicorn, with limits on unfinished requests and unread responses.

uvicorn waits forever for the end of a request, and for a peer to read a response. This class adds
three limits: a time limit for a complete request, a time limit for reading a response, and a
maximum number of connections. Therefore HTTP can't use up the file descriptors that Kafka's
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
"""The states of a connection in which the peer must send data."""


CERTIFIED = "muster.certified"
"""The key in a request's state for the principal in the connection's certificate."""


class HttpLimits(NamedTuple):
    """The limits of HTTP connections."""

    connections: int = 128
    """The maximum number of simultaneous connections. At most 32 of them may be to `/api/live`."""
    request_s: float = 10.0
    """The maximum number of seconds for receiving a complete request, counted from the start of the
    connection or from the last response."""
    idle_s: int = 5
    """The number of seconds without a request after which a connection is closed."""
    unread_s: float = 30.0
    """The number of seconds within which a peer must read ``unread_bytes`` bytes, or all waiting
    bytes if there are fewer. Otherwise its connection is closed."""
    unread_bytes: int = 16384
    head_bytes: int = 16384
    """The maximum size in bytes of the request line and the headers."""


HTTP_LIMITS = HttpLimits()


class BoundedConnection(H11Protocol):
    """A connection of uvicorn that enforces ``limits``. One timer runs while the peer must send
    data. Another timer runs while the peer must read data."""

    def __init__(self, *args: Any, limits: HttpLimits, time: Time, **more: Any) -> None:
        super().__init__(*args, **more)
        self._limits = limits
        self._time = time
        self._late: asyncio.TimerHandle | None = None
        """The timer that closes the connection if the next request is not complete in time. None
        while no request is awaited."""
        self._unread: asyncio.TimerHandle | None = None
        """The timer that closes the connection if the peer does not read. It is set while much
        data, or the end of the last response, waits to be read."""
        self._since_s = 0.0
        """The time in seconds at which the broker began to wait for data from the peer."""
        self._left = 0
        """The number of response bytes that the peer had not read when the current timer for an
        unread response started."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection. If there are too many connections, closes the connection that has
        waited longest for data from its client."""
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
        """The principal in the peer's certificate; None without a certificate."""
        found = self.app_state.get(CERTIFIED)
        assert found is None or isinstance(found, Principal)
        return found

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self.app_state = {**self.app_state, CERTIFIED: principal}

    @property
    def client_host(self) -> str:
        """The peer's address in Kafka's form, such as ``/127.0.0.1``."""
        return f"/{self.client[0]}" if self.client else "/"

    @property
    def peer(self) -> str:
        return ":".join(map(str, self.client or ()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_looking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handles received bytes of a request. The timer runs until the request is complete."""
        super().data_received(data)
        if self.conn.their_state not in _AWAITED:
            self._stop_waiting()
        elif self._late is None:
            self._await_request()

    def on_response_complete(self) -> None:
        """Called when a response is complete. If the connection stays open, starts the timer that
        limits the time until the next request arrives. Otherwise starts the timer that limits the
        time in which the peer may read the response."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()
        elif self._late is None and self.conn.their_state in _AWAITED:
            self._await_request()

    def pause_writing(self) -> None:
        """Starts the timer for an unread response, since the peer has not read much of the data."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Stops the timer for an unread response, because the peer has read most of the data."""
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
        self._await_reading()  # a slow peer may not have received the response yet

    def _end(self) -> None:
        self.connections.discard(self)
        self._stop_waiting()
        self.transport.abort()
