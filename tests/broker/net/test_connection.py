"""A connection sends responses in the order of the requests and stays within its limits. A faulty
client does not affect other connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.config.listeners import Endpoint
from broker.net.connection import BACKLOG_BYTES
from broker.net.limits.connections import Limits
from broker.net.listener import Listener
from broker.net.request import Request, ServedApi
from broker.net.server import CLOSING_S_MAX
from broker.net.sockets import bind
from log.files.filesystem import OsFileSystem
from log.values import Slice
from protocol.headers import encode_request_header
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.list_groups import API as LIST_GROUPS
from protocol.messages.metadata import API as METADATA
from tests.broker.edge import Client, EdgeBroker, eventually
from tests.broker.said import said


class Handlers:
    """Handlers of three APIs. Heartbeat is answered immediately. JoinGroup and ListGroups wait
    until the test answers them: JoinGroup is parked, and ListGroups is not."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.parked: list[Request] = []
        self.later: list[Request] = []
        self.gone: list[Request] = []
        self.answer: Callable[[Request], None] = lambda request: request.respond({"error_code": 0})

    def table(self) -> dict[int, ServedApi]:
        return {
            HEARTBEAT.key: ServedApi(HEARTBEAT, 0, 4, self.at_once),
            JOIN_GROUP.key: ServedApi(JOIN_GROUP, 0, 9, self.park),
            LIST_GROUPS.key: ServedApi(LIST_GROUPS, 0, 5, self.keep),
        }

    def at_once(self, broker: Any, request: Request) -> None:
        self.seen.append((request.client_id, request.correlation_id))
        self.answer(request)

    def park(self, broker: Any, request: Request) -> None:
        request.park()
        self.parked.append(request)
        request.on_disconnect = lambda: self.gone.append(request)

    def keep(self, broker: Any, request: Request) -> None:
        self.later.append(request)


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def start(tmp_path: Path, handlers: Handlers) -> Callable[..., EdgeBroker]:
    def make(**limits: Any) -> EdgeBroker:
        return EdgeBroker(tmp_path, limits=Limits(**limits), served=handlers.table())

    return make


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


def beat(client: Client) -> tuple[int, int, int]:
    return client.send(HEARTBEAT.key, 0, group_id="g", generation_id=1, member_id="m")


def join(client: Client) -> tuple[int, int, int]:
    return client.send(JOIN_GROUP.key, 0, group_id="g", protocols=[])


