"""TLS between the transport of a socket and the connection that speaks Kafka over it.

The layer is the transport's protocol and the connection's transport. The connection is made, and so
admitted and counted, before the first byte of the handshake; handshakes share the loop step by step
(`Handshakes`) and have a deadline; a failure is one log line. OpenSSL works on buffers in memory,
so that every listener and connection has its own context, and the first bytes can be checked: they
distinguish a client without TLS from a broken one.
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
"""Of a record's content (RFC 8446, section 5.1); OpenSSL decrypts one at a time."""
RECEIVED_BYTES_MAX = 64 * 1024
"""Of a handshake that waits for its turn: a peer that sends more is not read until then."""
AT_ONCE_BYTES = 64 * 1024
"""Writes up to this size are encrypted at once."""
TURN_BYTES = 512 * 1024
"""Of larger ones so much is encrypted in one turn of the loop: 16 MB at once held it for 69 ms."""
HANDSHAKE_RECORD = 0x16
"""With this byte begins what a TLS client sends first (RFC 8446, section 5.1)."""
_NO_TLS = b"\x15\x03\x03\x00\x02\x02\x0a"
"""An alert: unexpected message. A TLS client ends on it; other clients report bad data."""


class TlsLayer(asyncio.Protocol, asyncio.Transport):
    """One connection's; see the module."""

    def __init__(
        self,
        wrapped: Wrapped,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        on_ready: Callable[[ssl.SSLObject], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        """``on_ready`` is called when the peer has shown what it has to show, and may refuse it by
        raising `Failure`; ``on_failure`` when the handshake fails. The layer closes by itself.
        """
        self._wrapped = wrapped
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._context = context
        self._tls: ssl.SSLObject
        """Since the first bytes: a peer that sends nothing costs little."""
        self._handshakes = handshakes
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._transport: asyncio.Transport
        self._has_begun = False
        """Something has come."""
        self.is_ready = False
        """The handshake is done."""
        self.address = ""
        """The address under which the peer is counted."""
        self._is_queued = False
        """A step of the handshake waits for its turn."""
        self._has_answered = False
        """A step of the handshake is done."""
        self._peer_has_left = False
        """The peer has closed its side during the handshake, and its last bytes wait."""
        self._has_ended = False
        """Nothing more is read of the peer: it, or we, have ended the session."""
        self._last: ssl.SSLError | None = None
        """The error after the last decrypted bytes: the peer's close, or data that is not TLS."""
        self._is_paused = False
        """The connection wants no bytes now."""
        self._is_direct = False
        """Writes are encrypted and sent at once: none wait before them."""
        self._unsent = Unsent()
        """Writes that wait for their turn."""
        self._turn_bytes = 0
        """How much of what was large has been encrypted in this turn."""
        self._has_turn = False
        """The next turn is to come."""
        self._is_full = False
        """The transport wants no more now."""
        self._has_held = False
        """The connection's writing is paused."""
        self._is_leaving = False
        """The connection has closed, and what it has written is being sent."""

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Has the connection admitted."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has another base
        host, *_ = transport.get_extra_info("peername") or ("",)
        self.address = network_of(java_address(str(host))[1:])
        self._wrapped.connection_made(self)
        if not self._has_ended:  # it is admitted
            self._handshakes.begun(self)

    def data_received(self, data: bytes) -> None:
        """Decrypts what came, or goes on with the handshake."""
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
                        "a client without TLS connected to a listener with TLS: check its"
                        " security.protocol"
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
        """The peer has closed its side without a word, as many do."""
        if self.is_ready:
            stays = self._wrapped.eof_received()
            if self._unsent and not stays:
                self.close()  # it may still read
                return True
            return stays
        if self._is_queued and self._has_answered and not self._has_ended:
            # Its last bytes may say why it leaves, and wait for their turn: a thousand clients
            # that close at once would else hold the loop for seconds.
            self._peer_has_left = True
            return True
        if self._has_begun:
            self._fail(LEFT)
        self._has_ended = True  # without a log line: port scans do this
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        self._end()
        self._handshakes.over(self)
        self._wrapped.connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer does not take what it is sent."""
        self._is_full = True
        self._settle_pace()

    def resume_writing(self) -> None:
        """It does again."""
        self._is_full = False
        self._encrypt()

    # -- the connection's calls

    def write(self, data: Buffer) -> None:
        """Encrypts and sends, in turns what is large; nothing once the session has ended."""
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
        """Encrypts and sends all of it, in its order and in turns."""
        if not self.is_ready or self._has_ended:
            return
        self._unsent.add(list_of_data)
        self._encrypt()

    def close(self) -> None:
        """Says goodbye and closes once all is written; does not wait for the peer's goodbye."""
        if self._unsent:
            self._is_leaving = self._has_ended = True
            return
        if self.is_ready and not self._has_ended:
            self._say_goodbye()
        self._end()
        self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        self._end()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the socket is being closed."""
        return self._is_leaving or self._transport.is_closing()

    def pause_reading(self) -> None:
        """The connection wants no bytes now."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """The connection wants bytes again: first those that are here."""
        self._is_paused = False
        self._transport.resume_reading()
        if self.is_ready and (self._last or self._incoming.pending or self._tls.pending()):
            asyncio.get_running_loop().call_soon(self._read)

    def is_reading(self) -> bool:
        """Whether the connection wants bytes."""
        return not self._is_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """From how many unsent bytes on the peer counts as slow."""
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken, most of them encrypted."""
        return self._transport.get_write_buffer_size() + self._unsent.size_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the socket; ``ssl_object`` is the session."""
        if name == "ssl_object":
            return self._tls if self._has_begun else default
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """From here on ``protocol`` speaks over the layer."""
        self._wrapped = cast("Wrapped", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that speaks over the layer."""
        return cast(asyncio.BaseProtocol, self._wrapped)

    # -- the handshake, for `Handshakes`

    @property
    def awaits_peer(self) -> bool:
        """Whether the next step of the handshake is the peer's."""
        return not self._is_queued

    def give_up(self, reason: str) -> None:
        """Closes a connection whose handshake lasts too long."""
        self._fail(reason)
        self._transport.abort()

    # -- the session

    def _shake(self) -> bool:
        """One step of the handshake; False if it had ended before."""
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
        """Hands on what can be decrypted, if the connection wants it, and then the end."""
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
        elif self._outgoing.pending:  # an answer to a change of keys
            self._send()

    def _decrypted(self) -> bytes:
        """All that is here in one piece, as without TLS: a request of 16 kB is in two records, and
        has not to be put together elsewhere."""
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
        """As much of what waits as this turn has room for; the rest in the next ones, as the peer
        takes it."""
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
        """Has the connection write no more while something waits here, or in the transport."""
        holds = self._is_full or bool(self._unsent)
        if holds != self._has_held:
            self._has_held = holds
            if holds:
                self._wrapped.pause_writing()
            else:
                self._wrapped.resume_writing()

    def _say_goodbye(self) -> None:
        self._end()
        with suppress(ssl.SSLError):  # the peer's goodbye is missing, and not awaited
            self._tls.unwrap()
        self._send()

    def _end(self) -> None:
        """Nothing more is read, and nothing written."""
        self._has_ended = True
        self._is_direct = False
        self._is_leaving = False
        self._unsent.clear()

    def _send(self) -> None:
        data = self._outgoing.read()
        if data:
            self._transport.write(data)

    def _break_off(self, error: ssl.SSLError) -> None:
        """Ends the connection on data that TLS can't process."""
        self._end()
        self._send()  # an alert
        self._on_failure(Failure(f"the TLS session failed: {said_of(error)}"))
        self._transport.abort()

    def _fail(self, reason: str) -> None:
        if self._has_ended:
            return
        self._end()
        self._handshakes.over(self)
        self._send()  # an alert
        self._on_failure(Failure(reason))
        self._transport.close()
