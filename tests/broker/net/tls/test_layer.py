"""TLS on a connection, tested with Python's TLS clients over real sockets."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import ssl
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from broker.loop.watchdog import Watchdog
from broker.net.tls.failures import Failure
from broker.net.tls.handshakes import Handshakes
from broker.net.tls.layer import TURN_BYTES, TlsLayer
from broker.time import Time
from tests.certificates import Authority


class Echo(asyncio.Protocol):
    """A protocol that sends received bytes back and records its events."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.transport: Any = None
        self.paused = False

    def connection_made(self, transport):
        self.transport = transport
        self.happened.append("made")

    def data_received(self, data):
        self.happened.append("data")
        self.transport.write(data)

    def eof_received(self):
        self.happened.append("eof")

    def connection_lost(self, exc):
        self.happened.append("lost")

    def pause_writing(self):
        self.transport.pause_reading()
        self.paused = True

    def resume_writing(self):
        self.transport.resume_reading()


class Listener:
    """A listening socket whose connections use TLS."""

    def __init__(self, context: ssl.SSLContext, on_ready: Callable[..., None]) -> None:
        self.context, self._on_ready = context, on_ready
        self.connections: list[Echo] = []
        self.failures: list[str] = []
        time = Time()
        self.handshakes = Handshakes(time, Watchdog(time), lambda: 0)
        self.failed = asyncio.Event()
        self.make: type[Echo] = Echo

    def _fail(self, failure: Failure) -> None:
        self.failures.append(str(failure))
        self.failed.set()

    def _make(self) -> TlsLayer:
        self.connections.append(self.make())
        return TlsLayer(
            self.connections[-1], self.context, self.handshakes, self._on_ready, self._fail
        )

    async def __aenter__(self) -> Listener:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._make, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for each in self.connections:
            if each.transport is not None and each.happened[-1] != "lost":
                each.transport.abort()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_pem(authority: Authority) -> Path:
    return authority.issue("broker").pem


@pytest.fixture
def context(server_pem: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(server_pem)
    return made


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    def run(scenario):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(asyncio.wait_for(scenario, 20))

    return run


def listener(context, on_ready=lambda _: None):
    return Listener(context, on_ready)


def connect(port: int, context: ssl.SSLContext) -> None:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1"),
    ):
        pass


async def closed(reader) -> bytes:
    """Returns all remaining bytes. A connection reset counts as the end of the stream."""
    try:
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_are_echoed_over_tls(run, context, trusting, version):
    trusting.maximum_version = version
    payload = bytes(range(256)) * 20_000  # 5 MB exceed every buffer between client and server.

    async def scenario():
        async with listener(context) as on:
            reader, writer = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
            writer.write(payload)
            assert await reader.readexactly(len(payload)) == payload
            writer.write(b"last")
            assert await reader.readexactly(4) == b"last"
            assert writer.get_extra_info("ssl_object").version().replace(".", "_") == (
                "TLSv1_2" if version == ssl.TLSVersion.TLSv1_2 else "TLSv1_3"
            )
            writer.close()
            return on

    on = run(scenario())
    assert on.failures == []
    assert on.connections[0].happened[0] == "made"


def test_callback_connection_made_is_called_before_the_handshake(run, context):
    async def scenario():
        async with listener(context) as on:
            _, writer = await asyncio.open_connection("127.0.0.1", on.port)
            while not on.connections or on.connections[0].transport is None:
                await asyncio.sleep(0)
            assert on.connections[0].happened == ["made"]
            writer.close()

    run(scenario())


def test_close_sends_close_notify_to_the_peer(run, context, trusting):
    async def scenario():
        async with listener(context) as on:
            reader, _ = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
            while not on.connections[0].transport.is_ready:
                await asyncio.sleep(0)
            on.connections[0].transport.write(b"bye")
            on.connections[0].transport.close()
            # An end of stream without close_notify would raise an error.
            assert await reader.read() == b"bye"
            return on

    assert run(scenario()).failures == []


def test_client_without_tls_receives_an_alert_and_is_reported(run, context):
    async def scenario():
        async with listener(context) as on:
            reader, writer = await asyncio.open_connection("127.0.0.1", on.port)
            writer.write(b"\x00\x00\x00\x14\x00\x12\x00\x03")
            alert = await closed(reader)
            assert alert[:1] == b"\x15"
            return on

    assert run(scenario()).failures == [
        "a client without TLS connected to a listener with TLS:"
        " check the client's security.protocol"
    ]


def test_client_that_does_not_trust_the_certificate_is_reported(run, context):
    async def scenario():
        async with listener(context) as on:
            # asyncio's own client sends no alert.
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(connect, on.port, ssl.create_default_context())
            await on.failed.wait()
            return on

    [failure] = run(scenario()).failures
    assert "unknown ca" in failure


def test_client_without_a_required_certificate_is_refused(run, context, trusting, authority):
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    seen = []

    async def scenario():
        async with listener(context, lambda tls: seen.append(tls.getpeercert())) as on:
            reader, _ = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
            assert await closed(reader) == b""
            await on.failed.wait()
            trusting.load_cert_chain(authority.issue("alice").pem)
            reader, writer = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            return on

    [failure] = run(scenario()).failures
    assert failure == "the TLS handshake failed: peer did not return a certificate"
    assert dict(part[0] for part in seen[0]["subject"])["commonName"] == "alice"


