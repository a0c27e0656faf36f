"""A fake broker with scripted responses, and a cluster view whose leaders the test sets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from broker.cluster.peers.lasting_peer import PeerSettings
from broker.topics.cluster_view import PartitionView
from broker.topics.registry import BrokerNode
from protocol.headers import decode_request_header, response_header
from protocol.messages import BY_KEY
from protocol.messages.api_versions import API as API_VERSIONS

LISTENER = "INTERNAL"
SETTINGS = PeerSettings(1, LISTENER, 2000, 2000)

Value = dict[str, Any]
Answer = Callable[[int, Value], Awaitable[Value | None]]
"""A function from version and request body to a response body; None closes the connection."""


class OtherBroker:
    """A fake broker with its own socket."""

    def __init__(self, node_id: int, port: int) -> None:
        self.node = BrokerNode(node_id, "127.0.0.1", port, None)
        self.answers: dict[int, Answer] = {API_VERSIONS.key: self._versions}
        self.versions: dict[int, tuple[int, int]] = {}
        """The advertised version range of each API."""
        self.asked: list[tuple[int, int, Value]] = []
        """API key, version and body of each request except ApiVersions, in order."""

    def serve(self, key: int, oldest: int, newest: int, answer: Answer) -> None:
        """Answers requests of an API in these versions with the function ``answer``."""
        self.versions[key] = (oldest, newest)
        self.answers[key] = answer

    async def _versions(self, _: int, __: Value) -> Value:
        return {
            "error_code": 0,
            "api_keys": [
                {"api_key": key, "min_version": oldest, "max_version": newest}
                for key, (oldest, newest) in self.versions.items()
            ],
        }

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.read(4):
                frame = await reader.readexactly(struct.unpack(">i", head)[0])
                header = decode_request_header(frame)
                key, version = header.api_key, header.api_version
                api = BY_KEY[key]
                value = api.decode_request(version, frame, header.position)
                if key != API_VERSIONS.key:
                    self.asked.append((key, version, value))
                answer = await self.answers[key](version, value)
                if answer is None:
                    break
                body = api.encode_response(version, answer)
                reply = response_header(key, version, header.correlation_id) + body
                writer.write(struct.pack(">i", len(reply)) + reply)
        finally:
            writer.close()


@asynccontextmanager
async def other_broker(node_id: int = 2) -> AsyncIterator[OtherBroker]:
    """Runs a fake broker until the end of the context."""
    made: list[OtherBroker] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].connected(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    made.append(OtherBroker(node_id, server.sockets[0].getsockname()[1]))
    try:
        yield made[0]
    finally:
        server.close()


class FakeView:
    """A fake of the cluster's metadata. The test sets the leaders."""

    controller_id = 1

    def __init__(self, *nodes: BrokerNode) -> None:
        self.nodes = {each.node_id: each for each in nodes}
        self.leaders: dict[tuple[str, int], int] = {}

    def brokers(self, _: str) -> Sequence[BrokerNode]:
        return list(self.nodes.values())

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        assert listener == LISTENER
        return self.nodes.get(node_id)

    def partition(self, topic: str, index: int) -> PartitionView | None:
        leader = self.leaders.get((topic, index))
        return None if leader is None else PartitionView(leader, 0, (1, 2), (1, 2))
