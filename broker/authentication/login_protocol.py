"""The asyncio protocol of a connection until its login succeeds.

The protocol is between the transport and the `Connection`. It reads the frames of a login one at a
time (at most ``sasl.server.max.receive.size`` each), delays the report of a failure, and has a
deadline. `security/sasl/exchange.py` decides the reply to each frame. After the login the transport
calls the `Connection` directly, so that SASL costs nothing from then on. Bytes after the last frame
of the login are the connection's first input.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from broker.authentication.logins import (
    FAILURE,
    LOGIN_S_MAX,
    LOGINS,
    NO_MECHANISM,
    SUCCESS,
    TOO_MANY_FAILED,
    Logins,
)
from broker.authentication.mechanisms import ListenerSasl
from broker.authentication.session import Session
from broker.loop.histogram import Histogram
from broker.net.connection import Connection
from broker.net.long_requests import DECODED_AT_ONCE
from broker.net.peer import network_of
from broker.net.request import Request, Route
from broker.net.response import error_frame, unsupported_api_versions
from protocol.errors import NONE, ProtocolError
from protocol.headers import (
    MIN_REQUEST_BYTES,
    RequestHeader,
    decode_request_header,
    response_header,
)
from protocol.messages import BY_KEY
from security.sasl.exchange import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Reply,
    Then,
)

READ_WITHIN_S: Final = 0.05
"""The time in seconds between the response to a failed login and the close of the connection. If
response and close arrive together, kafka-python reports only a lost connection."""
FRAMES_MAX: Final = 64
"""The maximum number of frames of one login. A login needs at most six frames, unless the client
tries ApiVersions in unknown versions."""
_LENGTH: Final = struct.Struct(">i")
_OF_SASL: Final = (SASL_HANDSHAKE, SASL_AUTHENTICATE)
_TLS: Final = (b"\x16\x03", b"\x80")
"""The first bytes that a TLS client and an SSL 2.0 client send."""


class LoginProtocol(asyncio.Protocol):
    """The protocol of one connection that must log in."""

    def __init__(self, logins: Logins, sasl: ListenerSasl, connection: Connection) -> None:
        self._logins = logins
        self._sasl = sasl
        self._connection = connection
        self._exchange = sasl.exchange()
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._held_bytes = 0
        """The part of `Logins.held_bytes` that belongs to this login."""
        self._frames = 0
        self._client_id = ""
        self._has_ended = False
        """True if the login has succeeded or failed; no more bytes are read then."""
        self._waits = False
        """True while a received frame waits for the check of its password. Bytes that arrive in
        this time wait as well."""
        self._tried: str | None = None
        """The user name in the credentials of the current frame; None if the frame has no
        credentials."""
        self._deadline: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self.address = ""
        """The network address of the client, under which its failed logins are counted."""

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection, and starts the deadline of the login."""
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)
        if self._connection.closed:
            self._has_ended = True
            return
        self.address = network_of(self._connection.client_host[1:])
        self._deadline = self._logins.time.call_later(LOGIN_S_MAX, self._too_late)
        self._logins.came(self)

    def data_received(self, data: bytes) -> None:
        if self._has_ended:
            return
        connection = self._connection
        connection.bytes_in += len(data)
        connection.last_active_s = connection.server.now_s
        began_ns = connection.read_ns = connection.ticks_ns()
        self._received += data
        self._go_on()
        connection.server.watchdog.ended(LOGINS, began_ns)

    def eof_received(self) -> bool | None:
        """Returns None, so that the transport closes when the peer has closed its side."""
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Does nothing: a login writes few bytes, and the deadline of the login also applies to a
        client that does not read them."""

    def resume_writing(self) -> None:
        """Does nothing, because `pause_writing` does not pause a login."""

    # -- the calls of `Logins`

    @property
    def held_bytes(self) -> int:
        """The number of received bytes of the incomplete frame."""
        return len(self._received)

    def cut(self, reason: str) -> None:
        self._fail(reason, None, delayed=False)

    # -- frames

    def _go_on(self) -> None:
        """Handles the received complete frames, until one of them must wait."""
        received = self._received
        while not self._has_ended and not self._waits and len(received) >= _LENGTH.size:
            size = _LENGTH.unpack_from(received)[0]
            if not self._may_be(size):
                return
            end = _LENGTH.size + size
            if len(received) < end:
                break
            frame = bytes(received[_LENGTH.size : end])
            del received[:end]
            self._frames += 1
            if self._frames > FRAMES_MAX:
                self._fail(f"the client did not log in within {FRAMES_MAX} messages", None)
                return
            self._take(frame)
        if not self._has_ended:
            self._count_held()

    def _count_held(self) -> None:
        more = len(self._received) - self._held_bytes
        if more:
            self._held_bytes += more
            self._logins.holds(more)

    def _may_be(self, size: int) -> bool:
        """Returns True if a frame may have ``size`` bytes; otherwise ends the login as failed."""
        if self._received.startswith(_TLS) and self._frames == 0:
            self._fail(
                "a TLS client connected to a listener without TLS:"
                " check the client's security.protocol",
                None,
            )
            return False
        least = 0 if self._exchange.takes_raw else MIN_REQUEST_BYTES
        if least <= size <= self._sasl.frame_bytes_max:
            return True
        bound = self._sasl.frame_bytes_max
        if size < least:
            self._fail(f"message of {size} bytes is too small for a request", None)
        else:
            text = f"message of {size} bytes exceeds sasl.server.max.receive.size={bound}"
            self._fail(text, None)
        return False

    def _take(self, frame: bytes) -> None:
        """Handles one frame. If recent logins of the same user name failed, waits before the
        password is checked."""
        try:
            if self._exchange.takes_raw:
                self._in_turn(frame, lambda: self._judge_raw(frame))
                return
            header = decode_request_header(frame)
            self._client_id = header.client_id or ""
            if header.api_key == API_VERSIONS:
                self._api_versions(header, frame)
                return
            body: Mapping[str, Any] = {}
            if header.api_key in _OF_SASL:
                api = BY_KEY[header.api_key]
                api.count_elements(header.api_version, frame, header.position, DECODED_AT_ONCE)
                body = api.decode_request(header.api_version, frame, header.position)
        except ProtocolError as error:
            self._fail(f"unexpected request before login: {error}", None)
            return
        if header.api_key == SASL_AUTHENTICATE:
            self._in_turn(body["auth_bytes"], lambda: self._judge(header, frame, body))
        else:
            self._judge(header, frame, body)

    def _in_turn(self, token: bytes, judge: Callable[[], None]) -> None:
        wait_ms: int | None = 0
        name = self._tried = self._exchange.tries(token)
        if name is not None:
            wait_ms = self._logins.guesses.wait_ms(self.address, name, self._now().mono_ms)
        if wait_ms is None:
            self._fail(TOO_MANY_FAILED, None, is_judged=False)
        elif not wait_ms:
            judge()
        else:
            self._wait(wait_ms / 1000, judge)

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        """Stops reading from the connection for ``seconds``, then calls ``then``."""
        self._waits = True
        self._transport.pause_reading()
        self._pause = self._logins.time.call_later(seconds, self._resume, then)

    def _resume(self, then: Callable[[], None]) -> None:
        self._waits = False
        self._pause = None
        began_ns = self._logins.time.ticks_ns()
        self._transport.resume_reading()
        then()
        self._go_on()
        self._connection.server.watchdog.ended(LOGINS, began_ns)

    def _judge(self, header: RequestHeader, frame: bytes, body: Mapping[str, Any]) -> None:
        reply = self._exchange.request(header.api_key, header.api_version, body, self._now())
        self._do(reply, lambda: self._encoded(reply, header, frame))

    def _judge_raw(self, token: bytes) -> None:
        reply = self._exchange.token(token, self._now())
        answer = reply.answer
        self._do(
            reply,
            lambda: _LENGTH.pack(len(answer)) + answer if isinstance(answer, bytes) else None,
        )

    def _do(self, reply: Reply, answer: Callable[[], bytes | None]) -> None:
        name, self._tried = self._tried, None
        if name is not None:
            self._logins.guesses.judged(
                self.address, name, self._now().mono_ms, is_right=reply.then == Then.LOGGED_IN
            )
        match reply.then:
            case Then.GO_ON:
                self._write(answer())
            case Then.LOGGED_IN:
                self._write(answer())
                self._let_in()
            case Then.CLOSE:
                self._fail(reply.reason or "", None, delayed=False)
            case _:
                self._fail(reply.reason or "", answer())

    # -- responses

    def _encoded(self, reply: Reply, header: RequestHeader, frame: bytes) -> bytes | None:
        """Returns the encoded response; None if the request gets no response."""
        if reply.answer is None:
            return None
        if header.api_key not in _OF_SASL:
            route = self._connection.server.routes.get(header.api_key << 16 | header.api_version)
            if route is None:
                return None
            return error_frame(self._request(route, header, frame), reply.error_code)
        assert not isinstance(reply.answer, bytes)
        body = BY_KEY[header.api_key].encode_response(header.api_version, dict(reply.answer))
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return b"".join((_LENGTH.pack(len(head) + len(body)), head, body))

    def _api_versions(self, header: RequestHeader, frame: bytes) -> None:
        """Handles an ApiVersions request before the login. A client may send one such request, and
        another one after an error."""
        reply = self._exchange.request(API_VERSIONS, header.api_version, {}, self._now())
        if reply.then != Then.SERVE:
            self._do(reply, lambda: self._encoded(reply, header, frame))
            return
        server = self._connection.server
        row = server.served[API_VERSIONS]
        if not row.min_version <= header.api_version <= row.max_version:
            correlation_id = header.correlation_id
            self._write(unsupported_api_versions(correlation_id, row.min_version, row.max_version))
            return
        row.api.count_elements(header.api_version, frame, header.position, DECODED_AT_ONCE)
        flexible = row.api.is_flexible(header.api_version)
        # The route is separate, since metrics of requests do not include logins.
        route = Route(row, header.api_version, flexible, defaultdict(int), Histogram())
        request = self._connection.handling = self._request(route, header, frame)
        try:
            row.handle(server.services, request)
        finally:
            self._connection.handling = None
        assert isinstance(request.reply, bytes)
        self._exchange.served(max(route.errors, default=NONE))
        self._write(request.reply)

    def _request(self, route: Route, header: RequestHeader, frame: bytes) -> Request:
        return Request(
            self._connection, route, header.correlation_id, self._client_id, frame, header.position
        )

    def _write(self, frame: bytes | None) -> None:
        if frame is not None:
            self._connection.bytes_out += len(frame)
            self._transport.write(frame)

    # -- ends

    def _let_in(self) -> None:
        """Ends a successful login. From then on the transport calls the `Connection` directly."""
        self._end()
        connection, transport = self._connection, self._transport
        login = self._exchange.login
        assert login is not None
        self._logins.counted(connection.listener.name, login.mechanism, SUCCESS)
        Session(self._logins, self._sasl, self._exchange, connection).begin()
        rest, self._received = bytes(self._received), bytearray()
        transport.set_protocol(connection)
        if rest:
            connection.bytes_in -= len(rest)  # the connection counts these bytes again
            connection.data_received(rest)

    def _fail(
        self,
        reason: str,
        answer: bytes | None,
        *,
        delayed: bool = True,
        is_judged: bool = True,
    ) -> None:
        """Logs and counts a failed login, and closes the connection after the failure delay."""
        if self._has_ended:
            return
        self._end()
        self._received.clear()
        self._transport.pause_reading()
        connection, logins = self._connection, self._logins
        listener = connection.listener.name
        mechanism = self._exchange.mechanism_name or NO_MECHANISM
        if is_judged:
            logins.counted(listener, mechanism, FAILURE)
        logins.failed(
            "login failed", connection.peer, self.address, listener, mechanism, self._client_id,
            reason,
        )  # fmt: skip
        if delayed:
            delay_s = self._sasl.failure_delay_ms / 1000
            self._pause = logins.time.call_later(delay_s, self._close, answer)
        else:
            self._close(None)

    def _close(self, answer: bytes | None) -> None:
        self._pause = None
        if self._connection.closed:
            return
        if answer is None:
            self._connection.close()
            return
        self._write(answer)
        self._pause = self._logins.time.call_later(READ_WITHIN_S, self._connection.close)

    def _too_late(self) -> None:
        self._fail(f"the client did not log in within {LOGIN_S_MAX:g} s", None, delayed=False)

    def _end(self) -> None:
        """Called after a successful or failed login. Cancels the timers of the login, and subtracts
        its undecoded bytes from the total that `Logins` keeps for all logins."""
        self._has_ended = True
        for timer in (self._deadline, self._pause):
            if timer is not None:
                timer.cancel()
        self._deadline = self._pause = None
        self._logins.gone(self)
        if self._held_bytes:
            self._logins.holds(-self._held_bytes)
            self._held_bytes = 0

    def _now(self) -> Any:
        return self._logins.time.now()
