"""A connection after its login: its principal, the session's lifetime, and re-authentication
(KIP-368).

Each connection has a table of the APIs that it serves. When the session expires, the session
replaces this table by a table with SaslHandshake alone, so that the other requests need not check
the time. During a re-authentication the connection serves only SaslAuthenticate. An idle connection
stays open after the expiry.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from broker.authentication.logins import (
    EXPIRED,
    LOGINS,
    RENEWAL_FAILED,
    RENEWED,
    TOO_MANY_FAILED,
    Logins,
)
from broker.authentication.mechanisms import ListenerSasl
from broker.loop.histogram import Histogram
from broker.net.connection import Connection
from broker.net.peer import network_of
from broker.net.request import Handler, Request, Route
from broker.net.response import error_frame
from protocol.errors import ILLEGAL_SASL_STATE
from security.sasl.exchange import SASL_AUTHENTICATE, SASL_HANDSHAKE, Exchange, Reply, Then


class Session:
    """The SASL session of one connection, from its login to its close."""

    def __init__(
        self, logins: Logins, sasl: ListenerSasl, exchange: Exchange, connection: Connection
    ) -> None:
        self._logins = logins
        self._sasl = sasl
        self._exchange = exchange
        self._connection = connection
        self._address = network_of(connection.client_host[1:])
        """The network address of the client, under which its failed logins are counted."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_renewed = False
        """True while a re-authentication is in progress."""
        self._tried: str | None = None
        """The user name in the credentials of the current request; None if the request has no
        credentials."""

    def begin(self) -> None:
        """Starts the session after a login or a re-authentication."""
        login = self._exchange.login
        assert login is not None
        connection = self._connection
        connection.session = self
        connection.login = login
        connection.principal = login.principal
        self._cancel()
        if login.expires_ms is not None:
            self._wait_for_end(login.expires_ms)

    def ended(self) -> None:
        """Cancels the session's timer; called when the connection is closed."""
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the expiry of a session

    def _wait_for_end(self, expires_ms: int) -> None:
        time = self._logins.time
        left_ms = expires_ms - time.now().mono_ms
        if left_ms > 0:
            self._timer = time.call_later(left_ms / 1000, self._wait_for_end, expires_ms)
        else:
            self._timer = None
            if not self._is_renewed:
                self._connection.serve_by(self._routes(_late))

    def late(self, request: Request) -> None:
        """Handles a request that arrives after the expiry of the session. SaslHandshake starts a
        re-authentication; any other request closes the connection."""
        if request.served.api.key == SASL_HANDSHAKE:
            self.renew(request)
        else:
            self._cut(request)

    def _cut(self, request: Request) -> None:
        self._count(EXPIRED)
        self._log_failure(
            "session expired",
            "a request arrived after the session expired: the client did not reauthenticate",
            request,
        )
        self._connection.drain()

    # -- re-authentication

    def renew(self, request: Request) -> None:
        """Handles a SaslHandshake, which starts a re-authentication."""
        reply = self._exchange.renew(request.api_version, request.value, self._logins.time.now())
        if reply is None:
            login = self._exchange.login
            assert login is not None
            if login.expires_ms is not None and self._timer is None:
                self._cut(request)
            else:
                request.respond({"error_code": ILLEGAL_SASL_STATE, "mechanisms": []})
        elif self._exchange.takes_raw:
            self._fail(request, "reauthentication with SaslHandshake v0 is not supported", None)
        elif reply.then == Then.GO_ON:
            self._is_renewed = True
            self._connection.serve_by(self._routes(_renewing))
            self._answer(request, reply)
        else:
            self._do(request, reply)

    def renewing(self, request: Request) -> None:
        """Handles a request during a re-authentication."""
        key = request.served.api.key
        body: Mapping[str, Any] = request.value if key == SASL_AUTHENTICATE else {}
        if len(request.buffer) - request.position > self._sasl.frame_bytes_max:
            self._fail(request, "message exceeds sasl.server.max.receive.size", None)
            return
        wait_ms: int | None = 0
        self._tried = None
        if key == SASL_AUTHENTICATE:
            # A logged-in user might guess other users' passwords by re-authentication, so the bound
            # also applies here.
            self._tried = self._exchange.tries(body["auth_bytes"])
        if self._tried is not None:
            now_ms = self._logins.time.now().mono_ms
            wait_ms = self._logins.guesses.wait_ms(self._address, self._tried, now_ms)
        if wait_ms is None:
            self._fail(request, TOO_MANY_FAILED, None, is_judged=False)
        elif not wait_ms:
            self._judge(request, body)
        else:
            request.park()
            self._cancel()
            self._timer = self._logins.time.call_later(wait_ms / 1000, self._go_on, request, body)

    def _go_on(self, request: Request, body: Mapping[str, Any]) -> None:
        """Continues a re-authentication that had to wait because of failed logins."""
        self._timer = None
        began_ns = self._logins.time.ticks_ns()
        self._judge(request, body)
        self._connection.server.watchdog.ended(LOGINS, began_ns)

    def _judge(self, request: Request, body: Mapping[str, Any]) -> None:
        key, version = request.served.api.key, request.api_version
        self._do(request, self._exchange.request(key, version, body, self._logins.time.now()))

    def _do(self, request: Request, reply: Reply) -> None:
        name, self._tried = self._tried, None
        if name is not None:
            self._logins.guesses.judged(
                self._address,
                name,
                self._logins.time.now().mono_ms,
                is_right=reply.then == Then.LOGGED_IN,
            )
        match reply.then:
            case Then.GO_ON:
                self._answer(request, reply)
            case Then.LOGGED_IN:
                self._is_renewed = False
                self._connection.serve_by(self._connection.server.routes)
                self.begin()
                self._count(RENEWED)
                self._answer(request, reply)
            case Then.FAIL:
                self._fail(request, reply.reason or "", reply)
            case _:
                self._fail(request, reply.reason or "", None, delayed=False)

    def _answer(self, request: Request, reply: Reply) -> None:
        assert not isinstance(reply.answer, bytes)
        request.respond(dict(reply.answer or {}), reply.error_code)

    def _fail(
        self,
        request: Request,
        reason: str,
        reply: Reply | None,
        *,
        delayed: bool = True,
        is_judged: bool = True,
    ) -> None:
        """Logs and counts a failed re-authentication. After the failure delay, sends ``reply`` if
        it is not None, and closes the connection."""
        self._cancel()
        if is_judged:
            self._count(RENEWAL_FAILED)
        self._log_failure("reauthentication failed", reason, request)
        request.park()
        if delayed:
            delay_s = self._sasl.failure_delay_ms / 1000
            self._timer = self._logins.time.call_later(delay_s, self._refuse, request, reply)
        else:
            self._connection.drain()

    def _refuse(self, request: Request, reply: Reply | None) -> None:
        self._timer = None
        connection = self._connection
        if connection.closed:
            return
        if reply is not None and reply.answer is not None:
            if reply.answer:
                self._answer(request, reply)
            else:
                frame = error_frame(request, reply.error_code)
                if frame is not None:
                    request.complete(frame, reply.error_code)
        connection.drain()

    # -- parts

    def _routes(self, handle: Handler) -> dict[int, Route]:
        """Returns a route to ``handle`` for every API and version."""
        found = self._logins.routes.get(handle)
        if found is None:
            found = self._logins.routes[handle] = {
                code: _route(route, handle)
                for code, route in self._connection.server.routes.items()
            }
        return found

    def _count(self, result: str) -> None:
        listener = self._connection.listener.name
        login = self._exchange.login
        assert login is not None
        self._logins.counted(listener, login.mechanism, result)

    def _log_failure(self, event: str, reason: str, request: Request) -> None:
        connection = self._connection
        login = self._exchange.login
        assert login is not None
        self._logins.failed(
            event, connection.peer, self._address, connection.listener.name,
            login.mechanism, request.client_id, reason,
        )  # fmt: skip


def _late(_: object, request: Request) -> None:
    assert request.connection.session is not None
    request.connection.session.late(request)


def _renewing(_: object, request: Request) -> None:
    assert request.connection.session is not None
    request.connection.session.renewing(request)


def _route(like: Route, handle: Handler) -> Route:
    # The route is separate, since metrics of requests do not include logins.
    route = Route(like.served, like.api_version, like.flexible, defaultdict(int), Histogram())
    route.handle = handle
    return route
