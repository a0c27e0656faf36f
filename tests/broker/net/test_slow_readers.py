"""Responses that contain file slices, sent to clients that read slowly or not at all."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.net.limits.connections import Limits
from broker.net.pieces import PIECE_BYTES, SLOW_PIECE_BYTES
from broker.net.request import Request, ServedApi
from log.files.filesystem import OsFileSystem
from log.files.open_files import OpenFiles
from log.values import Slice
from protocol.messages.heartbeat import API as HEARTBEAT
from tests.broker.edge import Client, EdgeBroker, eventually
from tests.simulated_files import SimulatedFile, SimulatedFiles

pytestmark = pytest.mark.proves("faults 5")

MIB = 1024 * 1024
SIZE = 8 * MIB
PAYLOAD = bytes(range(251)) * (SIZE // 251 + 1)
FRAME = struct.pack(">i", SIZE)


class Files:
    """A handler that responds with a whole file. A client with id "other" gets a short response
    without the file instead."""

    def __init__(self, file: object) -> None:
        self.file = file
        self.asked = 0

    def handle(self, _: Broker, request: Request) -> None:
        self.asked += 1
        if request.client_id == "other":
            request.respond({"error_code": 0})
        else:
            request.complete([FRAME, Slice(self.file, 0, SIZE)])  # type: ignore[arg-type]


@asynccontextmanager
async def serving(tmp_path: Path, files: Files, **limits: int) -> AsyncIterator[EdgeBroker]:
    served = {HEARTBEAT.key: ServedApi(HEARTBEAT, 0, 4, files.handle)}
    async with EdgeBroker(tmp_path, served=served, limits=Limits(**limits)) as broker:
        yield broker


def on_disk(tmp_path: Path) -> Files:
    file = OsFileSystem().open(str(tmp_path / "segment"), create=True)
    file.write(0, PAYLOAD[:SIZE])
    return Files(file.opened())


def in_memory() -> Files:
    """A file that is copied, since it can't be sent with sendfile."""
    file = SimulatedFiles().open("/segment", create=True)
    file.write(0, PAYLOAD[:SIZE])
    return Files(file)


def ask(client: Client) -> tuple[int, int, int]:
    return client.send(HEARTBEAT.key, 4, group_id="g", generation_id=1, member_id="m")


