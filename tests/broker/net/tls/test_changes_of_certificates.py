"""Changes of certificates: expiry, concurrent changes, and whether the other brokers trust the new
certificate."""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.config.config import Config
from broker.net.listener import Listener, listeners_of
from broker.net.tls import certificates, context
from broker.net.tls.certificates import Certificates
from broker.time import Time
from protocol.errors import INVALID_REQUEST
from tests.broker.config_calls import BROKER, SET, alter, described
from tests.broker.mock_time import MockTime
from tests.broker.net.tls.securing import client_context, over_tls, tls_broker, with_tls
from tests.broker.serving import asked, eventually
from tests.certificates import Authority, Issued

KEYSTORE = "listener.name.ssl.ssl.keystore.location"
TRUSTSTORE = "listener.name.ssl.ssl.truststore.location"
NOT_RELOADED = "certificate can't be reloaded, old one kept"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

COULD_NOT_CONNECT = re.compile("a broker with the (old|new) certificate could not connect")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("another"), "another authority")


@pytest.fixture
def own(authority: Authority) -> Issued:
    return authority.issue("broker")


def copy_of(issued: Issued, file: Path) -> Issued:
    """Writes the certificate and key to ``file``. Returns an `Issued` whose certificate and key are
    in ``file``."""
    file.write_text(issued.key_text + issued.certificate_text)
    return issued._replace(pem=file)


async def shown(broker: Any, trusting: ssl.SSLContext) -> int:
    """Returns the serial number of the certificate that the broker presents to a new connection."""
    return await over_tls(
        broker, trusting, lambda wire: int(wire.socket.getpeercert()["serialNumber"], 16)
    )


async def altered(
    broker: Any, name: str, value: Path, validate_only: bool = False
) -> tuple[int, str | None]:
    change = name, SET, str(value)
    return await asked(
        broker, lambda wire: alter(wire, "1", change, kind=BROKER, validate_only=validate_only)
    )


# -- truststores


async def get_in(broker: Any, trusting: ssl.SSLContext) -> bool:
    try:
        await over_tls(broker, trusting, lambda wire: wire.call("ApiVersions", 0))
    except (ConnectionError, ssl.SSLError):
        return False
    return True


async def test_changed_truststore_applies_to_new_clients(
    tmp_path: Path, authority: Authority, another: Authority, own: Issued
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.certificate.read_text())
    settings = with_tls(own, ssl_truststore_location=str(trusted), ssl_client_auth="required")
    old = client_context(authority, authority.issue("old"))
    new = client_context(authority, another.issue("new"))

    async with tls_broker(tmp_path / "data", settings) as broker:
        assert [await get_in(broker, each) for each in (old, new)] == [True, False]
        trusted.write_text(another.certificate.read_text())
        await broker.secured.certificates.look()
        assert [await get_in(broker, each) for each in (old, new)] == [False, True]
        assert await altered(broker, TRUSTSTORE, authority.certificate) == (0, None)
        assert [await get_in(broker, each) for each in (old, new)] == [True, False]


# -- other brokers


class Opened:
    """The certificates of a broker that has one listener for both clients and other brokers."""

    def __init__(self, own: Issued, trusted: Path, *, in_cluster: bool) -> None:
        given = {
            "listeners": "SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.location": str(own.pem),
            "ssl.truststore.location": str(trusted),
        }
        if in_cluster:
            given["zookeeper.connect"] = "127.0.0.1:1"
        config = Config(given)
        self.listeners = listeners_of(config)
        self.certificates = Certificates(config, self.listeners, Time())
        self.certificates.open()

    async def serial_after_a_look(self) -> str:
        await self.certificates.look()
        (listener,) = self.listeners
        assert listener.tls is not None
        return listener.tls.made.certificate.serial


def serial(issued: Issued) -> str:
    return f"{issued.certificate.serial_number:x}"


