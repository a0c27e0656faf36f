"""Large parts of files are sent to plain connections with sendfile, without a copy."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from broker.broker import Broker
from broker.net.connection import Connection
from broker.net.pieces import SENT_BYTES, SENT_BYTES_MIN, WAKING_BYTES, Pieces
from broker.net.request import Chunk, Request, ServedApi
from log.files.filesystem import OsFileSystem
from log.files.os_file import PAGE_CACHE, OsFile, PageCache
from log.values import Slice
from protocol.messages.heartbeat import API as HEARTBEAT
from tests.broker.edge import EdgeBroker, eventually
from tests.broker.net.test_slow_readers import (
    MIB,
    PAYLOAD,
    SIZE,
    Files,
    SlowClient,
    ask,
    in_memory,
    serving,
)

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
SIZES = (100, SENT_BYTES_MIN - 1, SENT_BYTES_MIN, 200_001, SENT_BYTES + 1, 3 * MIB)


def file_of(folder: Path, size: int) -> OsFile:
    file = OsFileSystem().open(str(folder / f"{size}"), create=True)
    file.write(0, PAYLOAD[:size])
    return file.opened()


class Sent:
    """Counts the bytes that are sent with sendfile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        send = os.sendfile

        def counted(to: int, of: int, position: int, length: int) -> int:
            sent = send(to, of, position, length)
            self.bytes += sent
            return sent

        monkeypatch.setattr(os, "sendfile", counted)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


