"""Floods of TLS handshakes. Tests the order of handshake steps, the choice of the handshakes that
the broker abandons, and clients that close early."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.loop.watchdog import Watchdog
from broker.net.tls import handshakes
from broker.net.tls.failures import LEFT, Failure
from broker.net.tls.handshakes import Handshakes
from broker.net.tls.layer import TlsLayer
from broker.time import Time
from tests.certificates import Authority

CLIENTS = 40


def new_handshakes() -> Handshakes:
    time = Time()
    return Handshakes(time, Watchdog(time), lambda: 0)


class Peer:
    """A fake of a handshake in progress. It records the reason why the broker abandoned the
    handshake."""

    def __init__(self, address: str, awaits_peer: bool = True) -> None:
        self.address, self.awaits_peer, self.reason = address, awaits_peer, ""

    def give_up(self, reason: str) -> None:
        self.reason = reason


async def test_one_handshake_step_runs_per_loop_iteration_and_addresses_take_turns() -> None:
    all_of, done = new_handshakes(), []

    def step(name: str, was_there: bool = True) -> Any:
        def work() -> bool:
            done.append(name)
            return was_there

        return work

    for number in range(3):
        all_of.step("10.0.0.1", step(f"a{number}"))
    all_of.step("10.0.0.2", step("b0"))
    all_of.step("10.0.0.3", step("gone", was_there=False))
    by_iteration = []
    for _ in range(5):
        await asyncio.sleep(0)
        by_iteration.append(list(done))
        done.clear()
    assert by_iteration == [["a0"], ["b0"], ["gone", "a1"], ["a2"], []]


async def test_next_handshake_step_runs_when_the_previous_step_raises_an_exception() -> None:
    all_of, done = new_handshakes(), []

    def fails() -> bool:
        raise ValueError

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: done.append(context["exception"].__class__))
    all_of.step("10.0.0.1", fails)
    all_of.step("10.0.0.1", lambda: bool(done.append("next")) or True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert done == [ValueError, "next"]


@pytest.mark.parametrize("waits_for_us", [False, True])
def test_oldest_handshake_of_the_busiest_address_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, waits_for_us: bool
) -> None:
    """A flood from one address must not end a handshake from another address."""
    monkeypatch.setattr(handshakes, "OPEN_MAX", 10)
    all_of = new_handshakes()
    other = Peer("10.0.0.2")
    all_of.begun(other)
    flood = [Peer("10.0.0.1", awaits_peer=not waits_for_us) for _ in range(10)]
    for peer in flood:
        all_of.begun(peer)
    assert [each.reason for each in (other, *flood[1:])] == [""] * 10
    assert flood[0].reason == "more than 10 TLS handshakes are in progress"
    all_of.over(flood[0])
    all_of.over(flood[0])
    assert len(all_of) == 10


# -- clients that close early


class Transport:
    """A fake transport that records the written bytes and whether the TLS layer has closed it."""

    def __init__(self) -> None:
        self.written, self.closed = b"", False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 1) if name == "peername" else default

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Connection(asyncio.Protocol):
    """An asyncio protocol that ignores all data and events from the TLS layer below it."""


class Client:
    """A TLS client in memory that is connected to a TLS layer of the broker."""

    def __init__(self, served: ssl.SSLContext, context: ssl.SSLContext, on: Flood) -> None:
        self.transport = Transport()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.layer = TlsLayer(Connection(), served, on.all_of, on.ready.append, on.fail)
        self.layer.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self) -> None:
        self._in.write(self.transport.written)
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.layer.data_received(self._out.read())


class Flood:
    """Clients whose bytes all arrive at the broker in one iteration of the event loop."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        issued = authority.issue("localhost")
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(issued.pem)
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        self.all_of, self.failures, self.ready = new_handshakes(), list[str](), list[Any]()
        self.clients = [Client(served, trusting, self) for _ in range(CLIENTS)]

    def fail(self, failure: Failure) -> None:
        self.failures.append(str(failure))

    async def settle(self) -> list[int]:
        """Runs the loop until no handshake is queued; returns the number of handshakes that ended
        in each iteration."""
        ended = []
        while any(each.layer._is_queued for each in self.clients):
            before = len(self.failures) + len(self.ready)
            await asyncio.sleep(0)
            ended.append(len(self.failures) + len(self.ready) - before)
        return ended


@pytest.fixture
def flood(tmp_path: Path) -> Flood:
    return Flood(tmp_path)


async def test_handshake_gets_no_response_when_client_closes_after_first_bytes(
    flood: Flood,
) -> None:
    for client in flood.clients:
        client.send()
        assert not client.layer.eof_received()
    assert flood.failures == [LEFT] * CLIENTS
    assert await flood.settle() == [0], "all are passed over in one iteration"
    assert {client.transport.written for client in flood.clients} == {b""}
    assert len(flood.all_of) == 0


async def test_only_one_disconnected_handshake_is_removed_per_event_loop_iteration(
    flood: Flood,
) -> None:
    """In an earlier version, 400 handshakes ended in one iteration, which blocked the event loop
    for 5.8 s."""
    for client in flood.clients:
        client.send()
    await flood.settle()
    for client in flood.clients:
        client.layer.data_received(b"\x17\x03\x03")  # The bytes begin a TLS record.
        assert client.layer.eof_received(), "the transport stays until the last bytes are read"
    assert flood.failures == []
    assert set(await flood.settle()) == {1}
    assert flood.failures == [LEFT] * CLIENTS
    assert all(client.transport.closed for client in flood.clients)
    assert len(flood.all_of) == 0


async def test_handshake_succeeds_when_client_closes_after_its_last_message(
    flood: Flood,
) -> None:
    for client in flood.clients:
        client.send()
    await flood.settle()
    for client in flood.clients:
        client.send()
        assert client.layer.eof_received()
    assert set(await flood.settle()) == {1}
    assert (len(flood.ready), flood.failures) == (CLIENTS, [])
    assert all(client.transport.closed for client in flood.clients)
