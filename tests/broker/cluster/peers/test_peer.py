"""Tests that requests to another broker are answered in order, or fail with a reason."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.cluster.peers.peer import Address, Peer, PeerLost, connect
from broker.time import Time
from protocol.headers import decode_request_header, response_header
from protocol.messages.metadata import API

ASKED = {"topics": None, "allow_auto_topic_creation": False}
ANSWER = {"brokers": [], "controller_id": 7, "topics": []}

Answer = Callable[[bytes], bytes]


def _answered(frame: bytes) -> bytes:
    header = decode_request_header(frame)
    head = response_header(API.key, 1, header.correlation_id)
    return _framed(head + API.encode_response(1, ANSWER))


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[Peer]:
    """Yields a connection to a server that answers each frame with the function ``answer``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(4):
            frame = await reader.readexactly(struct.unpack(">i", head)[0])
            writer.write(answer(frame))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer = await connect(Address(host, port), "broker-1", Time(), 5000)
    try:
        yield peer
    finally:
        peer.close()
        server.close()


async def _ask(peer: Peer, timeout_ms: int = 5000) -> Any:
    return await peer.call(API, 1, ASKED, timeout_ms)


async def test_concurrent_requests_to_a_peer_are_answered() -> None:
    async with broker(_answered) as peer:
        answers = await asyncio.gather(*[_ask(peer) for _ in range(5)])
    assert [each["controller_id"] for each in answers] == [7] * 5


async def test_missing_response_of_a_peer_closes_the_connection() -> None:
    async with broker(lambda _: b"") as peer:
        with pytest.raises(PeerLost, match="did not answer Metadata within 20 ms"):
            await _ask(peer, timeout_ms=20)
        with pytest.raises(PeerLost, match="did not answer"):
            await _ask(peer)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda _: _framed(b"\0\0\0\x63rest"), "the correlation id does not match the request"),
        (lambda _: struct.pack(">i", -5), "invalid response from"),
        (lambda _: struct.pack(">i", 2**31 - 1), "invalid response from"),
        (lambda frame: _answered(frame) * 2, "the correlation id does not match the request"),
        (lambda frame: _framed(_answered(frame)[4:-1]), "truncated"),
    ],
)
async def test_invalid_response_of_a_peer_closes_the_connection_with_a_reason(
    answer: Answer, says: str
) -> None:
    async with broker(answer) as peer:
        with pytest.raises(PeerLost, match=says):
            await asyncio.gather(_ask(peer), _ask(peer))


async def test_connect_to_a_peer_fails_when_no_server_listens() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()
    with pytest.raises(PeerLost, match="can't connect to"):
        await connect(Address(host, port), "broker-1", Time(), 5000)
