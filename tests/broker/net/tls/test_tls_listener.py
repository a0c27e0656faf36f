"""TLS listeners of a broker: accepted clients, the principals of clients, and log lines about
refused clients."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.config.config import BadConfig, Config
from broker.net.listener import listeners_of
from broker.net.tls.certificates import Certificates
from broker.net.tls.handshakes import HANDSHAKE_S_MAX
from broker.net.tls.layer import TlsLayer
from broker.net.tls.settings import tls_settings
from broker.time import Time
from protocol.errors import ILLEGAL_SASL_STATE
from security.principal import ANONYMOUS, user
from tests.broker.net.tls.securing import client_context, over_tls, port_of, tls_broker, with_tls
from tests.broker.serving import asked, eventually
from tests.certificates import Authority, Issued
from tests.core_waits import CoreWaits

FAILED = "TLS connection failed"
CLOSED = "connection closed: not a Kafka request"
VERSIONS = ("ApiVersions", 0)
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
WAIT_S_MAX = 0.05
"""The maximum response time in seconds for a client that is already connected."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Issued:
    return authority.issue("broker")


def trusting(authority: Authority, issued: Issued, **more: str) -> dict[str, str]:
    return with_tls(
        issued,
        ssl_truststore_location=str(authority.certificate),
        ssl_client_auth="required",
        **more,
    )


def reasons(lines: list[Any], event: str = FAILED) -> list[str]:
    return [line["reason"] for line in lines if line["event"] == event]


async def heartbeat_durations(broker: Broker, heartbeats: int) -> list[float]:
    """Returns the duration of each Heartbeat in seconds, without the time in which a process waited
    for a CPU core."""

    def beat(wire: Any) -> list[float]:
        core_waits = CoreWaits(os.getpid())
        took = []
        for _ in range(heartbeats):
            began = perf_counter() - core_waits.seconds()
            wire.call("Heartbeat", 0, BEAT)
            took.append(perf_counter() - core_waits.seconds() - began)
        return took

    return await asked(broker, beat)


async def principals_seen(broker: Broker, context: ssl.SSLContext) -> set[str]:
    def look(wire: Any) -> set[str]:
        wire.call(*VERSIONS)
        return {str(each.principal) for each in broker.server.connections}

    return await over_tls(broker, context, look)


# -- accepted clients


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_over_tls_are_served(
    tmp_path: Path, authority: Authority, own: Issued, version: ssl.TLSVersion
) -> None:
    context = client_context(authority, version=version)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        answer = await over_tls(broker, context, lambda wire: wire.call("ListGroups", 0))
        assert answer["error_code"] == 0
        assert await principals_seen(broker, context) == {str(ANONYMOUS)}
        assert await asked(broker, lambda wire: wire.call(*VERSIONS)), "the plain one goes on"


async def test_librdkafka_produces_and_consumes_over_tls(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    value = bytes(range(256)) * 2000  # The value needs many TLS records.

    def work(bootstrap: str) -> bytes | None:
        settings = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.certificate),
        }
        producer = Producer(settings)
        producer.produce("t", value)
        assert producer.flush(20) == 0
        consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        consumer.close()
        return None if message is None else message.value()

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        bootstrap = f"127.0.0.1:{port_of(broker)}"
        got = await asyncio.get_running_loop().run_in_executor(None, work, bootstrap)

    assert got == value


