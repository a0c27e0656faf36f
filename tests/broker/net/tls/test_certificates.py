"""The reload of certificates by AlterConfigs, by SIGHUP and by the periodic file check."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import stat
from pathlib import Path
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.config.config import Config
from broker.metrics.exposition import render
from protocol.errors import INVALID_CONFIG, INVALID_REQUEST
from tests.broker.config_calls import BROKER, DELETE, SET, alter, described
from tests.broker.net.tls.securing import client_context, over_tls, port_of, tls_broker, with_tls
from tests.broker.serving import asked, eventually
from tests.certificates import Authority, Issued

T = TypeVar("T")
LOCATION = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def own(authority: Authority) -> Issued:
    return authority.issue("broker")


async def shown(broker: Broker, context: ssl.SSLContext) -> int:
    """Returns the serial number of the certificate that the broker presents to a new connection."""

    def look(wire: Any) -> int:
        return int(wire.socket.getpeercert()["serialNumber"], 16)

    return await over_tls(broker, context, look)


async def altered(broker: Broker, *changes: Any) -> tuple[int, str | None]:
    return await asked(broker, lambda wire: alter(wire, "1", *changes, kind=BROKER))


def events(lines: list[Any]) -> list[str]:
    return [
        f"{line['event']}: {line.get('reason')}" for line in lines if "certific" in line["event"]
    ]


# -- by a changed file


@pytest.mark.proves("security 9")
async def test_changed_certificate_file_applies_only_to_new_connections(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker), ssl=context)
        assert await shown(broker, context) == own.certificate.serial_number
        other = authority.issue("broker")
        assert await shown(broker, context) == own.certificate.serial_number, "not looked yet"
        with capture_logs() as lines:
            await broker.secured.certificates.look()
        assert await shown(broker, context) == other.certificate.serial_number
        writer.write(bytes.fromhex("0000000a 0012 0000 00000007 ffff"))
        assert (await reader.readexactly(8))[4:] == bytes.fromhex("00000007")
        writer.close()
    (line,) = [line for line in lines if line["event"] == "certificate reloaded"]
    assert line["subject"] == "CN=broker"
    assert line["serial"] == f"{other.certificate.serial_number:x}"


async def test_changed_symlink_reloads_the_certificate(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    """Kubernetes updates a mounted secret by changing a symlink."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/tls.pem").write_text(own.key_text + own.certificate_text)
    (tmp_path / "now").symlink_to("a")
    settings = with_tls(own) | {"ssl.keystore.location": str(tmp_path / "now/tls.pem")}

    async with tls_broker(tmp_path / "data", settings) as broker:
        other = authority.issue("broker")
        (tmp_path / "b/tls.pem").write_text(other.key_text + other.certificate_text)
        (tmp_path / "next").symlink_to("b")
        (tmp_path / "next").rename(tmp_path / "now")
        await broker.secured.certificates.look()
        assert await shown(broker, client_context(authority)) == other.certificate.serial_number


