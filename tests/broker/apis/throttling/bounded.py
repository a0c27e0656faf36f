"""Starts a broker with quotas and a mock clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from broker.authorizer.authorizer import Authorizer
from broker.broker import Broker
from broker.test_mode.clock.mock_time import MockTime
from protocol.headers import encode_request_header
from protocol.messages import BY_NAME
from security.quotas.entities import Entity
from tests.broker.edge import Client
from tests.broker.serving import serving
from tests.broker.topic_calls import produce_request
from tests.wire import batch

ANYBODY = Entity("ANONYMOUS")


class QuotaBroker:
    def __init__(self, broker: Broker, time: MockTime) -> None:
        self.broker = broker
        self.time = time

    async def set(self, entity: Entity = ANYBODY, **quotas: float | None) -> None:
        """Sets quotas of an entity. The value None removes a quota."""
        assert await self.broker.secured.quotas.alter({entity: quotas}) == {}

    async def client(self, client_id: str = "tester") -> Client:
        client = await Client.connect(self.broker.sockets.addresses()[0][1])
        client.client_id = client_id
        return client

    @property
    def throttled(self) -> int:
        return len(self.broker.server.throttles)


@asynccontextmanager
async def broker_with_quotas(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    authorizer: Authorizer | None = None,
) -> AsyncIterator[QuotaBroker]:
    """Yields a broker with a frozen clock and a topic ``t`` that has one partition."""
    time = MockTime()
    time.freeze()
    async with serving(directory, settings, time=time, authorizer=authorizer) as broker:
        await broker.topics.create("t", 1, {})
        yield QuotaBroker(broker, time)


def produce_of(size: int, version: int = 9, client_id: str = "tester", **fields: object) -> bytes:
    """Returns a Produce request to ``t`` of exactly ``size`` bytes, without its length prefix."""
    api = BY_NAME["Produce"]
    header = encode_request_header(api.key, version, 7, client_id)
    payload = size - 200
    while True:
        records = batch(bytes(payload))
        frame = header + api.encode_request(version, produce_request("t", records, **fields))
        if len(frame) == size:
            return frame
        payload += size - len(frame)


async def is_silent(client: Client, turns: int = 20) -> bool:
    """Returns True if no byte arrives from the broker during ``turns`` waits of 1 ms."""
    for _ in range(turns):
        await asyncio.sleep(0.001)
    return not client.reader._buffer  # type: ignore[attr-defined]