@pytest.mark.parametrize("in_cluster", [True, False])
async def test_new_certificate_is_refused_when_other_brokers_would_not_trust_it(
    tmp_path: Path, authority: Authority, another: Authority, in_cluster: bool
) -> None:
    own = copy_of(authority.issue("broker"), tmp_path / "own.pem")
    opened = Opened(own, authority.certificate, in_cluster=in_cluster)
    other = copy_of(another.issue("broker"), own.pem)
    with capture_logs() as lines:
        serves = await opened.serial_after_a_look()

    assert serves == serial(own if in_cluster else other)
    told = [line["reason"] for line in lines if line["event"] == NOT_RELOADED]
    assert len(told) == in_cluster
    assert all(COULD_NOT_CONNECT.search(each) for each in told)


@pytest.mark.parametrize("in_cluster", [True, False])
async def test_new_truststore_is_refused_when_it_does_not_trust_the_brokers_certificate(
    tmp_path: Path, authority: Authority, another: Authority, in_cluster: bool
) -> None:
    own = copy_of(authority.issue("broker"), tmp_path / "own.pem")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.certificate.read_text())
    opened = Opened(own, trusted, in_cluster=in_cluster)
    trusted.write_text(another.certificate.read_text())
    with capture_logs() as lines:
        await opened.certificates.look()
    told = [line["reason"] for line in lines if line["event"] == NOT_RELOADED]
    assert len(told) == in_cluster
    assert all(COULD_NOT_CONNECT.search(each) for each in told)

    trusted.write_text(authority.certificate.read_text() + another.certificate.read_text())
    with capture_logs() as lines:
        await opened.certificates.look()
    assert "certificate reloaded" in str(lines), "first whom to trust"
    other = copy_of(another.issue("broker"), own.pem)
    assert await opened.serial_after_a_look() == serial(other), "then the certificate"


# -- concurrent changes


async def test_certificate_reload_runs_in_a_thread(
    tmp_path: Path, authority: Authority, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **named: Any) -> Any:
            threads.append(threading.current_thread())
            return work(*args, **named)

        return noted

    opened = Opened(own, authority.certificate, in_cluster=True)
    for name in ("_load_own", "_shake_hands", "check_change"):
        monkeypatch.setattr(context, name, noting(getattr(context, name)))
    other = authority.issue("broker")

    assert await opened.serial_after_a_look() == serial(other)
    assert len(threads) == 6, "both ways, and once when it is read"
    assert threading.main_thread() not in threads