async def test_connection_limit_applies_before_the_handshake(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    settings = with_tls(own) | {"max.connections.per.ip": "1"}

    async with tls_broker(tmp_path, settings) as broker:
        first = socket.create_connection(("127.0.0.1", port_of(broker)))
        await eventually("it is counted", lambda: len(broker.server.connections) == 1)
        with pytest.raises((ConnectionError, ssl.SSLEOFError)):
            await over_tls(broker, client_context(authority), lambda wire: wire.call(*VERSIONS))
        listener = broker.listeners[1]
        assert listener.tls is not None
        assert (listener.tls.done, listener.tls.failed) == (0, 0), "no handshake was begun"
        first.close()


async def test_sasl_handshake_is_refused_on_a_listener_without_sasl(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        answer = await over_tls(
            broker,
            client_context(authority),
            lambda wire: wire.call("SaslHandshake", 1, {"mechanism": "PLAIN"}),
        )
    assert answer["error_code"] == ILLEGAL_SASL_STATE


# -- principals


async def test_client_certificate_sets_the_principal(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority, authority.issue("Alice"))

    async with tls_broker(tmp_path, trusting(authority, own)) as broker:
        assert await principals_seen(broker, context) == {str(user("CN=Alice"))}


@pytest.mark.proves("security 10")
async def test_mapping_rules_set_the_principal_or_refuse_the_client(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    rules = {"listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(A.*)$/$1/L"}
    alice = client_context(authority, authority.issue("Alice"))
    bob = client_context(authority, authority.issue("Bob"))

    async with tls_broker(tmp_path, trusting(authority, own) | rules) as broker:
        assert await principals_seen(broker, alice) == {str(user("alice"))}
        with capture_logs() as lines:
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await over_tls(broker, bob, lambda wire: wire.call(*VERSIONS))
            await eventually("it is said", lambda: reasons(lines))
    assert reasons(lines) == ["no rule of ssl.principal.mapping.rules matches the subject 'CN=Bob'"]


async def test_client_without_the_required_certificate_is_refused(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    async with tls_broker(tmp_path, trusting(authority, own)) as broker:
        with capture_logs() as lines:
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await over_tls(broker, client_context(authority), lambda wire: wire.call(*VERSIONS))
            await eventually("it is said", lambda: reasons(lines))
    assert reasons(lines) == ["the TLS handshake failed: peer did not return a certificate"]


@pytest.mark.proves("security 1")
def test_sasl_ssl_listener_ignores_global_ssl_client_auth() -> None:
    given = {
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.keystore.location": "/a.pem",
        "ssl.client.auth": "required",
    }

    def asks(given: dict[str, str]) -> list[str]:
        config = Config(given)
        return [
            tls_settings(each, config.of_listener(each.name)).client_auth
            for each in config.listeners
        ]

    assert asks(given) == ["none", "required"]
    assert asks(given | {"listener.name.sasl_ssl.ssl.client.auth": "requested"}) == [
        "requested",
        "required",
    ]


@pytest.mark.parametrize(
    ("more", "warned_of"),
    [
        ({"ssl.client.auth": "required"}, ["IN", "OUT"]),
        ({"ssl.client.auth": "requested"}, ["IN", "OUT"]),
        ({"ssl.client.auth": "required", "listener.name.in.ssl.client.auth": "required"}, ["OUT"]),
        ({"ssl.client.auth": "required", "listener.name.out.ssl.client.auth": "none"}, ["IN"]),
        ({"ssl.client.auth": "none"}, []),
        ({}, []),
    ],
)
def test_start_logs_that_ssl_client_auth_is_ignored_on_sasl_listeners(
    authority: Authority, own: Issued, more: dict[str, str], warned_of: list[str]
) -> None:
    config = Config(
        {
            "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0,TLS://127.0.0.1:0",
            "listener.security.protocol.map": "IN:SASL_SSL,OUT:SASL_SSL,TLS:SSL",
            "inter.broker.listener.name": "TLS",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "ssl.keystore.location": str(own.pem),
            "ssl.truststore.location": str(authority.certificate),
            **more,
        }
    )

    with capture_logs() as lines:
        Certificates(config, listeners_of(config), Time()).open()

    assert [line["listener"] for line in lines] == warned_of
    assert all(line["event"] == "ssl.client.auth ignored on SASL listener" for line in lines)
    assert all(line["instead"].endswith(".ssl.client.auth") for line in lines)


# -- wrong security protocols


async def test_plaintext_client_on_a_tls_listener_is_closed_and_identified_in_the_log(
    tmp_path: Path, own: Issued
) -> None:
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        with capture_logs() as lines:
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
                writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))
                assert (await reader.read())[:1] == b"\x15", "an alert"
                writer.close()
        assert broker.listeners[1].tls.failed == 3
    assert reasons(lines) == [
        "a client without TLS connected to a listener with TLS:"
        " check the client's security.protocol"
    ], "once a minute"


async def test_tls_client_on_a_plaintext_listener_is_identified_in_the_log(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    def connect(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            client_context(authority).wrap_socket(plain, server_hostname="127.0.0.1")

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        with capture_logs() as lines, pytest.raises((ConnectionError, ssl.SSLError)):
            await asyncio.get_running_loop().run_in_executor(
                None, connect, port_of(broker, "PLAINTEXT")
            )
    assert reasons(lines, CLOSED) == [
        "a TLS client connected to a listener without TLS: check the client's security.protocol"
    ]


async def test_connection_closed_by_a_port_probe_is_not_logged(tmp_path: Path, own: Issued) -> None:
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        with capture_logs() as lines:
            _, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
            await eventually("it is there", lambda: broker.server.connections)
            writer.close()
            await eventually("it is gone", lambda: not broker.server.connections)
        assert len(broker.server.handshakes) == 0
    assert reasons(lines) == []


async def test_long_handshake_step_is_counted_by_the_watchdog(
    tmp_path: Path, authority: Authority, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = TlsLayer._shake

    def slow(layer: TlsLayer) -> None:
        spin_until = perf_counter() + 0.03
        while perf_counter() < spin_until:
            pass
        step(layer)

    monkeypatch.setattr(TlsLayer, "_shake", slow)
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        assert await principals_seen(broker, client_context(authority))
        assert broker.watchdog.counts["handshakes"] == 2


# -- unfinished handshakes


async def test_unfinished_handshakes_time_out_and_do_not_delay_other_clients(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    hello = ssl.MemoryBIO()
    client = client_context(authority).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="a")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    whole = hello.read()

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        port, server = port_of(broker), broker.server
        first_s = server.now_s
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        half = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        for number, (_, writer) in enumerate(half):
            writer.write(whole if number % 2 else whole[: len(whole) // 2])
        assert max(await heartbeat_durations(broker, 20)) < WAIT_S_MAX
        await eventually("all wait for their peers", lambda: not server.handshakes._waiting)
        assert len(server.handshakes) == 400

        with capture_logs() as lines:
            last_s, server.now_s = server.now_s, first_s + HANDSHAKE_S_MAX - 1
            server.look_around()
            assert len(server.handshakes) == 400, "each has its time, the first ones too"
            server.now_s = last_s + HANDSHAKE_S_MAX
            server.look_around()
            await eventually("they are gone", lambda: not server.connections)
        assert len(server.handshakes) == 0
        for _, writer in silent + half:
            writer.close()
    assert reasons(lines) == ["the TLS handshake took more than 10 s"]


async def test_tls_renegotiation_is_refused(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        client = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{port_of(broker)}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert client.stdin
        assert client.stdout
        with capture_logs() as lines:
            client.stdin.write(b"R\n")  # This input makes openssl renegotiate once it is connected.
            reading = asyncio.ensure_future(asyncio.wait_for(client.stdout.read(), 20))
            waits = []
            while not reading.done():
                waits += await heartbeat_durations(broker, 10)
            await client.wait()
            await eventually("it is gone", lambda: not broker.server.connections)
        tls = broker.listeners[1].tls
        assert tls is not None
        assert (tls.done, tls.failed) == (1, 1)
    _, _, after = reading.result().decode(errors="replace").partition("RENEGOTIATING\n")
    assert "no renegotiation" in after
    assert len(reasons(lines)) == 1
    assert reasons(lines)[0].startswith("the TLS session failed: ")
    assert max(waits) < WAIT_S_MAX


async def test_oldest_handshake_is_closed_when_too_many_handshakes_are_open(
    tmp_path: Path, authority: Authority, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.net.tls.handshakes.OPEN_MAX", 20)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        peers = [await asyncio.open_connection("127.0.0.1", port_of(broker)) for _ in range(25)]
        for reader, _ in peers[:5]:
            assert await reader.read() == b""
        assert await principals_seen(broker, client_context(authority))
        assert len(broker.server.handshakes) == 19, "it came to more than 20, and is done"
        for _, writer in peers:
            writer.close()


# -- unusable settings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ssl.keystore.location": "/nowhere.pem"}, "/nowhere.pem can't be read"),
        ({"listener.name.ssl.ssl.client.auth": "required"}, "needs the CAs of the clients"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "use TLSv1.2 or TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL"}, "ssl.cipher.suites=TLS_RSA_WITH_NULL"),
    ],
)
def test_start_fails_when_a_tls_setting_is_unusable(
    tmp_path: Path, own: Issued, given: dict[str, str], says: str
) -> None:
    broker = Broker(Config({"log.dirs": str(tmp_path / "data"), **with_tls(own), **given}))

    with pytest.raises(BadConfig, match=r"^listener SSL: ") as refused:
        broker.open()
    broker.release()

    assert says in str(refused.value)
    assert not (tmp_path / "data").exists(), "its data are not touched"
