"""One client connection: receives bytes, handles requests in order, and sends replies in the same
order.

A connection has its own buffers with limits. It handles a request as soon as the request's last
byte has arrived. A reply waits in a slot until all earlier replies are finished. Finished replies
are written together.

Three conditions delay requests: a parked request, a client that does not read its replies, and too
many requests in flight. Delayed requests wait in a backlog. When the backlog exceeds
`BACKLOG_BYTES`, the connection stops reading the socket.

`Pieces` writes replies that contain parts of files. `TurnWrites` collects the connections whose
replies are written at the end of the turn.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import TYPE_CHECKING, cast

import structlog

from broker.loop.watchdog import HELD_NS_MAX, Watchdog
from broker.net.long_requests import SURELY_SMALL_BYTES
from broker.net.peer import display_client_id, java_address, peer_gone
from broker.net.pieces import Pieces
from broker.net.request import Body, Chunk, Request, Route
from broker.net.response import error_frame, report_failure, unsupported_api_versions
from log.values import Slice
from protocol.buffer import Buffer
from protocol.errors import UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION, ProtocolError
from protocol.framing import BadFrame, Framer
from protocol.headers import MIN_REQUEST_BYTES, decode_request_header
from protocol.messages import BY_KEY
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.internal_errors import InternalErrors
    from broker.net.authorization_cache import AuthorizationCache
    from broker.net.limits.throttles import Throttle
    from broker.net.listener import Listener
    from broker.net.server import Server
    from broker.net.session import Session
    from broker.time import Time
    from security.sasl.exchange import Login

logger = structlog.get_logger(__name__)

BACKLOG_BYTES = 64 * 1024
"""The number of bytes of waiting requests above which the socket is not read. One read of 256 kB
may exceed this limit."""
OUTPUT_BYTES = 1024 * 1024
"""The number of bytes of collected replies above which the connection passes the replies to the
transport before the turn ends."""
JOINED_BYTES = 64 * 1024
"""The maximum total size in bytes of reply chunks that are copied into one buffer and written by
one call."""
REQUESTS_PER_TURN = 256
"""The maximum number of requests of one connection that are handled in a row before other
connections are served."""

PUMP_NS = 4_000_000
"""The maximum number of nanoseconds for which requests of one connection are handled in a row
before other connections are served."""

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">iih")
"""The first fields of a request header: API key and version as one number, correlation id, and
length of the client id."""
_API_VERSIONS_KEY = 18
_LEAVE_GROUP = b"\0\x0d"
"""The API key at the start of a LeaveGroup request. The broker handles a received LeaveGroup
request even if the connection has closed."""


class Connection(asyncio.Protocol):
    """The protocol object of one accepted socket."""

    # An instance with more than 30 attributes keeps them in a separate dict, which costs each
    # request a lookup.
    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_busy",
        "_client_raw",
        "_draining",
        "_framer",
        "_long",
        "_out",
        "_out_bytes",
        "_out_files",
        "_parked",
        "_partials",
        "_pieces",
        "_reading",
        "_request_bytes_max",
        "_route",
        "_routes",
        "_services",
        "_slots",
        "_slots_max",
        "_transport",
        "authorization_cache",
        "bytes_in",
        "bytes_out",
        "client_host",
        "client_id",
        "closed",
        "dirty",
        "handling",
        "last_active_s",
        "listener",
        "login",
        "lookups",
        "muted_at_s",
        "on_close",
        "opened_s",
        "peer",
        "principal",
        "read_ns",
        "repeated",
        "requests",
        "sending",
        "server",
        "session",
        "software",
        "taken_bytes",
        "ticks_ns",
        "verdicts",
    )

    def __init__(self, server: Server, listener: Listener) -> None:
        self.server = server
        self.dirty = False
        self.closed = False
        self.handling: Request | None = None
        """The request whose handler is running; None while no handler runs. `answered` is not
        called for a request that is answered before its handler returns."""
        self.requests = self.lookups = 0
        """``requests`` is the number of handled requests. ``lookups`` is the number of ApiVersions,
        Metadata and FindCoordinator requests among them."""
        self.bytes_in = self.bytes_out = 0
        """The numbers of bytes received and bytes sent; a reply is counted when the transport has
        accepted it."""
        self._transport: asyncio.Transport
        self._slots: deque[Request] = deque()
        """The handled requests whose replies are not yet in `_out`, in the order of the requests.
        """
        self._parked: Request | Throttle | None = None
        self._out: list[Chunk] = []
        self._out_bytes = 0
        self._out_files = 0
        self._pieces: Pieces | None = None
        """The writer for replies that contain parts of files; None before the first such reply."""
        self.sending = False
        """True while a reply is partly written; no request is handled until the reply is completely
        written."""
        self.muted_at_s: int | None = None
        """The time in seconds at which the transport's buffer became full because the peer does not
        read; None if the buffer is not full."""
        self._busy = False
        """True while requests are being handled; replies are written when the handling ends."""
        self.listener = listener
        self.principal = ANONYMOUS
        self.login: Login | None = None
        """The login of the peer; None if the listener requires no login."""
        self.session: Session | None = None
        """The object that renews and ends the peer's login."""
        self.on_close: dict[Callable[[Connection], None], None] = {}
        """The functions that are called once when the connection has closed. The handlers of group
        APIs add them."""
        self.verdicts: object | None = None
        """Cached data of the authorizer about `principal`; no other code reads or writes this
        attribute."""
        self.repeated: object | None = None
        """The last ConsumerGroupHeartbeat, so that `broker/apis/consumer_group_heartbeat.py`
        recognizes an identical one."""
        self.authorization_cache: AuthorizationCache | None = None
        """The names of resources that the principal is known to be allowed to access; only
        `broker/apis/shared/authorization.py` uses this cache."""
        self.client_id = ""
        self.client_host = ""
        """The peer's address in Kafka's form, such as ``/127.0.0.1``."""
        self.peer = ""
        self.software = ""
        """The client's software name and version, from ApiVersions requests of version 3 and above.
        """
        self.opened_s = self.last_active_s = server.now_s
        self.ticks_ns = server.time.ticks_ns
        """A copy of `Time.ticks_ns`, which saves one attribute lookup per request."""
        self.read_ns: int = 0
        """The arrival time of the last bytes, in nanoseconds of the performance counter. Request
        durations are measured from this time."""
        self.taken_bytes = 0
        """The number of reply bytes that the kernel had accepted when the server last checked
        whether the peer reads."""
        self._draining = False
        """True if no more requests are handled and the connection closes when all replies are
        written."""
        self._services = server.services
        self._routes = server.routes
        self._partials = server.partials
        self._long = server.long
        self._request_bytes_max = server.limits.request_bytes
        self._slots_max = server.limits.requests_in_flight
        self._framer = Framer(server.limits.request_bytes)
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._reading = True
        self._client_raw = b""
        self._route: Route | None = None

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepts the peer, or closes the connection if the server has reached its limit of
        connections."""
        self._transport = cast(asyncio.Transport, transport)
        address = self._transport.get_extra_info("peername") or ("unknown", 0)
        self.client_host = java_address(str(address[0]))
        self.peer = f"{address[0]}:{address[1]}"
        self._transport.set_write_buffer_limits(high=self.server.limits.output_bytes)
        if not self.server.admit(self):
            self.closed = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Splits the received bytes into frames and handles each complete request immediately."""
        server = self.server
        self.last_active_s = server.now_s
        self.read_ns = self.ticks_ns()
        self.bytes_in += len(data)
        if (
            self._backlog
            or self._parked is not None
            or self.muted_at_s is not None
            or self.sending
            or self._framer.partial
            or len(data) > BACKLOG_BYTES
            or len(self._slots) >= self._slots_max
        ):
            self._receive(data)
            self._look_at_clock()
            return
        # The usual case: no request is delayed, so no frame needs to be stored.
        position, size = 0, len(data)
        self._busy = True
        while size - position > 4:
            length = _LENGTH.unpack_from(data, position)[0]
            end = position + 4 + length
            if end > size or not MIN_REQUEST_BYTES <= length <= self._request_bytes_max:
                break
            self._handle(data if end == size and not position else data[position:end])
            position = end
            if position < size and (
                self._parked is not None
                or self._out_bytes > OUTPUT_BYTES
                or self.sending
                or self.closed
            ):
                break
        self._busy = False
        if self._out:
            self._write()
        if position < size:
            self._receive(data[position:])
        if self.ticks_ns() - self.read_ns > HELD_NS_MAX:
            self._look_at_clock()

    def eof_received(self) -> None:
        """Returns None, so that the transport closes when the peer has closed its half of the
        connection."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Cancels the unanswered requests, since the client has disconnected."""
        self.closed = True
        if self.session is not None:
            self.session.ended()
        if self.authorization_cache is not None:
            self.authorization_cache.forget()
        self.server.forget(self)
        for frame in [each for each in self._backlog if each.startswith(_LEAVE_GROUP)]:
            # Kafka also handles the LeaveGroup once the JoinGroup that was sent before it is
            # answered.
            self._handle(frame, 0)
        self._backlog.clear()
        slots, self._slots = self._slots, deque()
        self._parked = None
        self._out.clear()
        if self._pieces is not None:
            self._pieces.clear()
        for request in slots:
            if request.reply is None and request.on_disconnect is not None:
                try:
                    request.on_disconnect()
                except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                    self.server.internal_errors.caught("peer_gone", error, peer=self.peer)
        on_close, self.on_close = self.on_close, {}
        for call in on_close:
            try:
                call(self)
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self.server.internal_errors.caught("peer_gone", error, peer=self.peer)

    def pause_writing(self) -> None:
        """Stops handling requests, since the peer does not read. If the peer does not resume
        reading, the server closes the connection later."""
        self.muted_at_s = self.server.now_s
        self.taken_bytes = self.bytes_out - self._transport.get_write_buffer_size()
        self.server.muted[self] = None
        self._stop_reading()

    def resume_writing(self) -> None:
        slow = self.muted_at_s is not None and self.server.now_s > self.muted_at_s
        self.muted_at_s = None
        self.server.muted.pop(self, None)
        if self._pieces is not None and self.sending:
            self._pieces.keep_pace(slow)
            self._pieces.write()
        elif not self.closed:
            self.server.writes.touch(self)

    # -- calls of requests and their handlers

    def park(self, request: Request) -> None:
        """Delays all later requests until ``request`` is answered."""
        self._parked = request

    def throttle(self, throttle: Throttle) -> Request | None:
        """Stops handling requests until `throttle_over` is called. Returns the request that is
        already parked, or None."""
        parked, self._parked = self._parked, throttle
        return cast("Request | None", parked)

    def throttle_over(self, throttle: Throttle, parked: Request | None) -> None:
        """Ends the throttle: the connection handles requests again. If the request ``parked`` is
        still unanswered, later requests wait until it is answered."""
        if self._parked is throttle and not self.closed:
            self._parked = parked
            self.server.writes.touch(self)

    def may_park(self) -> bool:
        """Returns True if a request may be parked now: no request is parked, and the connection is
        open."""
        return self._parked is None and not self.closed

    def answered(self, request: Request) -> None:
        """Queues the reply of a request that was answered after its handler returned."""
        if self.closed:
            return
        slots = self._slots
        if slots[0] is request:
            while slots and (reply := slots[0].reply) is not None:
                slots.popleft()
                if type(reply) is bytes:
                    self._out.append(reply)
                    self._out_bytes += len(reply)
                else:
                    self._append(reply)
        if self._parked is request:
            self._parked = None
        if not self._busy and not self.dirty:
            self.server.writes.touch(self)

    def handler_failed(self, request: Request) -> None:
        """Logs the exception that a handler raised, and sends the error response that Kafka sends
        in this case."""
        try:
            if request.reply is None and not self.closed:
                frame = error_frame(request, UNKNOWN_SERVER_ERROR)
                if frame is None:
                    self._write()
                    self.close()
                else:
                    request.complete(frame, UNKNOWN_SERVER_ERROR)
        finally:
            report_failure(request)

    def refuse(self, error: ProtocolError) -> None:
        """Closes the connection because the peer sent invalid bytes, and logs one line."""
        if self.closed:
            return
        self.server.protocol_errors += 1
        self.drain()
        logger.warning(
            "connection closed: not a Kafka request",
            peer=self.peer,
            client_id=display_client_id(self.client_id),
            reason=str(error),
        )

    # -- the server's calls

    def flush(self) -> None:
        """Writes finished replies and continues with the delayed requests."""
        self.dirty = False
        if self.closed:
            return
        if self._backlog or not self._reading:
            self._pump()
        elif self._out:
            self._write()

    def serve_by(self, routes: dict[int, Route]) -> None:
        """Makes this connection handle later requests with ``routes`` instead of the server's
        routes."""
        self._routes = routes

    def drain(self) -> None:
        """Writes finished replies, handles no more requests, and closes the connection."""
        if self.closed:
            return
        self._draining = True
        self._backlog.clear()
        self._write()
        if not self.sending and not self.closed:
            self.close()

    def close(self) -> None:
        """Closes the connection when the transport's buffer has been written."""
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        self.closed = True
        self._transport.abort()

    @property
    def waits(self) -> bool:
        """Returns True if a request or a reply is in progress. The server does not close such a
        connection as idle."""
        return bool(self._slots) or self.sending or self.write_buffer_size() > 0

    def write_buffer_size(self) -> int:
        """Returns the number of bytes in the transport that the kernel has not accepted yet."""
        return self._transport.get_write_buffer_size()

    @property
    def buffered(self) -> int:
        """Returns the number of received bytes of the last, incomplete request."""
        return len(self._framer.partial)

    def peer_is_gone(self) -> bool:
        """Returns True if the peer has disconnected. The server calls this method for sockets that
        it does not read, since no event reports their disconnect."""
        return not self._reading and peer_gone(self._transport)

    def hold(self) -> None:
        """Stops reading until `release` is called. Called when the partial requests of all
        connections together exceed their limit."""
        self._stop_reading()

    def release(self) -> None:
        """Called when the partial requests of all connections are within their limit again. Resumes
        reading from the socket, unless this connection has another reason to pause."""
        self._balance()

    # -- the calls of `Pieces`

    def gathered(self) -> list[Chunk]:
        """Removes and returns the finished replies; the caller writes them."""
        out = self._out
        self._out, self._out_bytes, self._out_files = [], 0, 0
        return out

    def pieces_written(self, all_of_them: bool) -> None:
        """Called when pieces of replies were written. ``all_of_them`` is False if the transport is
        full and pieces remain. After the last piece, continues with the delayed requests."""
        self.sending = bool(self._out) or not all_of_them
        if self.sending or self.closed:
            return
        if self._draining:
            self.close()
        elif self._backlog or not self._reading:
            self.server.writes.touch(self)

    # -- bytes in

    def _receive(self, data: bytes) -> None:
        """Handles the complete requests that may be handled now, and stores the remaining bytes."""
        if self.closed or self._draining:
            return
        try:
            frames = self._framer.feed(data)
        except BadFrame as error:
            # The whole frames before the invalid one are answered, unless they must wait.
            self._queue(error.frames)
            self._pump()
            self.refuse(error)
            return
        self._queue(frames)
        self._pump()
        if self._partials is not None:
            self._partials.note(self, self.buffered)

    def _queue(self, frames: list[bytes]) -> None:
        if frames:
            self._backlog.extend(frames)
            self._backlog_bytes += sum(map(len, frames))

    def _blocked(self) -> bool:
        return (
            self._parked is not None
            or self.muted_at_s is not None
            or self.sending
            or self._draining
            or len(self._slots) >= self._slots_max
            or self.closed
        )

    def _pump(self) -> None:
        """Handles requests of the backlog until a request must wait; then writes replies, and
        starts or stops reading."""
        backlog = self._backlog
        handled = 0
        until_ns = self.ticks_ns() + PUMP_NS
        self._busy = True
        while backlog and not self._blocked():
            if handled == REQUESTS_PER_TURN or (handled & 15 == 15 and self.ticks_ns() > until_ns):
                self.server.writes.touch(self)
                break
            frame = backlog.popleft()
            self._backlog_bytes -= len(frame)
            self._handle(frame, 0)
            handled += 1
            if self._out_bytes >= OUTPUT_BYTES:
                self._write()
        self._busy = False
        if self._out:
            self._write()
        self._balance()

    def _balance(self) -> None:
        if self.closed:
            return
        full = self._backlog_bytes + self.buffered > BACKLOG_BYTES
        muted = self.muted_at_s is not None or self._draining
        if muted or (full and self._backlog) or (full and self._blocked()):
            self._stop_reading()
        elif not self._reading and not self._held():
            self._reading = True
            self.server.unread.pop(self, None)
            self._transport.resume_reading()

    def _held(self) -> bool:
        return self._partials is not None and self._partials.holds(self)

    def _stop_reading(self) -> None:
        if self._reading and not self.closed:
            self._reading = False
            self.server.unread[self] = None
            self._transport.pause_reading()

    def _look_at_clock(self) -> None:
        """If the turn took too long, reports it to the watchdog under the API name of the turn's
        last request."""
        name = "requests" if self._route is None else self._route.served.api.name
        self.server.watchdog.ended(name, self.read_ns)

    # -- requests

    def _handle(self, frame: bytes, start: int = 4) -> None:
        """Handles one whole request. The request's header begins at ``start``: 4 after a length
        prefix, otherwise 0."""
        try:
            key, correlation_id, size = _HEADER.unpack_from(frame, start)
            route = self._routes.get(key)
            if route is None:
                self._unserved(frame, start)
                return
            position = start + 10
            if size > 0:
                end = position + size
                raw = frame[position:end]
                if raw != self._client_raw:
                    self._learn_client_id(raw, size)
                position = end
                client_id = self.client_id
            else:
                client_id = ""
            if route.flexible or size < -1:
                if frame[position : position + 1] == b"\0" and size >= -1:
                    position += 1
                else:
                    position = start + decode_request_header(frame[start:]).position
        except struct.error:
            self.refuse(ProtocolError("the request ends within its header"))
            return
        except ProtocolError as error:
            self.refuse(error)
            return
        self._route = route
        request = self.handling = Request(self, route, correlation_id, client_id, frame, position)
        try:
            if len(frame) <= SURELY_SMALL_BYTES:
                steps = route.handle(self._services, request)
            else:
                steps = self._long.handle(self._services, request)
            if steps is not None:
                self._long.work_off(request, steps)
        except ProtocolError as error:
            self.refuse(error)
        except Exception:  # noqa: BLE001 - logged, with its traceback
            self.handler_failed(request)
        self._place(request)

    def _learn_client_id(self, raw: bytes, size: int) -> None:
        if len(raw) != size:
            raise ProtocolError(f"the client id has {size} bytes, but the request is shorter")
        try:
            self.client_id = raw.decode()
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
        self._client_raw = raw

    def _unserved(self, frame: bytes, start: int) -> None:
        """Answers an ApiVersions request of an unknown version. Closes the connection after any
        other unknown request."""
        key, version, correlation_id, size = struct.unpack_from(">hhih", frame, start)
        if key in BY_KEY and key != _API_VERSIONS_KEY:
            if size > 0:
                self._learn_client_id(frame[start + 10 : start + 10 + size], size)
            self.server.unserved(self, key, version, frame[start:])
            self.drain()
            return
        if key != _API_VERSIONS_KEY:
            self.refuse(ProtocolError(f"API key {key} version {version} is not supported"))
            return
        self.lookups += 1
        route = self._routes[_API_VERSIONS_KEY << 16]
        request = self.handling = Request(self, route, correlation_id, "", frame, len(frame))
        row = route.served
        answer = unsupported_api_versions(correlation_id, row.min_version, row.max_version)
        request.complete(answer, UNSUPPORTED_VERSION)
        self._place(request)

    # -- replies out

    def _place(self, request: Request) -> None:
        """Queues the reply of a handled request. If replies of earlier requests are not queued yet,
        the request waits in a slot until they are queued."""
        self.handling = None
        self.requests += 1
        reply = request.reply
        if request.meter is not None:
            request.meter.end(reply is not None)
        if reply is None:
            self._slots.append(request)
            return
        if self._parked is request:
            self._parked = None
        if self._slots:
            self._slots.append(request)
        elif type(reply) is bytes:
            self._out.append(reply)
            self._out_bytes += len(reply)
        else:
            self._append(reply)

    def _append(self, reply: Body) -> None:
        """Adds a reply to the next write. The caller must add or send all earlier replies first."""
        if isinstance(reply, (bytes, bytearray, memoryview)):
            self._out.append(reply)
            self._out_bytes += len(reply)
            return
        for chunk in reply:
            if isinstance(chunk, Slice):
                self._out_bytes += chunk.length
                self._out_files += 1
            else:
                self._out_bytes += len(chunk)
            self._out.append(chunk)

    def _write(self) -> None:
        out = self._out
        if not out or self.closed or self.sending:
            return
        if self._out_files:
            self.sending = True
            if self._pieces is None:
                self._pieces = Pieces(self, self._transport)
            self._pieces.write()
            return
        if len(out) == 1:
            self.bytes_out += self._out_bytes
            self._transport.write(cast("Buffer", out[0]))
        else:
            self.hand_over(cast("list[Buffer]", out), self._out_bytes)
        self._out = []
        self._out_bytes = 0

    def hand_over(self, chunks: list[Buffer], size_bytes: int) -> None:
        """Passes ``chunks``, with a total of ``size_bytes``, to the transport in one call."""
        self.bytes_out += size_bytes
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        elif size_bytes < JOINED_BYTES:
            self._transport.write(b"".join(chunks))
        else:
            self._transport.writelines(chunks)


class TurnWrites:
    """The connections whose replies are written at the end of a turn. Each connection's replies are
    written with one write. Only the event loop's thread may use this class."""

    def __init__(self, time: Time, watchdog: Watchdog, internal_errors: InternalErrors) -> None:
        self._ticks_ns = time.ticks_ns
        self._watchdog = watchdog
        self._internal_errors = internal_errors
        self._dirty: list[Connection] = []
        self._scheduled = False
        self._holding = False

    def touch(self, connection: Connection) -> None:
        """Adds ``connection`` to the connections that are flushed at the end of this turn."""
        if connection.dirty:
            return
        connection.dirty = True
        self._dirty.append(connection)
        if not self._scheduled and not self._holding:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_scheduled)

    def hold(self) -> None:
        """Collects replies until `flush` is called; used by callers that finish many replies."""
        self._holding = True

    def flush(self) -> None:
        """Writes the finished replies of every connection that got replies during the turn, with
        one write per connection."""
        self._holding = False
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            try:
                connection.flush()
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                connection.abort()
                self._internal_errors.caught("connection", error)

    def _flush_scheduled(self) -> None:
        began_ns = self._ticks_ns()
        self._scheduled = False
        self.flush()
        self._watchdog.ended("replies", began_ns)