@pytest.mark.proves("security 9")
async def test_old_certificate_is_kept_when_the_new_file_is_invalid(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        own.pem.write_text(authority.issue("other").key_text + own.certificate_text)
        with capture_logs() as lines:
            for _ in range(3):
                await broker.secured.certificates.look()
        assert await shown(broker, context) == own.certificate.serial_number
        own.pem.unlink()
        with capture_logs() as later:
            await broker.secured.certificates.look()
        assert await shown(broker, context) == own.certificate.serial_number
    (line,) = events(lines)
    assert line.startswith(
        "certificate can't be reloaded, old one kept: listener SSL: the private key can't be"
        " used with its certificate"
    )
    assert "can't be read" in str(events(later))


async def test_certificate_with_another_subject_is_reloaded_only_if_a_setting_allows_it(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        for issued, says in (
            (
                authority.issue("other"),
                "the subject of the certificate changes from CN=broker to CN=other",
            ),
            (authority.issue("broker", None), "lacks the names 127.0.0.1"),
        ):
            own.pem.write_text(issued.key_text + issued.certificate_text)
            with capture_logs() as lines:
                await broker.secured.certificates.look()
            assert says in str(events(lines))
            assert await shown(broker, context) == own.certificate.serial_number

    allowed = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    first = authority.issue("third")
    async with tls_broker(tmp_path / "again", with_tls(first) | allowed) as broker:
        other = authority.issue("fourth")
        first.pem.write_text(other.key_text + other.certificate_text)
        await broker.secured.certificates.look()
        assert await shown(broker, context) == other.certificate.serial_number


# -- by AlterConfigs


async def test_altered_keystore_location_applies_and_survives_a_restart(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority)
    other = Authority.issue(authority, "broker")._replace(pem=tmp_path / "other.pem")
    other.pem.write_text(other.key_text + other.certificate_text)
    own.pem.write_text(own.key_text + own.certificate_text)

    async with tls_broker(tmp_path / "data", with_tls(own)) as broker:
        assert await altered(broker, (LOCATION, SET, str(other.pem))) == (0, None)
        assert await shown(broker, context) == other.certificate.serial_number
        entry = await asked(broker, lambda wire: described(wire, "1", BROKER)[LOCATION])
        assert (entry["value"], entry["read_only"]) == (str(other.pem), False)
    async with tls_broker(tmp_path / "data", with_tls(own)) as broker:
        assert await shown(broker, context) == other.certificate.serial_number
        assert await altered(broker, (LOCATION, DELETE, None)) == (0, None)
        assert await shown(broker, context) == own.certificate.serial_number


async def test_alter_configs_with_an_unchanged_certificate_path_reloads_the_certificate(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        assert await altered(broker, (LOCATION, SET, str(own.pem))) == (0, None)
        other = authority.issue("broker")
        assert await altered(broker, (LOCATION, SET, str(own.pem))) == (0, None)
        assert await shown(broker, context) == other.certificate.serial_number


async def test_invalid_certificate_settings_are_refused(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    truststore = "listener.name.ssl.ssl.truststore.location"
    refusals = {
        (LOCATION, "/nowhere.pem"): "/nowhere.pem can't be read",
        (truststore, str(authority.certificate)): "a truststore can't be added",
        ("ssl.keystore.location", "/a"): "only per-listener using the listener prefix",
        ("listener.name.SSL.ssl.keystore.location", "/a"): "mechanism in lower case",
        ("listener.name.other.ssl.keystore.location", "/a"): "listener OTHER does not exist",
        ("listener.name.ssl.ssl.client.auth", "none"): "restart the broker",
        (
            "listener.name.ssl.ssl.keystore.locaton",
            "/a",
        ): "security setting that Muster does not support",
    }

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        for (name, value), says in refusals.items():
            code, message = await altered(broker, (name, SET, value))
            assert code in (INVALID_REQUEST, INVALID_CONFIG), name
            assert says in str(message), name
        code, message = await asked(
            broker, lambda wire: alter(wire, "", (LOCATION, SET, str(own.pem)), kind=BROKER)
        )
        assert (code, "set it for one broker by its id" in (message or "")) == (
            INVALID_REQUEST,
            True,
        )
        assert broker.config.dynamic_own == {}
        assert await shown(broker, client_context(authority)) == own.certificate.serial_number


async def test_altered_keystore_password_is_not_shown(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    store = tmp_path / "broker.p12"
    store.write_bytes(own.pkcs12("secret-of-the-store"))
    password = "listener.name.ssl.ssl.keystore.password"

    async with tls_broker(tmp_path / "data", with_tls(own)) as broker:
        changes = (LOCATION, SET, str(store)), (password, SET, "wrong-secret")
        with capture_logs() as lines:
            code, message = await altered(broker, *changes)
            assert code == INVALID_REQUEST
            assert "check its password" in str(message)
            changes = (LOCATION, SET, str(store)), (password, SET, "secret-of-the-store")
            assert await altered(broker, *changes) == (0, None)
        entry = await asked(broker, lambda wire: described(wire, "1", BROKER)[password])
        assert (entry["value"], entry["is_sensitive"]) == (None, True)
        assert all(each["value"] is None for each in entry["synonyms"])
        assert "secret" not in str(lines) + str(message)
        file = tmp_path / "data/configs.json"
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


# -- by SIGHUP


async def test_sighup_reloads_settings_and_certificate_files(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    context = client_context(authority)

    async with tls_broker(tmp_path, with_tls(own)) as broker:
        given = dict(broker.config.given)
        other = authority.issue("broker")
        await broker.reload(Config(given))
        assert await shown(broker, context) == other.certificate.serial_number
        named = tmp_path / "named.pem"
        named.write_text(own.key_text + own.certificate_text)
        await broker.reload(Config({**given, "ssl.keystore.location": str(named)}))
        assert await shown(broker, context) == own.certificate.serial_number
        with capture_logs() as lines:
            await broker.reload(Config({**given, "ssl.keystore.location": "/nowhere"}))
        assert await shown(broker, context) == own.certificate.serial_number
    assert "/nowhere can't be read" in str(
        [line for line in lines if "not reloaded" in line["event"]]
    )


# -- expiry


async def test_scrape_has_certificate_expiry_and_handshake_counts(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        await shown(broker, client_context(authority))
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await shown(broker, ssl.create_default_context())
        await eventually("it failed", lambda: broker.listeners[1].tls.failed)
        text = b"".join([part async for part in render(broker.sources)]).decode()
    (left,) = re.findall(r'^muster_certificate_expiry_seconds{listener="SSL"} (.*)$', text, re.M)
    assert 80_000 < float(left) <= 86_400
    assert 'muster_tls_handshakes_total{listener="SSL",result="success"} 1.0' in text
    assert 'muster_tls_handshakes_total{listener="SSL",result="failure"} 1.0' in text
