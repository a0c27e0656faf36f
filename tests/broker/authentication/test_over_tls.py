"""Tests logins over TLS: bytes after the last login message are passed to the Kafka protocol."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tests.broker.authentication.letting_in import (
    AUTHENTICATE,
    GROUPS,
    HANDSHAKE,
    broker_with_logins,
    plain_token,
    port_of,
)
from tests.broker.authentication.test_real_clients import confluent, produce_and_consume
from tests.broker.edge import Client
from tests.certificates import Authority


def over_tls(authority: Authority) -> dict[str, str]:
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("localhost").pem),
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_librdkafka_logs_in_over_tls(tmp_path: Path, mechanism: str) -> None:
    authority = Authority(tmp_path)
    settings = over_tls(authority)
    async with broker_with_logins(tmp_path / "data", settings, scram=True) as (broker, _):
        secured = {
            **confluent(port_of(broker), mechanism),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
            "ssl.endpoint.identification.algorithm": "none",
        }
        assert await asyncio.to_thread(produce_and_consume, secured, "t") == [b"0", b"1", b"2"]


async def test_requests_in_tls_records_after_the_last_login_message_are_served(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    settings = over_tls(authority)
    async with broker_with_logins(tmp_path / "data", settings) as (broker, _):
        context = ssl.create_default_context(cafile=str(authority.certificate))
        client = Client(
            *await asyncio.open_connection(
                "127.0.0.1", port_of(broker), ssl=context, server_hostname="localhost"
            )
        )
        # Each write is a separate TLS record. All records may arrive in one segment.
        handles = [
            client.send(HANDSHAKE, 1, mechanism="PLAIN"),
            client.send(AUTHENTICATE, 1, auth_bytes=plain_token()),
            *(client.send(GROUPS, 0) for _ in range(5)),
        ]
        for handle in handles:
            assert (await client.receive(handle))["error_code"] == 0
        assert {str(each.principal) for each in broker.server.connections} == {"User:alice"}
