"""HTTPS: the HTTP server uses the TLS settings of listeners, and authenticates readers by client
certificates."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.config.config import BadConfig, Config
from tests.broker.web.rights import DESCRIBE, TOPIC, SecuredSeen, basic, securely
from tests.certificates import Authority, Issued

PASSWORD = "secret-of-the-store"
INLINE = {
    "http.security.protocol": "SSL",
    "http.ssl.keystore.key": "x",
    "http.ssl.keystore.certificate.chain": "x",
}


class Encrypted:
    """A broker with HTTPS, and the certificate authority of its clients."""

    def __init__(self, seen: SecuredSeen, authority: Authority) -> None:
        self.seen = seen
        self.authority = authority

    async def get(
        self, path: str, own: Issued | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if own is not None:
            context.load_cert_chain(own.pem)
        url = f"https://{self.seen.address}"
        async with httpx.AsyncClient(base_url=url, verify=context) as client:
            return await client.get(path, headers=headers)


@asynccontextmanager
async def encrypted(
    tmp_path: Path, settings: dict[str, Any], authority: Authority | None = None
) -> AsyncIterator[Encrypted]:
    authority = authority or Authority(tmp_path)
    wanted = {
        "http.security.protocol": "SSL",
        "http.ssl.truststore.location": str(authority.certificate),
        **settings,
    }
    if "http.ssl.keystore.location" not in wanted and "http.ssl.keystore.key" not in wanted:
        wanted["http.ssl.keystore.location"] = str(authority.issue("broker").pem)
    async with securely(tmp_path / "data", wanted) as seen:
        yield Encrypted(seen, authority)


async def test_https_client_certificate_authenticates_the_reader(tmp_path: Path) -> None:
    settings = {
        "http.authentication": "basic,certificate",
        "http.ssl.client.auth": "requested",
        "http.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U",
    }
    async with encrypted(tmp_path, settings) as served:
        seen, me = served.seen, served.authority.issue("alice")
        seen.rights.give("ALICE", [(DESCRIBE, TOPIC, "orders")])
        mine = await served.get("/api/topics", me)
        assert [row["topic"] for row in mine.json()["topics"]] == ["orders"]
        assert (await served.get("/metrics", me)).status_code == 200

        assert (await served.get("/api/topics")).status_code == 401
        assert (await served.get("/api/topics", None, basic("admin"))).status_code == 200
        assert (await served.get("/healthz")).json() == {"state": "ready"}
        assert seen.broker.secured.http is not None
        assert seen.broker.secured.http.tls is not None
        assert seen.broker.secured.http.tls.failed == 0


async def test_changed_https_certificate_is_used_for_new_connections(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("broker")
    settings = {"http.ssl.keystore.location": str(issued.pem)}
    async with encrypted(tmp_path, settings, authority) as served:
        broker = served.seen.broker
        tls = broker.secured.http.tls
        assert tls.made.certificate.serial == f"{issued.certificate.serial_number:x}"
        # The file gets a new certificate with the same subject and names.
        fresh = authority.issue("broker")
        await broker.secured.certificates.look()
        assert tls.made.certificate.serial == f"{fresh.certificate.serial_number:x}"
        assert (await served.get("/healthz")).status_code == 200
        assert broker.secured.certificates.seconds_left()["http"] > 0

        issued.pem.write_text(fresh.key_text)  # The file is incomplete.
        await broker.secured.certificates.look()
        assert (await served.get("/healthz")).status_code == 200, "the old one goes on"


async def test_https_client_without_tls_or_trusted_certificate_is_disconnected(
    tmp_path: Path,
) -> None:
    settings = {"http.authentication": "certificate", "http.ssl.client.auth": "required"}
    async with encrypted(tmp_path, settings) as served:
        stranger = Authority(tmp_path, "a stranger").issue("mallory")
        for own in (None, stranger):
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await served.get("/healthz", own)
        with pytest.raises(httpx.TransportError):
            await served.seen.get("/healthz")
        assert (await served.get("/healthz", served.authority.issue("me"))).status_code == 200
        assert served.seen.broker.secured.http.tls.failed == 3


async def test_https_uses_inline_certificates_tls_versions_and_cipher_suites(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("broker")
    settings = {
        "http.ssl.keystore.key": own.encrypted_key_text(PASSWORD),
        "http.ssl.keystore.certificate.chain": own.certificate_text,
        "http.ssl.key.password": PASSWORD,
        "http.ssl.truststore.location": None,
        "http.ssl.truststore.certificates": authority.certificate.read_text(),
        "http.ssl.client.auth": "required",
        "http.ssl.enabled.protocols": "TLSv1.2",
        "http.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    }
    async with encrypted(tmp_path, settings, authority) as served:
        host, _, port = served.seen.address.rpartition(":")
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.load_cert_chain(authority.issue("me").pem)

        def spoken() -> tuple[Any, ...]:
            with (
                socket.create_connection((host, int(port)), 30) as plain,
                context.wrap_socket(plain, server_hostname=host) as session,
            ):
                return session.version(), session.cipher()

        version, cipher = await served.seen.broker.time.in_thread(spoken)
        assert version == "TLSv1.2"
        assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


async def test_https_loads_pkcs12_stores(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    store, trust = tmp_path / "own.p12", tmp_path / "trust.p12"
    store.write_bytes(authority.issue("broker").pkcs12(PASSWORD))
    trust.write_bytes(authority.trust_pkcs12(PASSWORD))
    settings = {
        "http.ssl.keystore.location": str(store),
        "http.ssl.keystore.password": PASSWORD,
        "http.ssl.truststore.location": str(trust),
        "http.ssl.truststore.password": PASSWORD,
        "http.ssl.client.auth": "requested",
    }
    async with encrypted(tmp_path, settings, authority) as served:
        assert (await served.get("/healthz")).status_code == 200
    wrong = {**settings, "http.ssl.keystore.password": "no"}
    with pytest.raises(BadConfig, match=r"listener http: .*check its password") as refused:
        async with encrypted(tmp_path / "b", wrong, authority):
            pass
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"http.security.protocol": "SSL"}, "http.security.protocol=SSL needs a certificate"),
        ({"http.ssl.client.auth": "required"}, "http.ssl.client.auth: no effect without"),
        ({"http.ssl.key.password": PASSWORD}, "http.ssl.key.password: no effect without"),
        ({**INLINE, "http.ssl.principal.mapping.rules": "RULE"}, "mapping.rules: "),
        ({"http.authentication": "certificate"}, "needs http.security.protocol=SSL and"),
        ({**INLINE, "http.authentication": "certificate"}, "client.auth=requested or required"),
        (
            {"http.listener": "0.0.0.0:9644", "http.authentication": "basic"},
            "passwords would be sent without TLS: set http.security.protocol=SSL",
        ),
        ({"http.metrics.token": "short"}, "at least 16 characters"),
    ],
)
def test_start_fails_when_an_http_security_setting_would_have_no_effect(
    settings: dict[str, str], said: str
) -> None:
    with pytest.raises(BadConfig, match=said) as refused:
        Config(settings)
    assert PASSWORD not in str(refused.value)
