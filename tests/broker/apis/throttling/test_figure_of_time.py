"""Tests the request quota in ms: one percent is 10 ms of the event loop's thread per second.

Handlers advance the test clock by the duration of their work. A client with a quota of 10 % may use
1 s of work in ten seconds. After 1.05 s of work the client is throttled for 0.5 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.net.request import Request, Steps
from protocol.messages.heartbeat import API as HEARTBEAT
from tests.broker.apis.throttling.bounded import QuotaBroker, broker_with_quotas
from tests.broker.edge import Client
from tests.broker.serving import eventually

pytestmark = pytest.mark.proves("security 32")

VERSION = 3
PERCENT = 10.0
WAIT_MS = 500
Works = Callable[["Clock", Request], Steps | None]


class Clock:
    """Replaces the clock that measures the work of requests."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns

    def pass_ms(self, ms: int) -> None:
        self.ns += ms * 1_000_000


def answer(request: Request, *_: Any) -> None:
    request.respond({"error_code": 0})


def at_once(clock: Clock, request: Request) -> None:
    clock.pass_ms(1050)
    answer(request)


def in_slices(clock: Clock, request: Request) -> Steps:
    for _ in range(3):
        clock.pass_ms(350)
        yield None
    answer(request)


def waited(clock: Clock) -> asyncio.Future[None]:
    """Returns a future. When the event loop runs next, it advances the clock by one minute and
    completes the future. A request that waits for the future does no work in this minute."""
    future = asyncio.get_running_loop().create_future()

    def done() -> None:
        clock.pass_ms(60_000)
        future.set_result(None)

    asyncio.get_running_loop().call_soon(done)
    return future


def in_slices_that_wait(clock: Clock, request: Request) -> Steps:
    for _ in range(3):
        clock.pass_ms(350)
        yield waited(clock)
    answer(request)


def in_a_coroutine_that_waits(clock: Clock, request: Request) -> None:
    async def work() -> None:
        for _ in range(3):
            clock.pass_ms(350)
            await waited(clock)
        answer(request)

    request.answer_later(work())


def parked(clock: Clock, request: Request) -> None:
    def encoded(request: Request, _: Any) -> None:
        clock.pass_ms(700)
        answer(request)

    clock.pass_ms(350)
    request.encode = encoded
    request.park()
    waited(clock).add_done_callback(request.take)


def still_at_it_afterwards(clock: Clock, request: Request) -> None:
    clock.pass_ms(350)
    answer(request)
    clock.pass_ms(700)


def not_at_all(_: Clock, request: Request) -> None:
    answer(request)


WAYS = [at_once, in_slices, in_slices_that_wait, in_a_coroutine_that_waits, parked]


@asynccontextmanager
async def working(
    directory: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[QuotaBroker, Client, list[Works]]]:
    """Yields the broker, a client with a quota of 10 %, and a list of functions. Each heartbeat of
    the client is handled by the next function of the list."""
    works: list[Works] = []
    clock = Clock()
    async with broker_with_quotas(directory, settings) as bound:
        route = bound.broker.server.routes[HEARTBEAT.key << 16 | VERSION]
        route.handle = lambda _, request: works.pop(0)(clock, request)
        await bound.set(request_percentage=PERCENT)
        client = await bound.client()
        connections = bound.broker.server.connections
        await eventually("it is there", lambda: connections)
        [connection] = connections
        connection.ticks_ns = clock
        yield bound, client, works


async def throttle_time_ms(client: Client) -> int:
    told: int = (await client.call(HEARTBEAT.key, VERSION))["throttle_time_ms"]
    return told


@pytest.mark.parametrize("way", WAYS)
async def test_request_quota_excludes_the_waiting_time_of_a_request(
    way: Works, tmp_path: Path
) -> None:
    async with working(tmp_path) as (_, client, works):
        works.append(way)
        assert await throttle_time_ms(client) == WAIT_MS


async def test_work_after_the_response_of_a_request_throttles_the_next_request(
    tmp_path: Path,
) -> None:
    async with working(tmp_path) as (_, client, works):
        works += [still_at_it_afterwards, not_at_all]
        assert await throttle_time_ms(client) == 0
        assert await throttle_time_ms(client) == WAIT_MS


async def test_configured_quota_windows_limit_the_request_time_of_a_burst(tmp_path: Path) -> None:
    """The quota windows cover four seconds, in which 0.4 s of work are allowed. A throttle time is
    at most two seconds."""

    def for_540_ms(clock: Clock, request: Request) -> None:
        clock.pass_ms(540)
        answer(request)

    settings = {"quota.window.num": "3", "quota.window.size.seconds": "2"}
    async with working(tmp_path, settings) as (bound, client, works):
        works += [for_540_ms, at_once]
        assert await throttle_time_ms(client) == 1400
        await bound.time.advance(1400)
        assert await throttle_time_ms(client) == 2000
