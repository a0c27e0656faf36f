"""The rate limit of new connections per IP address."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.net.limits.address_rates import HELD_MAX
from broker.quotas.client_quotas import Kind
from protocol.messages.metadata import API as METADATA
from security.quotas.entities import Entity
from tests.broker.apis.throttling.bounded import broker_with_quotas, is_silent
from tests.broker.serving import eventually


@pytest.mark.proves("security 18")
async def test_connection_above_the_rate_is_closed_after_a_delay(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(Entity(ip="127.0.0.1"), connection_creation_rate=1)
        let_in = [await bound.client() for _ in range(10)]
        for client in let_in:
            await client.call(METADATA.key, 9, topics=[])
        server = bound.broker.server
        assert len(server.connections) == 10
        over = await bound.client()
        over.send(METADATA.key, 9, topics=[])
        rates = server.address_rates
        await eventually("it is held", lambda: rates.held)
        assert await is_silent(over)
        assert len(server.connections) == 10
        await bound.time.advance(999)
        assert rates.held == 1
        await bound.time.advance(1)
        assert await over.closed_by_peer()
        throttled = bound.broker.secured.quotas.quotas.throttled[Kind.CONNECTION]
        assert (throttled.times, throttled.ms) == (1, 1_000)
        await let_in[0].call(METADATA.key, 9, topics=[])


async def test_connection_rate_of_an_address_overrides_the_default_connection_rate(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(Entity(ip=None), connection_creation_rate=1)
        rates = bound.broker.server.address_rates
        assert [rates.wait_ms("10.0.0.1") for _ in range(13)] == [0] * 10 + [1_000] * 3
        assert rates.wait_ms("10.0.0.2") == 0
        await bound.time.advance(11_000)
        assert [rates.wait_ms("10.0.0.1") for _ in range(11)] == [0] * 10 + [1_000]
        await bound.set(Entity(ip="10.0.0.1"), connection_creation_rate=100)
        assert rates.wait_ms("10.0.0.1") == 0
        assert rates.wait_ms("::ffff:10.0.0.1") == 0
        assert rates.wait_ms("") == 0


async def test_server_without_a_configured_rate_counts_no_connections_per_address(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        assert bound.broker.server.address_rates is None
        await bound.set(Entity(ip=None), connection_creation_rate=1)
        assert bound.broker.server.address_rates is not None
        await bound.set(Entity(ip=None), connection_creation_rate=None)
        assert bound.broker.server.address_rates is None


async def test_new_connection_is_closed_when_too_many_connections_are_delayed(
    tmp_path: Path,
) -> None:
    class Socket:
        aborted = paused = 0

        def abort(self) -> None:
            self.aborted += 1

        def pause_reading(self) -> None:
            self.paused += 1

    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(Entity(ip=None), connection_creation_rate=1)
        rates = bound.broker.server.address_rates
        socket = Socket()
        for _ in range(HELD_MAX + 5):
            rates.hold(socket, 1_000)
        assert (socket.aborted, socket.paused) == (5, HELD_MAX)
        await bound.time.advance(1_000)
        assert (socket.aborted, rates.held) == (HELD_MAX + 5, 0)
