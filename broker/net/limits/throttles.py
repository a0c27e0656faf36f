"""Throttled connections: the broker does not handle their requests until the throttle time ends.

A connection is throttled after the client has received the response with the throttle time. Bytes
that arrive during the throttle are treated like bytes after a parked request: they are stored up to
a limit, above which the socket is not read. Connections that are not throttled have no extra cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.time import Time

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.net.request import Request


class Throttle:
    """The throttle of one connection."""

    __slots__ = ("allowed", "before", "kind", "timer", "until_ms")

    def __init__(self, kind: str, allowed: float) -> None:
        self.kind = kind
        self.allowed = allowed
        self.before: Request | None = None
        """The request of this connection that was parked when the throttle began; None if no
        request was parked."""
        self.until_ms = 0
        self.timer: asyncio.TimerHandle | None = None


class Throttles:
    """The throttles of one broker; only the event loop's thread may use them."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._throttled: dict[Connection, Throttle] = {}

    def __len__(self) -> int:
        return len(self._throttled)

    def until_ms(self, connection: Connection) -> int:
        """Returns the monotonic time in ms at which a connection's throttle ends; 0 if the
        connection is not throttled."""
        throttle = self._throttled.get(connection)
        return 0 if throttle is None else throttle.until_ms

    def hold(self, connection: Connection, kind: str, allowed: float, wait_ms: int) -> None:
        """Throttles a connection: its requests are not handled for ``wait_ms``. Changes nothing if
        the connection already has a throttle that ends later."""
        if connection.closed:
            return
        until_ms = self._time.now().mono_ms + wait_ms
        throttle = self._throttled.get(connection)
        if throttle is None:
            throttle = Throttle(kind, allowed)
            throttle.before = connection.throttle(throttle)
            self._throttled[connection] = throttle
        elif throttle.until_ms >= until_ms:
            return
        else:
            throttle.kind, throttle.allowed = kind, allowed
        throttle.until_ms = until_ms
        if throttle.timer is not None:
            throttle.timer.cancel()
        throttle.timer = self._time.call_later(wait_ms / 1000, self._over, connection)

    def park(self, request: Request) -> bool:
        """Returns False if the connection is not throttled. Otherwise stores ``request``, so that
        the connection continues to wait for it when the throttle ends, and returns True."""
        throttle = self._throttled.get(request.connection)
        if throttle is None:
            return False
        throttle.before = request
        return True

    def forget(self, connection: Connection) -> None:
        throttle = self._throttled.pop(connection, None)
        if throttle is not None and throttle.timer is not None:
            throttle.timer.cancel()

    def look_again(self, allowed: Callable[[Connection, str], float | None]) -> None:
        """Ends the throttles whose quota was removed or raised; ``allowed`` returns the current
        limit."""
        for connection, throttle in list(self._throttled.items()):
            now = allowed(connection, throttle.kind)
            if now is None or now > throttle.allowed:
                self._let_go(connection)

    def _over(self, connection: Connection) -> None:
        throttle = self._throttled[connection]
        left_ms = throttle.until_ms - self._time.now().mono_ms
        if left_ms > 0:  # the mock clock was frozen in between
            throttle.timer = self._time.call_later(left_ms / 1000, self._over, connection)
        else:
            self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        throttle = self._throttled[connection]
        self.forget(connection)
        before = throttle.before
        if before is not None and before.reply is not None:
            before = None
        connection.throttle_over(throttle, before)