def test_tls_client_is_refused_after_its_handshake_when_callback_on_ready_fails(
    run, context, trusting
):
    def refuse(_):
        raise Failure("no rule makes a user of CN=alice")

    async def scenario():
        async with listener(context, refuse) as on:
            reader, _ = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
            assert await closed(reader) == b""
            return on

    on = run(scenario())
    assert on.failures == ["no rule makes a user of CN=alice"]
    assert on.connections[0].happened == ["made", "lost"]


def test_disconnect_during_the_handshake_is_reported_as_a_failure(run, context):
    async def scenario():
        async with listener(context) as on:
            _, writer = await asyncio.open_connection("127.0.0.1", on.port)
            writer.write(b"\x16\x03\x01")
            writer.close()
            await on.failed.wait()
            return on

    assert run(scenario()).failures == ["the peer closed the connection during the TLS handshake"]


@pytest.mark.parametrize("behind", [b"\x16\x03\x01\x00\x05hello", b"\x16\xff\xff\xff\xff" * 9])
def test_malformed_bytes_fail_the_handshake(run, context, behind):
    async def scenario():
        async with listener(context) as on:
            reader, writer = await asyncio.open_connection("127.0.0.1", on.port)
            writer.write(behind)
            await closed(reader)
            return on

    [failure] = run(scenario()).failures
    assert failure.startswith("the TLS handshake failed: ")


def test_malformed_record_after_the_handshake_closes_the_connection(run, context, trusting):
    async def scenario():
        async with listener(context) as on:
            reader, writer = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
            writer.write(b"x")
            await reader.readexactly(1)
            sock = writer.get_extra_info("socket")
            raw = sock.dup() if hasattr(sock, "dup") else sock
            raw.send(b"\x17\x03\x03\x00\x20" + bytes(32))
            await on.failed.wait()
            return on

    on = run(scenario())
    assert len(on.failures) == 1


def test_event_loop_runs_between_steps_of_many_handshakes(run, context, trusting):
    clients = 60

    async def scenario():
        async with listener(context) as on:
            loop = asyncio.get_running_loop()
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            counting = loop.create_task(count())
            opened = await asyncio.gather(
                *(
                    asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
                    for _ in range(clients)
                )
            )
            counting.cancel()
            for _, writer in opened:
                writer.close()
            # All clients arrived at once, and the first step of each handshake had a separate
            # iteration.
            assert turns >= clients
            return on

    assert run(scenario()).failures == []


# -- large writes


class Sender(Echo):
    """A protocol that sends no bytes and records calls of pause_writing and resume_writing."""

    def data_received(self, data):
        self.happened.append("data")

    def pause_writing(self):
        self.happened.append("pause")

    def resume_writing(self):
        self.happened.append("resume")


LARGE = bytes(range(256)) * 65_536  # 16 MB


async def connected(on, trusting):
    """Returns a `Sender` after its handshake, and the streams of its peer."""
    on.make = Sender
    reader, writer = await asyncio.open_connection("127.0.0.1", on.port, ssl=trusting)
    while not on.connections[-1].transport.is_ready:
        await asyncio.sleep(0)
    return on.connections[-1], reader, writer


class Counting:
    """A TLS session that records the number of encrypted bytes per iteration of the event loop."""

    def __init__(self, layer) -> None:
        self._tls = layer._tls
        layer._tls = self
        self.turns = [0]
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        if self.turns[-1]:
            self.turns.append(0)
        asyncio.get_running_loop().call_soon(self._turn)

    def write(self, data):
        self.turns[-1] += len(data)
        return self._tls.write(data)

    def __getattr__(self, name):
        return getattr(self._tls, name)