async def test_keystore_that_is_set_during_a_reload_of_the_old_keystore_stays_in_use(
    tmp_path: Path, authority: Authority, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = client_context(authority)
    third = copy_of(authority.issue("broker"), tmp_path / "third.pem")
    reading, go_on = threading.Event(), threading.Event()
    listener_tls = context.listener_tls

    def slow(settings: context.TlsSettings) -> context.ListenerTls:
        made = listener_tls(settings)
        if settings.keystore_location == str(own.pem):
            reading.set()
            assert go_on.wait(20)
        return made

    async with tls_broker(tmp_path / "data", with_tls(own)) as broker:
        authority.issue("broker")  # The new certificate is in the file that is being read.
        monkeypatch.setattr(context, "listener_tls", slow)
        looking = asyncio.get_running_loop().create_task(broker.secured.certificates.look())
        await eventually("it is read", reading.is_set)
        assert await altered(broker, KEYSTORE, third.pem) == (0, None)
        go_on.set()
        await looking
        assert await shown(broker, trusting) == third.certificate.serial_number


async def test_alter_configs_with_validate_only_does_not_change_the_certificate(
    tmp_path: Path, authority: Authority, own: Issued
) -> None:
    trusting = client_context(authority)
    other = copy_of(authority.issue("broker"), tmp_path / "other.pem")
    own = copy_of(authority.issue("broker"), own.pem)

    async with tls_broker(tmp_path / "data", with_tls(own)) as broker:
        assert await altered(broker, KEYSTORE, other.pem, validate_only=True) == (0, None)
        assert await shown(broker, trusting) == own.certificate.serial_number
        code, _ = await altered(broker, KEYSTORE, tmp_path / "nowhere.pem", validate_only=True)
        assert code == INVALID_REQUEST
        copy_of(other, own.pem)
        assert await altered(broker, KEYSTORE, own.pem, validate_only=True) == (0, None)
        assert await shown(broker, trusting) == own.certificate.serial_number
        assert broker.config.dynamic_own == {}
        entry = await asked(broker, lambda wire: described(wire, "1", BROKER).get(KEYSTORE))
        assert entry is None or entry["value"] is None


async def test_old_certificate_is_kept_when_no_memory_file_can_be_created_for_the_new_key(
    tmp_path: Path, authority: Authority, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    trusting = client_context(authority)
    async with tls_broker(tmp_path / "data", with_tls(own)) as broker:
        other = copy_of(authority.issue("broker"), tmp_path / "other.pem")
        own.pem.write_text(other.key_text + other.certificate_text)
        monkeypatch.setattr("os.memfd_create", full)
        code, message = await altered(broker, KEYSTORE, other.pem)
        assert code == INVALID_REQUEST
        assert "OpenSSL can't read the private key: [Errno 28] No space left" in (message or "")
        with capture_logs() as lines:
            await broker.reload(Config(dict(broker.config.given)))
            await broker.secured.certificates.look()
        assert await shown(broker, trusting) == own.certificate.serial_number
    told = [line["event"] for line in lines if "No space left" in line.get("reason", "")]
    assert told == ["configs not reloaded", NOT_RELOADED]


# -- time


async def test_certificate_files_are_checked_periodically(
    tmp_path: Path, authority: Authority, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert certificates.LOOK_S == 60
    monkeypatch.setattr(certificates, "LOOK_S", 0.01)
    async with tls_broker(tmp_path, with_tls(own)) as broker:
        serves = broker.listeners[1].tls
        assert serves is not None
        for _ in range(2):
            other = serial(authority.issue("broker"))
            await eventually("it serves", lambda: serves.made.certificate.serial == other)  # noqa: B023


class InTime:
    """The certificates of one listener with a mock clock."""

    def __init__(self, own: Issued) -> None:
        config = Config({"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(own.pem)})
        ends = own.certificate.not_valid_after_utc
        self._listeners: list[Listener] = listeners_of(config)
        self.time = MockTime(int((ends - timedelta(days=40)).timestamp() * 1000))
        self.certificates = Certificates(config, self._listeners, self.time)
        self.certificates.open()

    async def events_after(self, ms: int) -> list[str]:
        self.time.move(ms)
        with capture_logs() as lines:
            await self.certificates.look()
        assert all(line["subject"] == "CN=broker" for line in lines)
        return [line["event"] for line in lines]


async def test_expiring_certificate_is_logged_daily_from_thirty_days_before(
    authority: Authority,
) -> None:
    here = InTime(authority.issue("broker", days=45))
    (left_s,) = here.certificates.seconds_left().values()
    assert round(left_s) == 40 * 86_400

    assert await here.events_after(0) == []
    assert await here.events_after(10 * DAY_MS - HOUR_MS) == []
    assert await here.events_after(2 * HOUR_MS) == ["certificate expires soon"]
    assert await here.events_after(0) == []
    assert await here.events_after(23 * HOUR_MS) == []
    assert await here.events_after(2 * HOUR_MS) == ["certificate expires soon"]
    assert await here.events_after(29 * DAY_MS) == ["certificate expired"]
    (left_s,) = here.certificates.seconds_left().values()
    assert left_s < 0


async def test_expiry_of_a_reloaded_certificate_is_logged(authority: Authority) -> None:
    here = InTime(authority.issue("broker", days=20))
    here.time.move(30 * DAY_MS)
    assert await here.events_after(0) == ["certificate expires soon"]
    authority.issue("broker", days=15)
    assert await here.events_after(HOUR_MS) == [
        "certificate reloaded",
        "certificate expires soon",
    ]


@pytest.mark.parametrize("days", [-0.5, 1])
async def test_start_logs_an_expiring_or_expired_certificate(
    tmp_path: Path, authority: Authority, days: float
) -> None:
    with capture_logs() as lines:
        async with tls_broker(tmp_path, with_tls(authority.issue("broker", days=days))):
            pass
    says = "certificate expired" if days < 0 else "certificate expires soon"
    (line,) = [line for line in lines if "certificate" in line["event"]]
    assert (line["event"], line["log_level"], line["listener"]) == (says, "warning", "SSL")
