"""Connections from a broker to other brokers use the settings of the inter-broker listener."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cluster.peers.peer import Address, PeerLost, connect
from broker.cluster_connections import reaching_brokers
from broker.config.config import BadConfig, Config
from broker.net.tls.context import TlsSettings, listener_tls
from broker.time import Time
from protocol.headers import decode_request_header, response_header
from protocol.messages.metadata import API
from tests.certificates import Authority, Issued

ANSWER = {"brokers": [], "controller_id": 7, "topics": []}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def config_of(protocol: str, **settings: str) -> Config:
    """Returns the configuration of a broker in a cluster. Its inter-broker listener is named IN and
    uses ``protocol``."""
    given = {
        "zookeeper.connect": "127.0.0.1:1",
        "listeners": "IN://127.0.0.1:0",
        "listener.security.protocol.map": f"IN:{protocol}",
        "inter.broker.listener.name": "IN",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    }
    return Config({**given, **{name.replace("_", "."): text for name, text in settings.items()}})


def secured(own: Issued, trusted: Path, **settings: str) -> Config:
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }
    return config_of("SSL", **stores, **settings)


@asynccontextmanager
async def listening(own: Issued, trusted: Path) -> AsyncIterator[tuple[Address, list[Any]]]:
    """Runs a fake broker that requires a client certificate. Yields its address and a list that
    receives the subject of each client certificate."""
    tls = listener_tls(
        TlsSettings(
            keystore_location=str(own.pem),
            truststore_location=str(trusted),
            client_auth="required",
        )
    )
    shown: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown.append(writer.get_extra_info("peercert")["subject"][-1][0][1])
        while head := await reader.read(4):
            frame = await reader.readexactly(struct.unpack(">i", head)[0])
            answer = response_header(API.key, 1, decode_request_header(frame).correlation_id)
            answer += API.encode_response(1, ANSWER)
            writer.write(struct.pack(">i", len(answer)) + answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.context)
    host, port = server.sockets[0].getsockname()
    try:
        yield Address(host, port), shown
    finally:
        server.close()


async def ask(config: Config, address: Address) -> int:
    """Sends a request to the broker at ``address`` and returns the controller id of the
    response."""
    peer = await reaching_brokers(config)(address, "1", Time(), 5000)
    try:
        asked = {"topics": None, "allow_auto_topic_creation": False}
        return int((await peer.call(API, 1, asked, 5000))["controller_id"])
    finally:
        peer.close()


def test_inter_broker_connection_is_plaintext_when_its_listener_is_plaintext() -> None:
    assert reaching_brokers(config_of("PLAINTEXT")) is connect


async def test_brokers_authenticate_each_other_by_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("one"), authority.issue("other")
    async with listening(other, authority.certificate) as (address, shown):
        assert await ask(secured(one, authority.certificate), address) == 7
    assert shown == ["one"]


async def test_broker_with_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "a stranger")
    one, other = authority.issue("one"), stranger.issue("other")
    async with listening(other, authority.certificate) as (address, _):
        with pytest.raises(PeerLost, match=f"TLS handshake with {address} failed: .*certificate"):
            await ask(secured(one, authority.certificate), address)


async def test_host_name_is_verified_unless_disabled_by_a_setting(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("one"), authority.issue("other", address=None)
    async with listening(other, authority.certificate) as (address, _):
        with pytest.raises(PeerLost, match=r"TLS handshake with .*not valid for"):
            await ask(secured(one, authority.certificate), address)
        unchecked = secured(one, authority.certificate, ssl_endpoint_identification_algorithm="")
        assert await ask(unchecked, address) == 7


async def test_new_inter_broker_connection_uses_a_changed_certificate_if_it_is_valid(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    one, later = authority.issue("one"), authority.issue("later")
    async with listening(authority.issue("other"), authority.certificate) as (address, shown):
        reach = reaching_brokers(secured(one, authority.certificate))

        async def come() -> None:
            peer = await reach(address, "1", Time(), 5000)
            asked = {"topics": None, "allow_auto_topic_creation": False}
            await peer.call(API, 1, asked, 5000)
            peer.close()

        def write(text: str, modified_s: int) -> None:
            one.pem.write_text(text)
            os.utime(one.pem, (modified_s, modified_s))

        await come()
        write("nonsense", 1)
        with capture_logs() as logs:
            await come()
            await come()
        write(later.pem.read_text(), 2)
        await come()
    assert shown == ["one", "one", "one", "later"]
    assert [each["log_level"] for each in logs] == ["error"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "listener.name.in.scram-sha-256.sasl.jaas.config is missing"),
        ({"sasl.jaas.config": f'{MODULE} required username="b" password="p";'}, "is missing"),
        (
            {"listener.name.in.scram-sha-256.sasl.jaas.config": f"{MODULE} required;"},
            "scram-sha-256.sasl.jaas.config: .* needs username",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            "sasl.mechanism.inter.broker.protocol=OAUTHBEARER: brokers can't log in",
        ),
    ],
)
def test_start_fails_when_inter_broker_credentials_are_missing(
    settings: dict[str, str], says: str
) -> None:
    with pytest.raises(BadConfig, match=says):
        reaching_brokers(config_of("SASL_PLAINTEXT", **settings))


def test_start_fails_when_keystore_of_the_listener_is_missing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one = authority.issue("one")
    one.pem.unlink()
    with pytest.raises(BadConfig, match=r"listener IN: .*one.* can't be read"):
        reaching_brokers(secured(one, authority.certificate))
