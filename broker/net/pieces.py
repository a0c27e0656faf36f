"""Replies that are still in files: read and written piece by piece, as their peer takes them.

However long the replies, a peer that does not read costs one piece and what the transport holds. A
piece is read on the loop if the page cache has it and in a thread if not.
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


class Pieces:
    """The replies that a connection has begun to write, and the pace of its peer."""

    def __init__(self, connection: Connection, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        self._pending: deque[Chunk] = deque()
        self._awaits_disk = False
        """A thread reads the next piece."""
        self._piece_bytes = PIECE_BYTES
        self._prompt_pieces = 0
        """Pieces in a row that the peer has taken in less than a second each."""

    def clear(self) -> None:
        """Drops all pieces: the peer is gone."""
        self._pending.clear()

    def write(self) -> None:
        """Writes until all is written, the transport is full, or the disk is awaited.

        Replies that the connection collects in that time follow after.
        """
        if self._awaits_disk:
            return
        connection = self._connection
        pending = self._pending
        pieces = 0
        while connection.muted_at_s is None and not connection.closed:
            if pieces == PIECES_PER_TURN:  # a peer that takes all at once
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
        """Reads the next piece in a thread, and continues after that."""
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
        """Suits the pieces to a peer that has taken what it had; ``slow`` if that took a second."""
        self._prompt_pieces = 0 if slow else self._prompt_pieces + 1
        if slow and self._piece_bytes == PIECE_BYTES:
            self._piece_bytes = SLOW_PIECE_BYTES
            self._transport.set_write_buffer_limits(high=0)  # one piece at a time
        elif self._piece_bytes == SLOW_PIECE_BYTES and self._prompt_pieces >= PROMPT_PIECES:
            self._piece_bytes = PIECE_BYTES
            self._transport.set_write_buffer_limits(
                high=self._connection.server.limits.output_bytes
            )
