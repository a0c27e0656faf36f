"""One client connection: bytes in, requests handled in order, replies out in the same order.

Owns the connection's buffers and their bounds. A request is handled at once when its last byte has
arrived, and its reply waits in a slot until those before it are finished; the finished prefix goes
out with one write. Three things hold requests back: a parked request, a client that does not read
its replies, and too many requests in flight. Requests that were read by then wait in a backlog;
beyond `BACKLOG_BYTES` the socket is not read.

Replies with parts that are still in files are written by `Pieces`. `TurnWrites` has the connections
that are written to at the end of the turn.
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
"""Bytes kept of requests that must wait; one read of the socket (at most 256 kB) may exceed it."""
OUTPUT_BYTES = 1024 * 1024
"""Replies gathered before they are handed to the transport in the middle of a turn."""
JOINED_BYTES = 64 * 1024
"""Up to this size chunks are copied into one buffer rather than written one by one."""
REQUESTS_PER_TURN = 256
"""Requests of one connection handled before others get their turn."""

PUMP_NS = 4_000_000
"""How long requests of one connection are handled before others get their turn."""

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">iih")
"""API key and version as one number, correlation id, length of the client id."""
_API_VERSIONS_KEY = 18
_LEAVE_GROUP = b"\0\x0d"
"""How such a request begins: a member that leaves is believed although its connection closed."""


class Connection(asyncio.Protocol):
    """The protocol object of one accepted socket; see the module."""

    # Above 30 attributes an instance keeps a dict of its own, which each request would look into.
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
        """In the server's list of connections to flush."""
        self.closed = False
        """No more bytes are read, handled or written."""
        self.handling: Request | None = None
        """The request whose handler runs now; its answer needs no call of `answered`."""
        self.requests = self.lookups = 0
        """Handled so far; of these, ApiVersions, Metadata and FindCoordinator."""
        self.bytes_in = self.bytes_out = 0
        """Replies counted when they are handed to the transport."""
        self._transport: asyncio.Transport
        self._slots: deque[Request] = deque()
        """Requests handled and not yet on their way out, in order."""
        self._parked: Request | Throttle | None = None
        self._out: list[Chunk] = []
        """Chunks of finished replies that the next write takes."""
        self._out_bytes = 0
        self._out_files = 0
        """How many of them are in files."""
        self._pieces: Pieces | None = None
        """Made when the first reply has parts in files."""
        self.sending = False
        """Replies are only partly written: no request is handled until they are."""
        self.muted_at_s: int | None = None
        """Since when the transport's buffer is full because the peer does not read."""
        self._busy = False
        """Requests are being handled; their replies are written at the end of that."""
        self.listener = listener
        """The listener that accepted the connection."""
        self.principal = ANONYMOUS
        """The peer's principal."""
        self.login: Login | None = None
        """How the peer has logged in; None where the listener asks for none."""
        self.session: Session | None = None
        """Renews and ends the peer's login."""
        self.on_close: Callable[[Connection], None] | None = None
        """Called once when the connection has closed; set by the APIs of members of groups."""
        self.verdicts: object | None = None
        """The authorizer's data about `principal`; only the authorizer reads and writes it."""
        self.authorization_cache: AuthorizationCache | None = None
        """The names that it was allowed; `broker/apis/authorization.py` keeps and reads them."""
        self.client_id = ""
        self.client_host = ""
        """The peer's address as Kafka shows it, such as ``/127.0.0.1``."""
        self.peer = ""
        """The peer's address and port, for log lines."""
        self.software = ""
        """The client's name and version as ApiVersions has them since version 3."""
        self.opened_s = self.last_active_s = server.now_s
        self.ticks_ns = server.time.ticks_ns
        """`Time.ticks_ns`, where a request finds it with one look."""
        self.read_ns: int = 0
        """When bytes arrived last, by the performance counter: request times count from here."""
        self.taken_bytes = 0
        """Bytes of replies that the kernel had accepted at the server's last check of muted
        peers."""
        self._draining = False
        """No more requests are handled, and the connection closes once all replies are written."""
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
        """Of the last request."""

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admits the peer, or closes it when the server is full."""
        self._transport = cast(asyncio.Transport, transport)
        address = self._transport.get_extra_info("peername") or ("unknown", 0)
        self.client_host = java_address(str(address[0]))
        self.peer = f"{address[0]}:{address[1]}"
        self._transport.set_write_buffer_limits(high=self.server.limits.output_bytes)
        if not self.server.admit(self):
            self.closed = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Frames what arrived and handles each whole request at once."""
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
        # Nothing is held back: the usual case, in which no frame needs to be kept.
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
        """The peer has closed its side; the transport closes ours."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Cancels requests without an answer: the client is gone."""
        self.closed = True
        if self.session is not None:
            self.session.ended()
        if self.authorization_cache is not None:
            self.authorization_cache.forget()
        self.server.forget(self)
        for frame in [each for each in self._backlog if each.startswith(_LEAVE_GROUP)]:
            self._handle(frame, 0)  # Kafka does when the JoinGroup before it is answered
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
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            try:
                on_close(self)
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self.server.internal_errors.caught("peer_gone", error, peer=self.peer)

    def pause_writing(self) -> None:
        """The peer does not read: its requests wait, and after a time it is closed."""
        self.muted_at_s = self.server.now_s
        self.taken_bytes = self.bytes_out - self._transport.get_write_buffer_size()
        self.server.muted[self] = None
        self._stop_reading()

    def resume_writing(self) -> None:
        """The peer reads again."""
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
        """Handles no later request before ``request`` is answered."""
        self._parked = request

    def throttle(self, throttle: Throttle) -> Request | None:
        """Handles no more requests until `throttle_over`; returns the parked request."""
        parked, self._parked = self._parked, throttle
        return cast("Request | None", parked)

    def throttle_over(self, throttle: Throttle, parked: Request | None) -> None:
        """Continues, or waits for the request that is still parked."""
        if self._parked is throttle and not self.closed:
            self._parked = parked
            self.server.writes.touch(self)

    def may_park(self) -> bool:
        """Whether a request may be parked now: none is parked, and the connection is open."""
        return self._parked is None and not self.closed

    def answered(self, request: Request) -> None:
        """Takes the reply of a request that was not answered while it was handled."""
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
        """A bug in a handler: answered as Kafka does and logged, never fatal to the server."""
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
        """Closes the connection because its bytes are not a request, with one log line."""
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
        """Writes finished replies and continues with held requests."""
        self.dirty = False
        if self.closed:
            return
        if self._backlog or not self._reading:
            self._pump()
        elif self._out:
            self._write()

    def serve_by(self, routes: dict[int, Route]) -> None:
        """Handles the next requests by other routes than the server's."""
        self._routes = routes

    def drain(self) -> None:
        """Writes finished replies, handles no more requests, and closes."""
        if self.closed:
            return
        self._draining = True
        self._backlog.clear()
        self._write()
        if not self.sending and not self.closed:
            self.close()

    def close(self) -> None:
        """Closes the connection once the transport's buffer is written."""
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.closed = True
        self._transport.abort()

    @property
    def waits(self) -> bool:
        """Whether a request is being worked on or a reply is on its way: that is not idle."""
        return bool(self._slots) or self.sending or self.write_buffer_size() > 0

    def write_buffer_size(self) -> int:
        """Bytes handed to the transport and not yet taken by the kernel."""
        return self._transport.get_write_buffer_size()

    @property
    def buffered(self) -> int:
        """Bytes of a partly received request."""
        return len(self._framer.partial)

    def peer_is_gone(self) -> bool:
        """Whether the peer closed while its socket was not read; no other event reports that."""
        return not self._reading and peer_gone(self._transport)

    def hold(self) -> None:
        """Reads no further until `release`: all partly received requests together are too big."""
        self._stop_reading()

    def release(self) -> None:
        """Reads again, unless something else holds the connection back."""
        self._balance()

    # -- the calls of who writes piece by piece

    def gathered(self) -> list[Chunk]:
        """Returns and clears the finished replies, for a caller that writes them in pieces."""
        out = self._out
        self._out, self._out_bytes, self._out_files = [], 0, 0
        return out

    def pieces_written(self, all_of_them: bool) -> None:
        """The transport has got what it takes now; when that is all, the held back goes on."""
        self.sending = bool(self._out) or not all_of_them
        if self.sending or self.closed:
            return
        if self._draining:
            self.close()
        elif self._backlog or not self._reading:
            self.server.writes.touch(self)

    # -- bytes in

    def _receive(self, data: bytes) -> None:
        """Keeps what cannot be handled at once and handles what can."""
        if self.closed or self._draining:
            return
        try:
            frames = self._framer.feed(data)
        except BadFrame as error:
            # The complete frames before the bad one are answered, if that needs no wait.
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
        """Handles the backlog as far as it may go, writes, and settles whether to read on."""
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
        """Reads while there is room for what arrives, stops when there is not."""
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
        """Has the watchdog count what has just been read, by its last request, if it took long."""
        name = "requests" if self._route is None else self._route.served.api.name
        self.server.watchdog.ended(name, self.read_ns)

    # -- requests

    def _handle(self, frame: bytes, start: int = 4) -> None:
        """Handles one whole request whose header begins at ``start``, behind the length or at 0."""
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
            self.refuse(ProtocolError("the request is shorter than its header"))
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
            raise ProtocolError(f"the client id has {size} bytes, but the request ends before it")
        try:
            self.client_id = raw.decode()
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
        self._client_raw = raw

    def _unserved(self, frame: bytes, start: int) -> None:
        """Answers an ApiVersions of a version we do not know; closes on anything else unknown."""
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
        """Keeps a request that was handled until its reply's turn has come; often that is now."""
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
        """Hands a reply, all those before which are on their way, to the next write."""
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
        """Hands chunks, so many bytes all together, to the transport with one call."""
        self.bytes_out += size_bytes
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        elif size_bytes < JOINED_BYTES:
            self._transport.write(b"".join(chunks))
        else:
            self._transport.writelines(chunks)


class TurnWrites:
    """The connections to write to at the end of a turn, each once, however many answers it has.

    Use from the event loop's thread alone.
    """

    def __init__(self, time: Time, watchdog: Watchdog, internal_errors: InternalErrors) -> None:
        self._ticks_ns = time.ticks_ns
        self._watchdog = watchdog
        self._internal_errors = internal_errors
        self._dirty: list[Connection] = []
        self._scheduled = False
        self._holding = False

    def touch(self, connection: Connection) -> None:
        """Has ``connection`` flushed at the end of this turn."""
        if connection.dirty:
            return
        connection.dirty = True
        self._dirty.append(connection)
        if not self._scheduled and not self._holding:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_scheduled)

    def hold(self) -> None:
        """Until `flush`, replies are gathered: the caller delivers many and then flushes."""
        self._holding = True

    def flush(self) -> None:
        """Writes the finished replies of every touched connection, one write each."""
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
