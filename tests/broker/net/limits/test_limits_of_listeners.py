"""Limits per listener: the number of connections and the rate of new connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from broker.broker import Broker
from broker.net.limits import listener_rates
from protocol.errors import NONE
from tests.broker.config_calls import BROKER, SET, alter
from tests.broker.edge import Client
from tests.broker.serving import asked, eventually, serving

TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
}
# With a quota window of one second, a burst within the rate is accepted immediately.
SHORT = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
INSIDE, OUTSIDE = range(2)


async def connect(broker: Broker, listener: int) -> Client:
    return await Client.connect(broker.sockets.addresses()[listener][1])


async def is_served(client: Client) -> bool:
    client.send(18, 0)
    try:
        return bool(await asyncio.wait_for(client.receive_raw(), 20))
    except (EOFError, ConnectionError):
        return False


def close(clients: Iterable[Client]) -> None:
    for client in clients:
        client.close()


def refusals(lines: list[Any], event: str = "connection refused") -> list[str]:
    return [line["reason"] for line in lines if line["event"] == event]


async def test_max_connections_of_a_listener_does_not_limit_other_listeners(tmp_path: Path) -> None:
    settings = {**TWO, "listener.name.outside.max.connections": "2"}

    async with serving(tmp_path, settings) as broker:
        clients = [await connect(broker, OUTSIDE) for _ in range(3)]
        with capture_logs() as lines:
            assert [await is_served(each) for each in clients] == [True, True, False]
        others = [await connect(broker, INSIDE) for _ in range(3)]
        assert [await is_served(each) for each in others] == [True] * 3
        clients[0].close()
        await eventually("one is gone", lambda: len(broker.server.connections) == 4)
        clients.append(await connect(broker, OUTSIDE))
        assert await is_served(clients[-1]), "there is room again"
        close(clients + others)
    assert broker.server.refused == 1
    assert refusals(lines) in ([], ["max.connections=2 of listener OUTSIDE is reached"])


async def test_altered_max_connections_of_a_listener_applies(tmp_path: Path) -> None:
    name = "listener.name.outside.max.connections"

    async with serving(tmp_path, TWO) as broker:
        done = await asked(broker, lambda wire: alter(wire, "1", (name, SET, "1"), kind=BROKER))
        assert done == (NONE, None)
        clients = [await connect(broker, OUTSIDE) for _ in range(2)]
        assert [await is_served(each) for each in clients] == [True, False]
        close(clients)


async def test_broker_that_connects_at_max_connections_replaces_the_longest_idle_client(
    tmp_path: Path,
) -> None:
    settings = {**TWO, "max.connections": "2", "inter.broker.listener.name": "INSIDE"}

    async with serving(tmp_path, settings) as broker:
        first, second = [await connect(broker, OUTSIDE) for _ in range(2)]
        assert await is_served(first)
        broker.server.now_s += 5
        assert await is_served(second)
        with capture_logs() as lines:
            third = await connect(broker, OUTSIDE)
            assert not await is_served(third)
            other = await connect(broker, INSIDE)
            assert await is_served(other)
            assert not await is_served(first), "it was idle longest"
            assert await is_served(second)
        close([first, second, third, other])
    assert refusals(lines) == ["max.connections=2 is reached"]
    assert refusals(lines, "connection closed") == [
        "max.connections=2 is reached: closed to admit a connection of another broker"
    ]


async def test_refused_connection_of_another_broker_closes_no_client_connection(
    tmp_path: Path,
) -> None:
    settings = {
        **TWO,
        "max.connections": "2",
        "max.connections.per.ip": "2",
        "inter.broker.listener.name": "INSIDE",
    }

    async with serving(tmp_path, settings) as broker:
        clients = [await connect(broker, OUTSIDE) for _ in range(2)]
        assert [await is_served(each) for each in clients] == [True, True]
        with capture_logs() as lines:
            other = await connect(broker, INSIDE)
            assert not await is_served(other)
        assert [await is_served(each) for each in clients] == [True, True]
        close([*clients, other])
    assert refusals(lines) == ["max.connections.per.ip=2 is reached for this address"]


async def test_connections_above_the_creation_rate_are_accepted_after_a_delay(
    tmp_path: Path,
) -> None:
    settings = {**TWO, **SHORT, "listener.name.outside.max.connection.creation.rate": "5"}

    async with serving(tmp_path, settings) as broker:
        rates = broker.server.listener_rates
        assert rates is not None
        clients = [await connect(broker, OUTSIDE) for _ in range(9)]
        await eventually("some wait", lambda: rates.waiting)
        assert 5 <= len(broker.server.connections) < 9
        other = await connect(broker, INSIDE)
        assert await is_served(other), "another listener has another rate"
        assert all(await asyncio.gather(*map(is_served, clients)))
        assert rates.waiting == 0
        close([*clients, other])


async def test_max_connection_creation_rate_does_not_delay_connections_of_brokers(
    tmp_path: Path,
) -> None:
    settings = {
        **TWO,
        **SHORT,
        "inter.broker.listener.name": "INSIDE",
        "max.connection.creation.rate": "2",
    }

    async with serving(tmp_path, settings) as broker:
        rates = broker.server.listener_rates
        assert rates is not None
        clients = [await connect(broker, OUTSIDE) for _ in range(5)]
        await eventually("some wait", lambda: rates.waiting)
        others = [await connect(broker, INSIDE) for _ in range(10)]
        assert all(await asyncio.gather(*map(is_served, others)))
        gone = clients.pop()
        gone.close()
        assert all(await asyncio.gather(*map(is_served, clients)))
        close(clients + others)


async def test_delayed_connections_are_closed_above_their_limit_and_when_broker_stops(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(listener_rates, "WAITING_MAX", 3)
    settings = {**TWO, "max.connection.creation.rate": "0"}

    async with serving(tmp_path, settings) as broker:
        rates = broker.server.listener_rates
        assert rates is not None
        with capture_logs() as lines:
            clients = [await connect(broker, OUTSIDE) for _ in range(5)]
            await eventually("two are closed", lambda: rates.refused == 2)
        assert [line["event"] for line in lines] == [
            "connection rate limit reached, new connections wait"
        ], "said once"
        await eventually("two are closed", lambda: rates.refused == 2)
        assert rates.waiting == 3
    assert not any(await asyncio.gather(*map(is_served, clients)))
