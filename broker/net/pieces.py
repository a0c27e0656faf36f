"""Writes replies that contain parts of files, in pieces, as fast as the peer reads. While a peer
does not read, its replies need the memory of one piece and of the transport's buffer, whatever
their size. If a piece is in the page cache, the event loop reads it; otherwise a thread reads it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import structlog

from broker.net.request import Chunk
from log.values import Slice
from protocol.buffer import Buffer

if TYPE_CHECKING:
    from broker.net.connection import Connection

logger = structlog.get_logger(__name__)

PIECE_BYTES = 256 * 1024
"""The size in bytes of one piece of a file that is sent to a client. A piece fits into the
processor's cache.

For a consumer with 8 MiB responses, the broker's processor time was 0.75 ms/MB when responses were
read whole, and 0.20 ms/MB with pieces. For a consumer with 512 KiB responses, the times were 0.20
ms/MB and 0.24 ms/MB.
"""
SLOW_PIECE_BYTES = 64 * 1024
"""The size in bytes of one piece of a file for a client that took a second or more to read the last
piece. The smaller size limits memory."""
PROMPT_PIECES = 8
"""The number of consecutive pieces that a slow peer must read in less than a second each before
large pieces are used again."""
PIECES_PER_TURN = 8
"""The number of consecutive pieces of file data that the broker writes to one connection before it
serves other connections. Writing them takes about 1 ms."""


class Pieces:
    """The partly written replies of a connection, and the speed at which its peer reads."""

    def __init__(self, connection: Connection, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        self._pending: deque[Chunk] = deque()
        self._awaits_disk = False
        """True if a thread is reading the next piece of file data."""
        self._piece_bytes = PIECE_BYTES
        self._prompt_pieces = 0
        """The number of consecutive pieces that the peer read in less than a second each."""

    def clear(self) -> None:
        self._pending.clear()

    def write(self) -> None:
        """Writes until everything is written, the transport is full, or a thread must read a piece.

        Also writes the replies that the connection finishes during this call.
        """
        if self._awaits_disk:
            return
        connection = self._connection
        pending = self._pending
        pieces = 0
        while connection.muted_at_s is None and not connection.closed:
            if pieces == PIECES_PER_TURN:  # the peer reads as fast as the broker writes
                asyncio.get_running_loop().call_soon(self.write)
                return
            pieces += 1
            if not pending:
                pending.extend(connection.gathered())
                if not pending:
                    break
            piece, cold = self._next_piece()
            if piece:
                connection.hand_over(piece, sum(map(len, piece)))
            if cold is not None:
                self._read_cold(cold)
                return
        connection.pieces_written(not pending)

    def _next_piece(self) -> tuple[list[Buffer], Slice | None]:
        """Returns the next bytes that are in memory, up to one piece, and the file slice that
        follows them.

        The slice is None if no file slice follows. If a file is shorter than its slice, the
        connection is closed, since the peer has already received the length of the reply.
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
        """Queues the remaining part of a slice after ``got`` bytes were read; closes the connection
        if ``got`` is 0."""
        if not got:
            logger.error(
                "log file truncated while it was read", file=chunk.file.path, at=chunk.position
            )
            self._connection.abort()
            return False
        if got < chunk.length:
            rest = Slice(chunk.file, chunk.position + got, chunk.length - got)
            self._pending.appendleft(rest)
        return True

    def _read_cold(self, chunk: Slice) -> None:
        """Reads the next bytes of a file slice in a thread, then writes them to the transport."""
        job = partial(chunk.file.read, chunk.position, min(chunk.length, self._piece_bytes))
        self._awaits_disk = True

        def there(reading: asyncio.Future[bytes]) -> None:
            self._awaits_disk = False
            if self._connection.closed or reading.cancelled():
                return
            error = reading.exception()
            if error is not None:
                logger.error("log can't be read", file=chunk.file.path, error=str(error))
                self._connection.abort()
                return
            data = reading.result()
            if self._go_on_behind(chunk, len(data)):
                self._pending.appendleft(data)
                self.write()

        self._connection.server.disk_reads.read(job).add_done_callback(there)

    def keep_pace(self, slow: bool) -> None:
        """Adapts the piece size after a piece was written; ``slow`` is True if the peer took a
        second or more to read the piece."""
        self._prompt_pieces = 0 if slow else self._prompt_pieces + 1
        if slow and self._piece_bytes == PIECE_BYTES:
            self._piece_bytes = SLOW_PIECE_BYTES
            self._transport.set_write_buffer_limits(high=0)  # one piece at a time
        elif self._piece_bytes == SLOW_PIECE_BYTES and self._prompt_pieces >= PROMPT_PIECES:
            self._piece_bytes = PIECE_BYTES
            self._transport.set_write_buffer_limits(
                high=self._connection.server.limits.output_bytes
            )
