"""TLS between a socket's transport and the Kafka connection.

To the transport, the layer is a protocol; to the connection, the layer is a transport. The
connection object is created and counted before the first byte of the handshake. The event loop runs
handshakes step by step (`Handshakes`), each with a deadline. A failed handshake causes one log
line.

OpenSSL works on buffers in memory. Therefore the layer can inspect the first bytes, and distinguish
a client without TLS from a client with broken TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from broker.net.peer import java_address, network_of
from broker.net.tls.failures import LEFT, Failure, reason_of, said_of
from broker.net.tls.handshakes import Handshakes
from broker.net.tls.unsent import Unsent
from protocol.buffer import Buffer

if TYPE_CHECKING:
    from broker.net.tls.wrapped import Wrapped

RECORD_BYTES_MAX = 16 * 1024
"""The maximum size in bytes of a TLS record (RFC 8446, 5.1). OpenSSL decrypts one record at a time.
"""
RECEIVED_BYTES_MAX = 64 * 1024
"""The maximum number of received bytes that wait for the next step of a handshake. The layer stops
reading from the socket above this number."""
AT_ONCE_BYTES = 64 * 1024
"""The maximum number of bytes that one write encrypts immediately; larger writes are queued."""
TURN_BYTES = 512 * 1024
"""The maximum number of bytes of one connection that are encrypted in one turn. Encrypting 16 MB at
once blocked the loop for 69 ms."""
HANDSHAKE_RECORD = 0x16
"""The first byte that a TLS client sends: the content type of a handshake record (RFC 8446, 5.1).
"""
_NO_TLS = b"\x15\x03\x03\x00\x02\x02\x0a"
"""The TLS alert "unexpected message", which is sent to a client that does not use TLS."""


class TlsLayer(asyncio.Protocol, asyncio.Transport):
    """The TLS layer of one connection."""

    def __init__(
        self,
        wrapped: Wrapped,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        on_ready: Callable[[ssl.SSLObject], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        """Creates the layer. ``on_ready`` is called after a successful handshake, and may raise
        `Failure` to reject the peer. ``on_failure`` is called after a failed handshake, before the
        socket is closed."""
        self._wrapped = wrapped
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._context = context
        self._tls: ssl.SSLObject
        """The TLS session. It is created when the first bytes arrive, so that a silent peer costs
        little."""
        self._handshakes = handshakes
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._transport: asyncio.Transport
        self._has_begun = False
        self.is_ready = False
        self.address = ""
        self._is_queued = False
        self._has_answered = False
        self._peer_has_left = False
        """True if the peer closed the socket during the handshake, before the layer had read the
        last bytes of the peer."""
        self._has_ended = False
        """True if the peer or the layer has ended the TLS session. Later bytes are not read."""
        self._last: ssl.SSLError | None = None
        """The error that ended decryption: the peer's TLS close, or invalid data. None while
        decryption continues."""
        self._is_paused = False
        self._is_direct = False
        """True if a write is encrypted and sent immediately, because no earlier write is queued."""
        self._unsent = Unsent()
        self._turn_bytes = 0
        """The number of bytes that this turn has encrypted from queued writes."""
        self._has_turn = False
        self._is_full = False
        """True while the transport's buffer is full, so that the layer must not write to the
        transport."""
        self._has_held = False
        """True after this layer has called `pause_writing` of the wrapped protocol, until it calls
        `resume_writing`."""
        self._is_leaving = False
        """True if the connection has closed the layer, but the layer still has queued bytes to
        send."""

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Passes the new connection to the wrapped protocol, which may reject it."""
        # uvloop's transport is not a subclass of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        host, *_ = transport.get_extra_info("peername") or ("",)
        self.address = network_of(java_address(str(host))[1:])
        self._wrapped.connection_made(self)
        if not self._has_ended:  # true unless the connection was rejected
            self._handshakes.begun(self)

    def data_received(self, data: bytes) -> None:
        """Continues the handshake, or decrypts the bytes and passes them to the connection."""
        if self._has_ended:
            return
        self._incoming.write(data)
        if self.is_ready:
            self._read()
        else:
            if not self._has_begun:
                if data[0] != HANDSHAKE_RECORD:
                    self._transport.write(_NO_TLS)
                    self._fail(
                        "a client without TLS connected to a listener with TLS:"
                        " check the client's security.protocol"
                    )
                    return
                self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
                self._has_begun = True
            if self._incoming.pending > RECEIVED_BYTES_MAX:
                self._transport.pause_reading()
            if not self._is_queued:
                self._is_queued = True
                self._handshakes.step(self.address, self._shake)

    def eof_received(self) -> bool | None:
        """Ends the TLS session. Many peers close the socket without a TLS close."""
        if self.is_ready:
            stays = self._wrapped.eof_received()
            if self._unsent and not stays:
                self.close()  # the peer may still read
                return True
            return stays
        if self._is_queued and self._has_answered and not self._has_ended:
            # The peer's last bytes may contain the reason. The next queued step reads them: reading
            # them now could hold the loop for seconds if a thousand clients close at once.
            self._peer_has_left = True
            return True
        if self._has_begun:
            self._fail(LEFT)
        self._has_ended = True  # not logged, since port scans do this
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._handshakes.over(self)
        self._wrapped.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_full = True
        self._settle_pace()

    def resume_writing(self) -> None:
        self._is_full = False
        self._encrypt()

    # -- the connection's calls

    def write(self, data: Buffer) -> None:
        """Encrypts and sends data; large data takes several turns. Ignores data after the end of
        the session."""
        if not self._is_direct or not 0 < len(data) <= AT_ONCE_BYTES:
            self.writelines((data,))
            return
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            self._break_off(error)
            return
        self._send()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Encrypts and sends the buffers in order; large buffers take several turns."""
        if not self.is_ready or self._has_ended:
            return
        self._unsent.add(list_of_data)
        self._encrypt()

    def close(self) -> None:
        """Sends a TLS close and closes the socket after all data is written. Does not wait for the
        peer's TLS close."""
        if self._unsent:
            self._is_leaving = self._has_ended = True
            return
        if self.is_ready and not self._has_ended:
            self._say_goodbye()
        self._end()
        self._transport.close()

    def abort(self) -> None:
        self._end()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._is_leaving or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Stops passing bytes to the connection until `resume_reading` is called."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Passes the bytes received during the pause to the connection, and then continues with new
        bytes."""
        self._is_paused = False
        self._transport.resume_reading()
        if self.is_ready and (self._last or self._incoming.pending or self._tls.pending()):
            asyncio.get_running_loop().call_soon(self._read)

    def is_reading(self) -> bool:
        return not self._is_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets the number of unsent bytes above which the layer pauses the connection's writing."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Returns the number of bytes that the kernel has not accepted yet. Most of these bytes are
        already encrypted."""
        return self._transport.get_write_buffer_size() + self._unsent.size_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns information about the socket; ``ssl_object`` is the TLS session."""
        if name == "ssl_object":
            return self._tls if self._has_begun else default
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._wrapped = cast("Wrapped", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._wrapped)

    # -- the calls of `Handshakes`

    @property
    def awaits_peer(self) -> bool:
        return not self._is_queued

    def give_up(self, reason: str) -> None:
        self._fail(reason)
        self._transport.abort()

    # -- the session

    def _shake(self) -> bool:
        """Runs one step of the handshake. Returns False if the handshake has already ended."""
        self._is_queued = False
        if self._has_ended:
            return False
        self._has_answered = True
        try:
            self._tls.do_handshake()
            self._on_ready(self._tls)
        except ssl.SSLWantReadError:
            self._send()
            if self._peer_has_left:
                self._fail(LEFT)
            else:
                self._transport.resume_reading()
            return True
        except (ssl.SSLError, Failure) as error:
            self._fail(reason_of(error))
            return True
        self.is_ready = self._is_direct = True
        self._handshakes.over(self)
        self._send()
        if not self._is_paused:
            self._transport.resume_reading()
        self._read()
        if self._peer_has_left and not self.eof_received():
            self.close()
        return True

    def _read(self) -> None:
        """Passes decrypted bytes, and then the end of the stream, to the connection; does nothing
        while reading is paused."""
        if self._is_paused or self._has_ended:
            return
        data = self._decrypted()
        if data:
            self._wrapped.data_received(data)
        if self._last is not None and not self._is_paused and not self._has_ended:
            if isinstance(self._last, ssl.SSLZeroReturnError):
                self._wrapped.eof_received()
                self.close()
            else:
                self._break_off(self._last)
        elif self._outgoing.pending:  # the response to a key update
            self._send()

    def _decrypted(self) -> bytes:
        """Returns all received data as one bytes object, so that the connection does not need to
        join a request that spans several records."""
        tls, pieces = self._tls, []
        try:
            while self._last is None:
                data = tls.read(RECORD_BYTES_MAX)
                if not data:
                    raise ssl.SSLZeroReturnError
                pieces.append(data)
                if not self._incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._last = error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _encrypt(self) -> None:
        """Encrypts queued writes up to the limit of this turn. Later turns continue while the peer
        reads."""
        unsent = self._unsent
        before_bytes = self._turn_bytes
        try:
            while unsent and not self._is_full and self._turn_bytes < TURN_BYTES:
                data = unsent.take(TURN_BYTES - self._turn_bytes)
                self._turn_bytes += len(data)
                self._tls.write(data)
        except ssl.SSLError as error:
            self._break_off(error)
            return
        if self._turn_bytes > before_bytes:
            self._send()
            if not self._has_turn:
                self._has_turn = True
                asyncio.get_running_loop().call_soon(self._next_turn)
        self._is_direct = self.is_ready and not (unsent or self._has_ended)
        if self._is_leaving and not unsent:
            self._say_goodbye()
            self._end()
            self._transport.close()
        self._settle_pace()

    def _next_turn(self) -> None:
        self._has_turn = False
        self._turn_bytes = 0
        if self._unsent:
            self._encrypt()

    def _settle_pace(self) -> None:
        """Calls ``pause_writing`` of the connection when the layer or the transport begins to queue
        writes, and ``resume_writing`` when no writes are queued any more."""
        holds = self._is_full or bool(self._unsent)
        if holds != self._has_held:
            self._has_held = holds
            if holds:
                self._wrapped.pause_writing()
            else:
                self._wrapped.resume_writing()

    def _say_goodbye(self) -> None:
        self._end()
        with suppress(ssl.SSLError):  # raised because the peer's TLS close has not arrived
            self._tls.unwrap()
        self._send()

    def _end(self) -> None:
        self._has_ended = True
        self._is_direct = False
        self._is_leaving = False
        self._unsent.clear()

    def _send(self) -> None:
        data = self._outgoing.read()
        if data:
            self._transport.write(data)

    def _break_off(self, error: ssl.SSLError) -> None:
        """Ends the connection, since the peer sent invalid TLS data."""
        self._end()
        self._send()  # the alert for the peer
        self._on_failure(Failure(f"the TLS session failed: {said_of(error)}"))
        self._transport.abort()

    def _fail(self, reason: str) -> None:
        if self._has_ended:
            return
        self._end()
        self._handshakes.over(self)
        self._send()  # the alert for the peer
        self._on_failure(Failure(reason))
        self._transport.close()
