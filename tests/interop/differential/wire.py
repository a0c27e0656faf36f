"""Connections to the brokers of a differential run, and the brokers themselves."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Any

from protocol.framing import Framer
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME
from tests.raw_connection import MAX_ANSWER_BYTES

ANSWERED_WITHIN_S = 40.0
"""The time limit for a response in seconds. It is long enough for a loaded machine."""
CLOSED: dict[str, Any] = {"closed": True}
"""The value that replaces a response when the broker closes the connection."""


class Wire(asyncio.Protocol):
    """One connection with at most one request in flight."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.waiting: tuple[Any, int, asyncio.Future[dict[str, Any]]] | None = None
        self.lost = False
        self._framer = Framer(MAX_ANSWER_BYTES, 4)
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0

    @classmethod
    async def open(cls, port: int, client_id: str) -> Wire:
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: cls(client_id), "127.0.0.1", port)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self.waiting and not self.waiting[2].done():
            self.waiting[2].set_result(dict(CLOSED))
        self.waiting = None

    def data_received(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            assert self.waiting is not None, "a response without a request"
            api, version, future = self.waiting
            self.waiting = None
            correlation_id, position = decode_response_header(api.key, version, frame)
            assert correlation_id == self._correlation_id
            if not future.done():
                future.set_result(api.decode_response(version, frame, position))

    @property
    def free(self) -> bool:
        return self.waiting is None and not self.lost

    def send(
        self, name: str, version: int, value: dict[str, Any]
    ) -> asyncio.Future[dict[str, Any]]:
        assert self.free
        assert self._transport is not None
        api = BY_NAME[name]
        self._correlation_id += 1
        head = encode_request_header(api.key, version, self._correlation_id, self.client_id)
        body = api.encode_request(version, value)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.waiting = (api, version, future)
        self._transport.write(struct.pack(">i", len(head) + len(body)) + head + body)
        return future

    def close(self) -> None:
        if self._transport:
            self._transport.abort()


@dataclass
class Target:
    """A running broker: its name in reports, its port, the versions that it serves, and its topic
    ids."""

    name: str
    port: int
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    connection: type[Wire] = Wire

    async def open(self, client_id: str) -> Wire:
        return await self.connection.open(self.port, client_id)

    def clamp(self, api: str, version: int) -> int:
        """Returns the version that is nearest to ``version`` among those that this broker
        serves."""
        least, most = self.ranges[BY_NAME[api].key]
        return min(max(version, least), most)

    def serves(self, api: str, version: int) -> bool:
        return self.clamp(api, version) == version

    async def prepare(self, topics: dict[str, int]) -> Target:
        """Reads the API versions that the broker serves, and creates the topics. Waits until the
        topics and several coordinators can serve requests."""
        wire = await self.open("differential")
        answer = await wire.send("ApiVersions", 0, {})
        self.ranges = {
            k["api_key"]: (k["min_version"], k["max_version"]) for k in answer["api_keys"]
        }
        made = [
            {"name": n, "num_partitions": p, "replication_factor": 1} for n, p in topics.items()
        ]
        version = self.clamp("CreateTopics", 4)
        await wire.send("CreateTopics", version, {"topics": made, "timeout_ms": 20000})
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            while not await self._ready(wire, topics):
                await asyncio.sleep(0.05)
        wire.close()
        return self

    async def _ready(self, wire: Wire, topics: dict[str, int]) -> bool:
        asked = [{"topic_id": bytes(16), "name": name} for name in topics]
        answer = await wire.send("Metadata", 12, {"topics": asked})
        for topic in answer["topics"]:
            if topic["error_code"] or len(topic["partitions"]) != topics[topic["name"]]:
                return False
            self.topic_ids[topic["name"]] = topic["topic_id"]
        for group in ("ready-0", "ready-1", "ready-2", "ready-3", "ready-4", "ready-5", "ready-6"):
            asked_group = {"key": group, "key_type": 0}
            found = await wire.send("FindCoordinator", 1, asked_group)
            if found["error_code"]:
                return False
            fetched = await wire.send("OffsetFetch", 2, {"group_id": group, "topics": None})
            if fetched["error_code"]:
                return False
        return True