class SlowClient:
    """A socket with a small receive buffer from which the test reads explicitly."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        header = struct.pack(">hhih4s", HEARTBEAT.key, 3, 1, 4, b"slow")
        body = HEARTBEAT.encode_request(3, {"group_id": "g", "generation_id": 1, "member_id": "m"})
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        self.got = bytearray()

    async def read(self, size: int) -> None:
        wanted = len(self.got) + size
        loop = asyncio.get_running_loop()
        while len(self.got) < wanted:
            data = await asyncio.wait_for(
                loop.sock_recv(self.socket, wanted - len(self.got)), timeout=20
            )
            assert data, "the connection was closed"
            self.got += data


async def test_write_buffers_of_forty_peers_that_do_not_read_are_bounded(tmp_path: Path) -> None:
    async with serving(tmp_path, in_memory()) as broker:
        peers = [SlowClient(broker.port) for _ in range(40)]
        await eventually(lambda: len(broker.server.muted) == 40)

        held = [connection.write_buffer_size() for connection in broker.server.muted]
        assert max(held) <= broker.server.limits.output_bytes + PIECE_BYTES
        other = await broker.client()
        other.client_id = "other"
        assert (await other.receive(ask(other)))["error_code"] == 0
        for peer in peers:
            peer.socket.close()


async def test_slow_reader_stays_connected_and_receives_the_whole_response(tmp_path: Path) -> None:
    """The peer reads half a megabyte every 59 s. The broker closes a connection from which the peer
    reads nothing for 60 s."""
    async with serving(tmp_path, on_disk(tmp_path), idle_ms=60_000) as broker:
        peer = SlowClient(broker.port)
        await eventually(lambda: len(broker.server.muted) == 1)
        while len(peer.got) < len(FRAME) + SIZE - MIB:
            await peer.read(MIB // 2)
            await eventually(lambda: all(c.bytes_out > len(peer.got) for c in broker.server.muted))
            broker.server.now_s += 59
            broker.server.look_around()
        await peer.read(len(FRAME) + SIZE - len(peer.got))

        assert peer.got == FRAME + PAYLOAD[:SIZE]
        await eventually(lambda: not broker.server.muted)
        assert len(broker.server.connections) == 1
        peer.socket.close()


async def test_write_buffer_of_a_slow_reader_is_small_until_it_reads_faster(tmp_path: Path) -> None:
    async with serving(tmp_path, in_memory()) as broker:
        peer = SlowClient(broker.port)
        await eventually(lambda: len(broker.server.muted) == 1)
        (connection,) = broker.server.muted
        assert connection.write_buffer_size() > SLOW_PIECE_BYTES

        for piece in range(6):
            if piece > 1:  # The first read still gets the rest of a large piece.
                assert connection.write_buffer_size() <= SLOW_PIECE_BYTES
            broker.server.now_s += 2  # The peer reads nothing in these 2 s.
            now_s = broker.server.now_s
            await peer.read(connection.write_buffer_size() + SLOW_PIECE_BYTES)
            await eventually(lambda now_s=now_s: connection.muted_at_s == now_s)  # type: ignore[misc]

        await peer.read(2 * MIB)  # The peer reads all bytes within one second.
        await eventually(lambda: connection.write_buffer_size() > SLOW_PIECE_BYTES)
        await peer.read(len(FRAME) + SIZE - len(peer.got))
        assert peer.got == FRAME + PAYLOAD[:SIZE]
        peer.socket.close()


async def test_connection_of_a_peer_that_does_not_read_is_closed_as_idle(tmp_path: Path) -> None:
    async with serving(tmp_path, on_disk(tmp_path), idle_ms=60_000) as broker:
        peer = SlowClient(broker.port)
        await eventually(lambda: len(broker.server.muted) == 1)
        broker.server.look_around()
        broker.server.now_s += 59
        broker.server.look_around()
        assert len(broker.server.connections) == 1

        broker.server.now_s += 1
        broker.server.look_around()

        await eventually(lambda: not broker.server.connections)
        peer.socket.close()


async def test_later_requests_wait_until_the_response_is_written(tmp_path: Path) -> None:
    files = on_disk(tmp_path)
    async with serving(tmp_path, files) as broker:
        client = await broker.client()
        client.writer.transport.pause_reading()
        ask(client)
        await eventually(lambda: len(broker.server.muted) == 1)
        for _ in range(3):
            ask(client)
        await asyncio.sleep(0)
        assert files.asked == 1

        client.writer.transport.resume_reading()

        for _ in range(4):
            assert await client.receive_raw() == PAYLOAD[:SIZE]


async def test_file_outside_the_page_cache_is_read_in_a_thread(
    tmp_path: Path,
) -> None:
    disk = SimulatedFiles()
    file = disk.open("/segment", create=True)
    file.write(0, PAYLOAD[:SIZE])
    disk.disk = threading.Event()
    async with serving(tmp_path, Files(file)) as broker:
        reader, other = await broker.client(), await broker.client()
        other.client_id = "other"
        ask(reader)
        await eventually(lambda: broker.server.disk_reads.done == 1)

        assert (await other.receive(ask(other)))["error_code"] == 0
        assert not any(connection.bytes_out > 100 for connection in broker.server.connections)

        disk.disk.set()
        assert await reader.receive_raw() == PAYLOAD[:SIZE]


async def test_disconnect_during_a_disk_read_does_not_affect_other_clients(tmp_path: Path) -> None:
    disk = SimulatedFiles()
    file = disk.open("/segment", create=True)
    file.write(0, PAYLOAD[:SIZE])
    disk.disk = threading.Event()
    async with serving(tmp_path, Files(file)) as broker:
        reader = await broker.client()
        ask(reader)
        await eventually(lambda: broker.server.disk_reads.done == 1)
        reader.close()
        await eventually(lambda: not broker.server.connections)
        disk.disk.set()

        other = await broker.client()
        other.client_id = "other"
        assert (await other.receive(ask(other)))["error_code"] == 0


@pytest.mark.parametrize("cold", [False, True])
async def test_connection_is_closed_when_the_file_is_shorter_than_the_response(
    tmp_path: Path, cold: bool
) -> None:
    disk = SimulatedFiles()
    file: SimulatedFile = disk.open("/segment", create=True)
    file.write(0, PAYLOAD[: SIZE // 2])
    if cold:
        disk.disk = threading.Event()
        disk.disk.set()
    async with serving(tmp_path, Files(file)) as broker:
        client = await broker.client()
        ask(client)
        with suppress(asyncio.IncompleteReadError, ConnectionResetError):
            await asyncio.wait_for(client.receive_raw(), 30)
            raise AssertionError("an answer came")
        await eventually(lambda: not broker.server.connections)


@pytest.mark.campaign
async def test_stop_sends_complete_responses_to_peers_that_read(tmp_path: Path) -> None:
    async with serving(tmp_path, on_disk(tmp_path)) as broker:
        reads, never = await broker.client(), SlowClient(broker.port)
        reads.writer.transport.pause_reading()
        ask(reads)
        await eventually(lambda: len(broker.server.muted) == 2)
        closing = asyncio.ensure_future(broker.server.close())
        reads.writer.transport.resume_reading()

        assert await reads.receive_raw() == PAYLOAD[:SIZE]
        await closing
        assert not broker.server.connections
        never.socket.close()


def test_method_read_cached_returns_none_when_the_file_was_closed(tmp_path: Path) -> None:
    files = OpenFiles(1)
    first = files.open(str(tmp_path / "first"), create=True)
    first.write(0, b"0123456789")
    assert first.read_cached(2, 3) == b"234"
    assert first.read_cached(8, 10) == b"89"
    assert first.read_cached(10, 10) == b""

    for name in ("second", "third"):
        files.open(str(tmp_path / name), create=True)

    assert first.file is None, "its descriptor was given to another"
    assert first.read_cached(2, 3) is None
    assert first.read(2, 3) == b"234"
    assert first.read_cached(2, 3) == b"234"
