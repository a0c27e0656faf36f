"""Writes replies that contain parts of files, in pieces, as fast as the peer reads. While a peer
does not read, its replies need the memory of one piece and of the transport's buffer, whatever
their size. If a piece is in the page cache, the event loop reads it; otherwise a thread reads it.

Large parts of files that are in the page cache are sent with sendfile(2), without a copy, unless
the connection uses TLS. For 16 consumers with responses of 1 MiB, this takes 0.29 instead of 0.54
ms of the broker's processor time per MiB, and for 100 consumers 0.25 instead of 0.61 ms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import structlog

from broker.net.peer import plain_descriptor
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
"""The size in bytes of one piece of a file for a slow client, which took a second or more to read
the previous piece. The pieces are small to limit the memory for unsent data."""
SENT_BYTES = 512 * 1024
"""The maximum number of bytes that one call of sendfile sends. Sending them takes 0.2 ms."""
SENT_BYTES_MIN = 64 * 1024
"""The minimum size in bytes of a part of a file that sendfile sends. Smaller parts are read into
memory."""
WAKING_BYTES = 4096
"""When the socket is full, the broker passes a piece of this number of bytes to the transport. The
transport later reports that the socket has accepted the piece, so that the broker continues."""
PROMPT_PIECES = 8
"""A slow peer gets large pieces again after it has read this number of consecutive pieces in less
than a second each."""
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
        self._descriptor = plain_descriptor(transport)
        """The descriptor of the socket, for sendfile; -1 if files must be copied."""
        self._sends_files = False
        """True while files are sent with sendfile. During this time the transport buffers at most
        one piece."""
        self._is_socket_full = False
        """True if the socket accepted only a part of the bytes that were sent last."""
        self._copies_files = self._descriptor < 0
        """True if this process copies slices of files to the transport, instead of sending them
        directly from the file to the socket. Always True if the transport encrypts. Otherwise it
        becomes True when the bytes of a slice can't be sent directly, and False when all pending
        replies are written."""
        self._piece_bytes = PIECE_BYTES
        self._prompt_pieces = 0
        """The number of consecutive pieces of replies, up to the last one, that the peer read in
        less than a second each."""

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
            room = self._piece_bytes
            if self._is_sendable(pending[0]) and not self._transport.get_write_buffer_size():
                if not self._is_socket_full and self._send_file():
                    continue
                if self._is_socket_full:
                    self._is_socket_full = False
                    room = WAKING_BYTES
            piece, cold = self._next_piece(room)
            if piece:
                connection.hand_over(piece, sum(map(len, piece)))
            if cold is not None:
                self._read_cold(cold)
                return
        if not pending:
            self._send_files(False)
            self._is_socket_full = False
            self._copies_files = self._descriptor < 0
        connection.pieces_written(not pending)

    def _is_sendable(self, chunk: Chunk) -> bool:
        return (
            not self._copies_files and isinstance(chunk, Slice) and chunk.length >= SENT_BYTES_MIN
        )

    def _send_files(self, starts: bool) -> None:
        """Starts or ends the use of sendfile."""
        if self._sends_files != starts:
            self._sends_files = starts
            self._limit_buffer()

    def _send_file(self) -> bool:
        """Sends bytes of the first pending file slice directly to the socket, at most SENT_BYTES of
        them. The caller ensures that the slice is large, and that the transport has no unsent
        bytes.

        Returns False if the socket is full, or if the bytes can't be sent without a copy. Closes
        the connection if the peer has disconnected.
        """
        chunk = self._pending[0]
        if self._transport.is_closing():  # its descriptor may belong to another connection soon
            return False
        assert isinstance(chunk, Slice)
        length = min(chunk.length, SENT_BYTES)
        try:
            sent = chunk.file.send_cached(self._descriptor, chunk.position, length)
        except BlockingIOError:
            self._is_socket_full = True
            return False
        except OSError:
            self._pending.clear()
            self._connection.abort()
            return True
        if not sent:
            self._copies_files = True
            self._send_files(False)
            return False
        self._is_socket_full = sent < length
        self._connection.bytes_out += sent
        self._pending.popleft()
        return self._go_on_behind(chunk, sent)

    def _next_piece(self, room: int) -> tuple[list[Buffer], Slice | None]:
        """Returns the next piece of the replies: at most ``room`` bytes from memory, and the file
        slice that follows them. The bytes end before a large slice that can be sent without a copy.

        The slice is None if no file slice follows. If a file is shorter than its slice, the
        connection is closed, since the peer has already received the length of the reply.
        """
        pending = self._pending
        piece: list[Buffer] = []
        while pending and room > 0:
            if self._is_sendable(pending[0]):
                self._send_files(True)
                if piece:
                    break
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
        """Handles a read that returned ``got`` bytes of ``chunk``. Puts the other bytes of
        ``chunk`` at the front of the queue. If ``got`` is 0, the file was truncated; closes the
        connection and returns False."""
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
            self._limit_buffer()
        elif self._piece_bytes == SLOW_PIECE_BYTES and self._prompt_pieces >= PROMPT_PIECES:
            self._piece_bytes = PIECE_BYTES
            self._limit_buffer()

    def _limit_buffer(self) -> None:
        """Sets the number of bytes that the transport may buffer: one piece while the peer is slow
        or files are sent, otherwise ``output_bytes``."""
        if self._transport.is_closing():  # its last callbacks may still write
            return
        one = self._sends_files or self._piece_bytes == SLOW_PIECE_BYTES
        self._transport.set_write_buffer_limits(
            high=0 if one else self._connection.server.limits.output_bytes
        )