def run(loop: Callable[[], Any], main: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(cast(Any, main()))


@LOOPS
def test_replies_from_files_and_from_memory_arrive_unchanged_and_in_order(
    tmp_path: Path, loop: Callable[[], Any], sent: Sent
) -> None:
    replies: list[list[Chunk]] = []
    for size in SIZES:
        file = file_of(tmp_path, size)
        body = [b"first", Slice(file, 0, size), Slice(file, size // 2, size - size // 2), b"last"]
        length = sum(len(each) if isinstance(each, bytes) else each.length for each in body)
        replies.append([struct.pack(">i", length), *body])

    def handle(_: Broker, request: Request) -> None:
        request.complete(replies[request.correlation_id % len(replies)])

    async def main() -> None:
        served = {HEARTBEAT.key: ServedApi(HEARTBEAT, 0, 4, handle)}
        async with EdgeBroker(tmp_path, served=served) as broker:
            client = await broker.client()
            asked = [ask(client)[2] for _ in range(3 * len(SIZES))]
            for correlation_id in asked:
                size = SIZES[correlation_id % len(SIZES)]
                data = PAYLOAD[:size]
                assert await client.receive_raw() == b"first" + data + data[size // 2 :] + b"last"
            (connection,) = broker.server.connections
            assert not connection.sending

    run(loop, main)
    assert sent.bytes > 3 * 3 * MIB


@LOOPS
def test_broker_buffers_almost_nothing_for_peers_that_do_not_read(
    tmp_path: Path, loop: Callable[[], Any]
) -> None:
    async def main() -> None:
        async with serving(tmp_path, Files(file_of(tmp_path, 8 * MIB))) as broker:
            peers = [SlowClient(broker.port) for _ in range(20)]
            await eventually(lambda: len(broker.server.muted) == 20)
            sizes = [connection.write_buffer_size() for connection in broker.server.muted]
            assert 0 < max(sizes) <= WAKING_BYTES

            await peers[0].read(4 + 8 * MIB)
            assert peers[0].got[4:] == PAYLOAD[: 8 * MIB]
            for peer in peers:
                peer.socket.close()
            await eventually(lambda: not broker.server.connections)

    run(loop, main)


@LOOPS
def test_peer_that_disconnects_during_a_reply_is_closed(
    tmp_path: Path, loop: Callable[[], Any]
) -> None:
    async def main() -> None:
        async with serving(tmp_path, Files(file_of(tmp_path, 8 * MIB))) as broker:
            peer = SlowClient(broker.port)
            await eventually(lambda: len(broker.server.muted) == 1)
            peer.socket.close()
            await eventually(lambda: not broker.server.connections)

    run(loop, main)


async def test_buffer_limit_of_a_connection_is_restored_after_a_large_file_was_sent(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, Files(file_of(tmp_path, 8 * MIB))) as broker:
        client = await broker.client()
        ask(client)
        await client.receive_raw()
        (connection,) = broker.server.connections
        await eventually(lambda: not connection.sending)
        assert connection._transport.get_write_buffer_limits()[1] == (
            broker.server.limits.output_bytes
        )


class Transport:
    """A fake transport with a socket of descriptor 77."""

    def __init__(self, is_closing: bool = False, ssl_object: object = None) -> None:
        self.closing = is_closing
        self.extra = {"socket": self, "ssl_object": ssl_object}
        self.written: list[Any] = []

    def fileno(self) -> int:
        return 77

    def get_extra_info(self, name: str) -> object:
        return self.extra[name]

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Raises RuntimeError if the transport is closed, as uvloop's transports do."""
        if self.closing:
            raise RuntimeError("the handler is closed")
        self.high = high


async def test_file_that_can_not_be_sent_is_copied_with_the_usual_buffer(tmp_path: Path) -> None:
    async with serving(tmp_path, in_memory()) as broker:
        peer = SlowClient(broker.port)
        await eventually(lambda: len(broker.server.muted) == 1)
        (connection,) = broker.server.muted
        assert connection.write_buffer_size() > WAKING_BYTES
        await peer.read(4 + SIZE)
        assert peer.got[4:] == PAYLOAD[:SIZE]
        peer.socket.close()


class FakeConnection:
    """A connection with one reply, which is a file."""

    def __init__(self, reply: list[Chunk]) -> None:
        self.muted_at_s = None
        self.closed = False
        self.bytes_out = 0
        self.reply = reply
        self.copied = 0
        self.server = type("Server", (), {"limits": type("Limits", (), {"output_bytes": 9})})

    def gathered(self) -> list[Chunk]:
        reply, self.reply = self.reply, []
        return reply

    def hand_over(self, chunks: list[Any], size_bytes: int) -> None:
        self.copied += size_bytes

    def pieces_written(self, all_of_them: bool) -> None:
        assert all_of_them

    def abort(self) -> None:
        self.closed = True


def written(tmp_path: Path, transport: Transport) -> FakeConnection:
    connection = FakeConnection([Slice(file_of(tmp_path, SENT_BYTES), 0, SENT_BYTES)])
    pieces = Pieces(cast(Connection, connection), cast(asyncio.Transport, transport))
    pieces.write()
    return connection


@pytest.mark.parametrize("ending", [{"is_closing": True}, {"ssl_object": object()}])
def test_file_is_not_sent_to_the_descriptor_of_a_closing_or_encrypting_transport(
    tmp_path: Path, ending: dict[str, Any], sent: Sent
) -> None:
    """The descriptor of a closed socket soon belongs to another connection."""
    connection = written(tmp_path, Transport(**ending))
    assert (connection.copied, sent.bytes) == (SENT_BYTES, 0)


def test_connection_is_closed_when_sendfile_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: int) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(os, "sendfile", broken)
    connection = written(tmp_path, Transport())
    assert connection.closed
    assert connection.copied == 0


def test_file_is_copied_if_its_file_system_does_not_support_sendfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: int) -> int:
        raise OSError(errno.EINVAL, "not supported")

    monkeypatch.setattr(os, "sendfile", unsupported)
    connection = written(tmp_path, Transport())
    assert not connection.closed
    assert connection.copied == SENT_BYTES


def test_peer_that_disconnects_after_the_last_sent_byte_causes_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = Transport()

    def send_and_disconnect(_to: int, _of: int, _position: int, length: int) -> int:
        assert transport.high == 0
        transport.closing = True
        return length

    monkeypatch.setattr(os, "sendfile", send_and_disconnect)
    small = Slice(file_of(tmp_path, 100), 0, 100)
    large = Slice(file_of(tmp_path, SENT_BYTES), 0, SENT_BYTES)
    connection = FakeConnection([small, large])
    Pieces(cast(Connection, connection), cast(asyncio.Transport, transport)).write()
    assert (connection.copied, connection.bytes_out) == (100, SENT_BYTES)


# -- the page cache


def test_page_cache_holds_written_bytes_but_none_beyond_the_end(tmp_path: Path) -> None:
    file = file_of(tmp_path, 100_000)
    descriptor = file._descriptor
    assert PAGE_CACHE.holds(descriptor, 0, 100_000)
    assert PAGE_CACHE.holds(descriptor, 99_999, 1)
    assert not PAGE_CACHE.holds(descriptor, 0, 200_000)
    assert not PAGE_CACHE.holds(descriptor, 0, 0)


def test_file_outside_the_page_cache_is_not_sent(tmp_path: Path) -> None:
    file = file_of(tmp_path, 10 * MIB)
    file.fsync()
    os.posix_fadvise(file._descriptor, MIB, 8 * MIB, os.POSIX_FADV_DONTNEED)
    assert PAGE_CACHE.holds(file._descriptor, 0, MIB)
    assert file.send_cached(-1, 0, 9 * MIB) == 0


def test_cachestat_is_called_only_once_when_the_system_does_not_support_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def pages(*arguments: int) -> int:
        asked.append(arguments)
        raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr("log.files.os_file._pages", lambda: pages)
    descriptor = file_of(tmp_path, 100)._descriptor
    cache = PageCache()
    assert [cache.holds(descriptor, 0, 100) for _ in range(3)] == [False] * 3
    assert len(asked) == 1