def test_large_write_is_encrypted_in_several_iterations_in_order(run, context, trusting):
    async def scenario():
        async with listener(context) as on:
            sender, reader, _ = await connected(on, trusting)
            counting = Counting(sender.transport)
            sender.transport.write(b"before")
            sender.transport.write(LARGE)
            sender.transport.writelines([b"a" * 10, LARGE[:300_000], b"", b"b" * 70_000])
            sender.transport.write(b"after")
            assert sender.transport.get_write_buffer_size() > len(LARGE) * 9 // 10
            wanted = b"before" + LARGE + b"a" * 10 + LARGE[:300_000] + b"b" * 70_000 + b"after"
            assert await reader.readexactly(len(wanted)) == wanted
            sender.transport.write(b"last")
            assert await reader.readexactly(4) == b"last"
            assert sender.transport.get_write_buffer_size() == 0
            return sender, counting.turns

    sender, turns = run(scenario())
    assert max(turns) <= TURN_BYTES + 100
    assert len(turns) >= len(LARGE) / TURN_BYTES
    assert sender.happened.count("pause") == sender.happened.count("resume") > 0
    told = [each for each in sender.happened if each in ("pause", "resume")]
    assert told == ["pause", "resume"] * (len(told) // 2)


def test_bytes_that_several_writes_encrypt_in_one_event_loop_iteration_are_bounded(
    run, context, trusting
):
    """The broker sends a file in parts: it calls write repeatedly until the transport calls
    pause_writing."""

    async def scenario():
        async with listener(context) as on:
            sender, reader, _writer = await connected(on, trusting)
            counting = Counting(sender.transport)
            for _piece in range(8):
                sender.transport.write(LARGE[: 256 * 1024])
            assert sender.happened[-1] == "pause"
            await reader.readexactly(8 * 256 * 1024)
            return counting.turns

    assert max(run(scenario())) <= TURN_BYTES


def test_only_a_part_of_a_large_write_is_encrypted_while_the_peer_does_not_read(
    run, context, trusting
):
    async def scenario():
        async with listener(context) as on:
            sender, _, writer = await connected(on, trusting)
            writer.transport.pause_reading()
            counting = Counting(sender.transport)
            sender.transport.write(LARGE)
            for _ in range(200):
                await asyncio.sleep(0)
            assert sum(counting.turns) < len(LARGE) // 2, "the rest waits as it is"
            assert sender.happened[-1] == "pause"
            sender.transport.abort()
            while sender.happened[-1] != "lost":
                await asyncio.sleep(0)
            assert not sender.transport._unsent
            writer.close()

    run(scenario())


class Blocking:
    """A blocking TLS client that runs in a thread. It replaces uvloop's client, which can lose the
    last bytes before the end of the stream."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        plain = socket.create_connection(("127.0.0.1", port))
        self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")

    def all_that_comes(self) -> tuple[int, bool]:
        """Reads to the end of the stream. Returns the number of bytes and whether they equal LARGE.
        Raises an error if close_notify is missing."""
        got = bytearray()
        while data := self.socket.recv(1 << 18):
            got += data
        return len(got), got == LARGE


@pytest.mark.parametrize("way", ["close", "half-close"])
def test_close_waits_until_written_bytes_are_sent(run, context, trusting, way):
    async def scenario():
        async with listener(context) as on:
            on.make = Sender
            client = await asyncio.to_thread(Blocking, on.port, trusting)
            while not on.connections[-1].transport.is_ready:
                await asyncio.sleep(0)
            sender = on.connections[-1]
            sender.transport.write(LARGE)
            if way == "close":
                sender.transport.close()
                sender.transport.close()
                assert sender.transport.is_closing()
                sender.transport.write(b"too late")
            else:  # The client shuts down without close_notify and continues to read.
                socket.socket.shutdown(client.socket, socket.SHUT_WR)
            assert await asyncio.to_thread(client.all_that_comes) == (len(LARGE), True)
            while sender.happened[-1] != "lost":
                await asyncio.sleep(0)
            client.socket.close()
            return on

    assert run(scenario()).failures == []


class Hesitant(Echo):
    """A protocol that pauses reading after each call of data_received and records the number of
    bytes of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def data_received(self, data):
        self.happened.append("data")
        self.sizes.append(len(data))
        self.transport.pause_reading()


def waiting_bytes(connection: Echo) -> int:
    """Returns the number of received bytes that the TLS layer has not read from the kernel's
    buffer."""
    room = bytearray(4)
    fcntl.ioctl(connection.transport.get_extra_info("socket").fileno(), termios.FIONREAD, room)
    return struct.unpack("i", room)[0]


@pytest.mark.parametrize("behind", ["a goodbye", "nonsense"])
def test_tls_records_that_arrive_together_are_delivered_in_one_call(run, context, trusting, behind):
    size = 40_000  # These bytes need three TLS records.
    record_head, nonsense = 22, b"\x17\x03\x03\x00\x20" + bytes(32)

    async def scenario():
        async with listener(context) as on:
            on.make = Hesitant
            client = await asyncio.to_thread(Blocking, on.port, trusting)
            client.socket.send(b"x")
            while not (on.connections and on.connections[0].sizes):
                await asyncio.sleep(0)
            [hesitant] = on.connections
            client.socket.sendall(bytes(size))
            sent = size + 3 * record_head
            if behind == "nonsense":
                socket.socket.send(client.socket, nonsense)
                sent += len(nonsense)
                end = None
            else:
                end = asyncio.create_task(asyncio.to_thread(client.socket.unwrap))
                sent += 2 + record_head
            while waiting_bytes(hesitant) < sent:
                await asyncio.sleep(0)
            hesitant.transport.resume_reading()
            while len(hesitant.sizes) < 2:
                await asyncio.sleep(0)
            assert hesitant.sizes == [1, size]
            assert hesitant.happened == ["made", "data", "data"], "it wants nothing more yet"
            hesitant.transport.resume_reading()
            while hesitant.happened[-1] != "lost":
                await asyncio.sleep(0)
            if end is not None:
                await end
            client.socket.close()
            return on

    on = run(scenario())
    assert len(on.failures) == (behind == "nonsense")
    assert ("eof" in on.connections[0].happened) == (behind == "a goodbye")
