"""Long replies in memory: written piece by piece, so that no write copies all of one."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

from broker.net.connection import Connection
from broker.net.pieces import JOINED_BYTES, PIECE_BYTES, Pieces


class FakeConnection:
    """What `Pieces` asks of a connection."""

    def __init__(self, reply: bytes) -> None:
        self.muted_at_s: int | None = None
        self.closed = False
        self.bytes_out = 0
        self.is_done = False
        self._replies = [reply]

    def gathered(self) -> list[Any]:
        replies, self._replies = self._replies, []
        return replies

    def pieces_written(self, all_of_them: bool) -> None:
        self.is_done = all_of_them


class FakeTransport:
    """Takes all that it gets."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))


async def test_long_reply_is_written_whole_in_pieces() -> None:
    reply = os.urandom(PIECE_BYTES * 20 + JOINED_BYTES // 2)
    connection, transport = FakeConnection(reply), FakeTransport()
    pieces = Pieces(cast("Connection", connection), cast("asyncio.Transport", transport))
    pieces.write()
    while not connection.is_done:
        await asyncio.sleep(0)
    assert b"".join(transport.writes) == reply
    assert max(map(len, transport.writes)) <= PIECE_BYTES + JOINED_BYTES
    assert connection.bytes_out == len(reply)