async def test_responses_are_sent_in_the_order_of_the_requests(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client = await broker.client()
        slow, quick = client.send(LIST_GROUPS.key, 0), beat(client)
        await eventually(lambda: len(handlers.seen) == 1)

        handlers.later[0].respond({"error_code": 0, "groups": []})

        assert await client.receive(slow)
        assert await client.receive(quick)


async def test_next_request_waits_until_the_parked_request_is_answered(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client, other = await broker.client(), await broker.client()
        parked, behind = join(client), beat(client)
        await eventually(lambda: len(handlers.parked) == 1)
        await other.receive(beat(other))

        assert len(handlers.seen) == 1, "only the other connection's request is handled"
        handlers.parked[0].respond({"error_code": 25})

        assert (await client.receive(parked))["error_code"] == 25
        assert await client.receive(behind)


async def test_response_to_an_earlier_request_does_not_release_requests_after_a_parked_request(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client, other = await broker.client(), await broker.client()
        first, parked, behind = client.send(LIST_GROUPS.key, 0), join(client), beat(client)
        await eventually(lambda: handlers.parked)

        async def work() -> None:
            handlers.later[0].respond({"error_code": 0, "groups": []})

        handlers.later[0].answer_later(work())
        assert await client.receive(first)
        await other.receive(beat(other))
        assert len(handlers.seen) == 1, "only the other connection's request is handled"

        handlers.parked[0].respond({"error_code": 25})
        assert (await client.receive(parked))["error_code"] == 25
        assert await client.receive(behind)


async def test_parked_request_is_notified_of_the_disconnect(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client = await broker.client()
        join(client)
        await eventually(lambda: len(handlers.parked) == 1)

        client.close()

        await eventually(lambda: handlers.gone == handlers.parked)
        handlers.parked[0].respond({"error_code": 0})  # A late response has no effect.


async def test_disconnect_is_detected_when_the_request_backlog_is_full(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client = await broker.client()
        join(client)
        for _ in range(2 * BACKLOG_BYTES // 30):
            beat(client)
        await eventually(lambda: len(broker.server.unread) == 1)
        (connection,) = broker.server.connections

        client.writer.transport.abort()

        def gone() -> bool:
            broker.server.look_around()
            return handlers.gone == handlers.parked

        await eventually(gone)
        assert connection not in broker.server.connections


async def test_requests_after_a_parked_request_are_bounded_and_handled_in_order(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client = await broker.client()
        parked = join(client)
        handles = [beat(client) for _ in range(20_000)]
        await eventually(lambda: len(broker.server.unread) == 1)

        assert not handlers.seen
        handlers.parked[0].respond({"error_code": 0})

        await client.receive(parked)
        for handle in handles:
            await client.receive(handle)
        assert len(handlers.seen) == 20_000


async def test_frame_that_arrives_byte_by_byte_is_handled(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start() as broker:
        client = await broker.client()
        header = encode_request_header(HEARTBEAT.key, 4, 77, "pieces")
        body = HEARTBEAT.encode_request(4, {"group_id": "g", "member_id": "m"})
        frame = struct.pack(">i", len(header) + len(body)) + header + body
        for byte in frame:
            client.send_raw(bytes([byte]))
            await asyncio.sleep(0)

        assert (await client.receive((HEARTBEAT.key, 4, 77)))["error_code"] == 0
        assert handlers.seen == [("pieces", 77)]


async def test_broker_stops_reading_from_a_peer_that_does_not_read_and_closes_it_as_idle(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    handlers.answer = lambda request: request.complete(struct.pack(">i", 60_000) + bytes(60_000))
    async with start(output_bytes=100_000) as broker:
        client, other = await broker.client(), await broker.client()
        client.writer.transport.pause_reading()
        sent = 5000
        for _ in range(sent):
            beat(client)
        await eventually(lambda: len(broker.server.muted) == 1)
        (connection,) = broker.server.muted

        assert connection.write_buffer_size() < 2_000_000
        assert len(handlers.seen) < sent
        handlers.answer = lambda request: request.respond({"error_code": 0})
        await other.receive(beat(other))

        broker.server.look_around()
        assert connection in broker.server.connections, "not at once"
        broker.server.now_s += broker.server.limits.idle_ms // 1000
        broker.server.look_around()
        await eventually(lambda: connection not in broker.server.connections)


async def test_client_that_stopped_reading_gets_every_response_when_it_reads_again(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    size = 60_000
    handlers.answer = lambda request: request.complete(struct.pack(">i", size) + bytes(size))
    async with start(output_bytes=100_000) as broker:
        client = await broker.client()
        client.writer.transport.pause_reading()
        for _ in range(300):
            beat(client)
        await eventually(lambda: len(broker.server.muted) == 1)

        client.writer.transport.resume_reading()

        for _ in range(300):
            assert len(await asyncio.wait_for(client.receive_raw(), 30)) == size
        assert not broker.server.muted


async def test_idle_connection_is_closed_unless_it_has_a_parked_request(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start(idle_ms=60_000) as broker:
        idle, waiting = await broker.client(), await broker.client()
        await idle.receive(beat(idle))
        handle = join(waiting)
        await eventually(lambda: len(handlers.parked) == 1)

        broker.server.look_around()
        assert len(broker.server.connections) == 2
        broker.server.now_s += 61
        broker.server.look_around()

        assert await idle.closed_by_peer()
        handlers.parked[0].respond({"error_code": 0})
        assert await waiting.receive(handle)


async def test_connection_above_max_connections_is_closed(start: Callable[..., EdgeBroker]) -> None:
    async with start(connections=2) as broker:
        first, second, third = [await broker.client() for _ in range(3)]

        assert await third.closed_by_peer()
        await first.receive(beat(first))
        await second.receive(beat(second))
        assert broker.server.refused == 1

        first.close()
        await eventually(lambda: len(broker.server.connections) == 1)
        fourth = await broker.client()
        await fourth.receive(beat(fourth))


async def test_connection_above_max_connections_per_ip_or_its_override_is_closed(
    start: Callable[..., EdgeBroker],
) -> None:
    async with start(connections_per_ip=1) as broker:
        _first, second = await broker.client(), await broker.client()
        assert await second.closed_by_peer()
    overrides = {"127.0.0.1": 2}
    async with start(connections_per_ip=0, connections_per_ip_overrides=overrides) as broker:
        _first, second, third = [await broker.client() for _ in range(3)]
        assert await second.receive(beat(second))
        assert await third.closed_by_peer()


async def test_number_of_requests_in_flight_is_bounded(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    async with start(requests_in_flight=3) as broker:
        client = await broker.client()
        handles = [client.send(LIST_GROUPS.key, 0)]
        await eventually(lambda: len(handlers.later) == 1)
        handles += [client.send(LIST_GROUPS.key, 0)]
        await eventually(lambda: len(handlers.later) == 2)
        handles += [client.send(LIST_GROUPS.key, 0)]
        await eventually(lambda: len(handlers.later) == 3)
        handles += [client.send(LIST_GROUPS.key, 0), client.send(LIST_GROUPS.key, 0)]
        other = await broker.client()
        await other.receive(beat(other))

        assert len(handlers.later) == 3
        for number, handle in enumerate(handles):
            await eventually(lambda n=number: len(handlers.later) > n)
            handlers.later[number].respond({"error_code": 0, "groups": []})
            assert await client.receive(handle)


async def test_handler_exception_is_logged_and_returns_unknown_server_error(
    start: Callable[..., EdgeBroker], handlers: Handlers, logs: list[Any]
) -> None:
    answer = handlers.answer

    def broken(request: Request) -> None:
        handlers.answer = answer
        raise ZeroDivisionError("a bug")

    handlers.answer = broken
    async with start() as broker:
        client = await broker.client()
        reply = await client.receive(beat(client))

        assert reply["error_code"] == -1
        assert [(line["event"], line["api"]) for line in said(logs)] == [
            ("request failed: internal error", "Heartbeat")
        ]
        reply = await client.receive(beat(client))
        assert reply["error_code"] == 0, "the connection goes on"


async def test_handler_exception_closes_the_connection_if_the_response_has_no_top_level_error(
    tmp_path: Path,
) -> None:
    def broken(broker: Any, request: Request) -> None:
        raise ZeroDivisionError("a bug")

    served = {METADATA.key: ServedApi(METADATA, 0, 1, broken)}
    async with EdgeBroker(tmp_path, served=served) as broker:
        client, other = await broker.client(), await broker.client()
        client.send(METADATA.key, 1, topics=[])

        assert await client.closed_by_peer()
        assert len(broker.server.connections) == 1
        other.close()


async def test_malformed_request_closes_connection_and_logs_escaped_client_id(
    start: Callable[..., EdgeBroker], handlers: Handlers, logs: list[Any]
) -> None:
    handlers.answer = lambda request: request.respond({"error_code": len(request.value)})
    async with start() as broker:
        client = await broker.client()
        header = encode_request_header(HEARTBEAT.key, 0, 1, "evil\n\x1b[31mclient")
        client.send_raw(struct.pack(">i", len(header) + 1) + header + b"\x7f")
        assert await client.closed_by_peer()

        (line,) = said(logs)
        assert line["client_id"] == "evil\\n\\x1b[31mclient"
        assert line["peer"].startswith("127.0.0.1:")
        assert broker.server.protocol_errors == 1


async def test_unknown_api_or_version_closes_the_connection(
    start: Callable[..., EdgeBroker],
) -> None:
    async with start() as broker:
        for key, version in ((HEARTBEAT.key, 5), (FIND_COORDINATOR.key, 0), (-1, 0), (999, -1)):
            client = await broker.client()
            client.send_raw(struct.pack(">ihhihx", 11, key, version, 1, -1))
            assert await client.closed_by_peer()


async def test_requests_sent_before_a_malformed_request_are_answered(
    start: Callable[..., EdgeBroker],
) -> None:
    async with start() as broker:
        client = await broker.client()
        handle = beat(client)
        client.send_raw(struct.pack(">i", -5))

        assert await client.receive(handle)
        assert await client.closed_by_peer()


async def test_parts_of_a_response_from_memory_and_files_are_sent_in_order(
    start: Callable[..., EdgeBroker], handlers: Handlers, tmp_path: Path
) -> None:
    file = OsFileSystem().open(str(tmp_path / "payload"), create=True)
    file.write(0, b"0123456789")
    handlers.answer = lambda request: request.complete(
        [struct.pack(">i", 9), b"<<", Slice(file, 3, 5), memoryview(b">>")]
    )
    async with start() as broker:
        client = await broker.client()
        beat(client)

        assert await client.receive_raw() == b"<<34567>>"


async def test_total_size_of_partial_requests_is_bounded_by_queued_max_request_bytes(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    """While partial requests exceed queued.max.request.bytes, the broker reads only from the
    connection with the oldest partial request."""
    header = encode_request_header(HEARTBEAT.key, 0, 9, "big")
    group = "g" * 30_000
    body = HEARTBEAT.encode_request(0, {"group_id": group, "member_id": "m" * 30_000})
    frame = struct.pack(">i", len(header) + len(body)) + header + body
    async with start(queued_bytes=100_000) as broker:
        clients = [await broker.client() for _ in range(5)]
        for client in clients:
            client.send_raw(frame[:50_000])
        await eventually(lambda: len(broker.server.unread) >= 3)
        for client in clients:
            client.send_raw(frame[50_000:])

        for client in clients:
            assert await client.receive((HEARTBEAT.key, 0, 9))
        await eventually(lambda: not broker.server.unread)


async def test_connection_is_closed_when_its_partial_request_stalls_and_delays_another_client(
    start: Callable[..., EdgeBroker],
) -> None:
    async with start(queued_bytes=1000) as broker:
        stalled, other = await broker.client(), await broker.client()
        stalled.send_raw(struct.pack(">i", 10_000) + bytes(900))
        partials = broker.server.partials
        assert partials is not None
        await eventually(lambda: any(c.buffered for c in broker.server.connections))
        (connection,) = [c for c in broker.server.connections if c.buffered]
        other.send_raw(struct.pack(">i", 10_000) + bytes(900))
        await eventually(lambda: len(broker.server.unread) == 1)

        broker.server.now_s += 11
        broker.server.look_around()

        await eventually(lambda: connection not in broker.server.connections)
        await eventually(lambda: not broker.server.unread)


async def test_closing_connection_is_aborted_when_its_peer_does_not_read(
    start: Callable[..., EdgeBroker], handlers: Handlers
) -> None:
    size = 8_000_000
    handlers.answer = lambda request: request.complete(struct.pack(">i", size) + bytes(size))
    async with start() as broker:
        client = await broker.client()
        client.writer.transport.pause_reading()
        beat(client)
        client.send_raw(struct.pack(">i", -1))
        await eventually(lambda: any(c.closed for c in broker.server.connections))

        for _ in range(2):
            broker.server.look_around()
            broker.server.now_s += CLOSING_S_MAX + 1

        broker.server.look_around()
        await eventually(lambda: not broker.server.connections)


def test_ipv6_addresses_of_one_network_count_as_one_address() -> None:
    from broker.net.peer import network_of

    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2:9:9:9:9")
    assert network_of("10.0.0.9") == "10.0.0.9"


def test_peer_address_is_formatted_as_by_java() -> None:
    from broker.net.peer import java_address

    assert java_address("127.0.0.1") == "/127.0.0.1"
    assert java_address("::1") == "/0:0:0:0:0:0:0:1"
    assert java_address("::ffff:10.0.0.7") == "/10.0.0.7"
    assert java_address("fe80::1%eth0") == "/fe80:0:0:0:0:0:0:1%eth0"


async def test_client_over_ipv6_is_served(tmp_path: Path, handlers: Handlers) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    broker = EdgeBroker(tmp_path, served=handlers.table())
    try:
        bound = bind("::1", 0, broker.server.limits)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    await broker.server.accept(bound, Listener(Endpoint("PLAINTEXT", "::1", 0)))
    client = Client(*await asyncio.open_connection(*bound.getsockname()[:2]))

    assert await client.receive(beat(client))
    await broker.server.close()
