"""Replies in the order of their requests, gathered so that each turn writes once.

The sending half of a connection. A request that is answered while it is handled, with none waiting
before it, needs no slot; all others wait in one until those before them are finished. The parts of
a reply that are still in a file are read piece by piece as the client takes them, on the loop if
the page cache has them, else in a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog

from broker.net.request import Body, Chunk, Request
from log.values import Slice
from protocol.buffer import Buffer

if TYPE_CHECKING:
    from broker.net.server import Server

logger = structlog.get_logger(__name__)

_JOINED_BYTES = 64 * 1024
"""Replies up to this size are copied into one buffer rather than written chunk by chunk."""
PIECE_BYTES = 256 * 1024
"""So much of a file is read and handed to the transport at a time; the processor's cache has room.

A consumer of 8 MiB answers cost the broker 0.75 ms/MB when they were read whole, and 0.2 so; one of
512 KiB answers 0.20 and 0.24.
"""
SLOW_PIECE_BYTES = 64 * 1024
"""The same for a peer that took a second and more for the last piece: it is all that it costs."""
PROMPT_PIECES = 8
"""So many of these taken in less than a second each, and the peer gets large ones again."""
PIECES_PER_TURN = 8
"""After so many, which is a millisecond, others get their turn."""


class OrderedReplies:
    """Slots for requests, and the bytes of those that may leave."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.dirty = False
        """In the server's list of connections to flush."""
        self.closed = False
        """Nothing more is read, handled or written."""
        self.handling: Request | None = None
        """The request whose handler runs now; what it answers meanwhile needs no telling."""
        self.requests = 0
        """Handled so far."""
        self.bytes_in = self.bytes_out = 0
        """Replies counted when they are handed to the transport."""
        self._transport: asyncio.Transport
        self._slots: deque[Request] = deque()
        """Requests handled and not yet on their way out, in order."""
        self._parked: Request | None = None
        self._out: list[Chunk] = []
        """Chunks of finished replies that the next write takes."""
        self._out_bytes = 0
        self._out_files = 0
        """How many of them are in files."""
        self._pending: deque[Chunk] = deque()
        """Chunks of replies that are being written piece by piece, before those in ``_out``."""
        self._awaits_disk = False
        """A thread reads what comes next."""
        self.sending = False
        """Replies are only partly written: no request is handled until they are."""
        self._piece_bytes = PIECE_BYTES
        self._prompt_pieces = 0
        """Pieces in a row that the peer has taken in less than a second each."""
        self.muted_at_s: int | None = None
        """Since when the transport holds enough that the peer has not read."""
        self._busy = False
        """Requests are being handled; their replies are written at the end of that."""

    def flush(self) -> None:
        """Writes what is finished."""
        self.dirty = False
        self._write()

    def close(self) -> None:
        """Closes the connection once the transport's buffer is written."""
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.closed = True
        self._transport.abort()

    def answered(self, request: Request) -> None:
        """Takes the reply of a request that was not answered while it was handled."""
        if self.closed:
            return
        slots = self._slots
        if slots[0] is request:
            while slots and (reply := slots[0].reply) is not None:
                slots.popleft()
                self._append(reply)
        if self._parked is request:
            self._parked = None
        if not self._busy and not self.dirty:
            self.server.writes.touch(self)

    def park(self, request: Request) -> None:
        """Handles no later request before ``request`` is answered."""
        self._parked = request

    def may_park(self) -> bool:
        """Whether a request may be parked now: none is, and somebody still waits for an answer."""
        return self._parked is None and not self.closed

    @property
    def waits(self) -> bool:
        """Whether a request is being worked on or a reply is on its way: that is not idle."""
        return bool(self._slots) or self.sending or self.write_buffer_size() > 0

    def write_buffer_size(self) -> int:
        """Bytes handed to the transport and not yet taken by the kernel."""
        return self._transport.get_write_buffer_size()

    def _place(self, request: Request) -> None:
        """Keeps a request that was handled until its reply's turn has come; often that is now."""
        self.handling = None
        self.requests += 1
        reply = request.reply
        if reply is None or self._slots:
            self._slots.append(request)
        elif type(reply) is bytes:
            self._out.append(reply)
            self._out_bytes += len(reply)
        else:
            self._append(reply)
        if reply is not None and self._parked is request:
            self._parked = None

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
            self._send()
            return
        buffers = cast("list[Buffer]", out)
        self.bytes_out += self._out_bytes
        if len(out) == 1:
            self._transport.write(buffers[0])
        elif self._out_bytes < _JOINED_BYTES:
            self._transport.write(b"".join(buffers))
        else:
            self._transport.writelines(buffers)
        self._out = []
        self._out_bytes = 0

    # -- replies that are still in files

    def _send(self) -> None:
        """Writes replies piece by piece, until the transport has enough or the disk is awaited.

        `resume_writing` calls it again. However long the replies, a peer that does not read costs
        one piece and what the transport holds.
        """
        if self._awaits_disk:
            return
        self.sending = True
        pending = self._pending
        pieces = 0
        while self.muted_at_s is None and not self.closed:
            if pieces == PIECES_PER_TURN:  # a peer that takes all at once
                asyncio.get_running_loop().call_soon(self._send)
                return
            pieces += 1
            if not pending:
                if not self._out:
                    break
                pending.extend(self._out)
                self._out, self._out_bytes, self._out_files = [], 0, 0
            piece, cold = self._next_piece()
            if piece:
                size = sum(map(len, piece))
                self.bytes_out += size
                if len(piece) == 1:
                    self._transport.write(piece[0])
                elif size < _JOINED_BYTES:
                    self._transport.write(b"".join(piece))
                else:
                    self._transport.writelines(piece)
            if cold is not None:
                self._read_cold(cold)
                return
        self.sending = bool(pending or self._out)
        if not self.sending:
            self._sent()

    def _next_piece(self) -> tuple[list[Buffer], Slice | None]:
        """About a piece of what is pending, as far as it is in memory, and what comes then if not.

        A file that ends before its slice does closes the connection: its peer knows the length.
        """
        pending = self._pending
        piece: list[Buffer] = []
        room = self._piece_bytes
        while pending and room > 0:
            chunk = pending.popleft()
            if isinstance(chunk, Slice):
                data = chunk.file.read_cached(chunk.position, min(chunk.length, room))
                if data is None:
                    return piece, chunk
                if not self._go_on_behind(chunk, len(data)):
                    return piece, None
                piece.append(data)
                room -= len(data)
            else:
                piece.append(chunk)
                room -= len(chunk)
        return piece, None

    def _go_on_behind(self, chunk: Slice, got: int) -> bool:
        """Puts back what is left of a slice; closes the connection if its file has ended."""
        if not got:
            logger.error("a log is shorter than it was", file=chunk.file.path, at=chunk.position)
            self.abort()
            return False
        if got < chunk.length:
            rest = Slice(chunk.file, chunk.position + got, chunk.length - got)
            self._pending.appendleft(rest)
        return True

    def _read_cold(self, chunk: Slice) -> None:
        """Reads the next piece in a thread, and goes on when it is there."""
        job = partial(chunk.file.read, chunk.position, min(chunk.length, self._piece_bytes))
        self._awaits_disk = True

        def there(reading: asyncio.Future[bytes]) -> None:
            self._awaits_disk = False
            if self.closed or reading.cancelled():
                return
            error = reading.exception()
            if error is not None:
                logger.error("a log can't be read", file=chunk.file.path, error=str(error))
                self.abort()
                return
            data = reading.result()
            if self._go_on_behind(chunk, len(data)):
                self._pending.appendleft(data)
                self._send()

        self.server.disk_reads.read(job).add_done_callback(there)

    def _keep_pace(self, slow: bool) -> None:
        """Suits the pieces to a peer that has taken what it had; ``slow`` if that took a second."""
        self._prompt_pieces = 0 if slow else self._prompt_pieces + 1
        if slow and self._piece_bytes == PIECE_BYTES:
            self._piece_bytes = SLOW_PIECE_BYTES
            self._transport.set_write_buffer_limits(high=0)  # one piece at a time
        elif self._piece_bytes == SLOW_PIECE_BYTES and self._prompt_pieces >= PROMPT_PIECES:
            self._piece_bytes = PIECE_BYTES
            self._transport.set_write_buffer_limits(high=self.server.limits.output_bytes)

    def _sent(self) -> None:
        """All replies have been handed to the transport; for who waits for that."""
