"""`muster config check` reads server.properties files, and a broker starts with the file of Apache
Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.sources import load
from tests.brokers import Broker
from tests.cli import sessions

DATA = Path(__file__).parents[1] / "data" / "server-properties"
KAFKAS = sorted(path.name for path in DATA.glob("*.properties"))

FILES = {
    "faults.properties": "num.partitions=0\nlog.retention.hours=many\n"
    "password.encoder.secret=secret\n"
    "log.cleanup.policy=shred\nlog.rentention.ms=5\nnum.io.threads=8\nlog.segment.bytes=1048576\n",
    "typo.properties": "log.rentention.ms=5\nsomething.else=1\nlog.dirs=/var/lib/muster\n",
    "protected.properties": "broker.id=1\nnode.id=2\nssl.provider=BC\n"
    "listener.name.in.scram-sha-256.sasl.jaas.config=secret\nsuper.users=User:admin\n"
    "ssl.protocol=TLSv1.3\nlistener.name.in.no.such=secret\n",
    "together.properties": "broker.id=1\nnode.id=2\n",
    "every-fault.properties": "num.partitions=0\nlisteners=TLS://:9093,here\nlog.dirs=/a,/b\n"
    "group.min.session.timeout.ms=7200000\nhttp.allowed.hosts=a:80,b:80\nbroker.id=1\nnode.id=2\n"
    "config.providers=file\nnum.io.threads=${file:/a:b}\nssl.provider=BC\n",
    "cluster.properties": "zookeeper.connect=zk:2181\nprocess.roles=controller\n"
    "controller.quorum.voters=1@a:9093,2@b:9093\nconfig.providers=file\n"
    "config.providers.file.class=org.File\nmin.insync.replicas=2\n",
    "secured.properties": "listeners=SASL_SSL://:9093\nsasl.enabled.mechanisms=SCRAM-SHA-256\n"
    "listener.name.sasl_ssl.ssl.keystore.location=/keys/broker.pem\nssl.key.password=secret\n"
    "listener.name.sasl_ssl.plain.sasl.jaas.config=secret\n",
    "empty.properties": "# nothing\n",
}


def test_config_check_prints_the_golden_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "kafka").symlink_to(DATA)
    monkeypatch.setattr(sessions, "FOLDER", str(tmp_path))

    sessions.check("config")


@pytest.mark.parametrize("name", KAFKAS)
def test_config_check_knows_all_settings_in_kafkas_server_properties(name: str) -> None:
    assert load(DATA / name, {}, [], {}).unknown == []


@pytest.mark.parametrize("name", KAFKAS)
def test_config_check_ignores_a_controller_listener(name: str) -> None:
    config = load(DATA / name, {}, [], {})

    assert [endpoint.name for endpoint in config.listeners] == ["PLAINTEXT"]
    assert [endpoint.name for endpoint in config.advertised([9092])] == ["PLAINTEXT"]


def test_controller_listener_needs_no_entry_in_the_protocol_map() -> None:
    pairs = ["listeners=PLAINTEXT://127.0.0.1:1,CTL://:2", "controller.listener.names=CTL"]
    assert [each.port for each in load(None, {}, pairs, {}).listeners] == [1]


@pytest.mark.interop
def test_broker_starts_with_kafkas_properties_and_logs_unknown_settings_once(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.properties"
    file.write_text((DATA / KAFKAS[-1]).read_text() + "my.own.setting=1\nlog.rentention.ms=1\n")
    broker = Broker(tmp_path / "data", {"advertised.listeners": ""})
    broker.command = [*broker.command]
    words = broker._command()
    broker._command = lambda: [*words, "--config", str(file)]  # type: ignore[method-assign]
    broker.start()
    code = broker.stop()

    warned = [line for line in broker.lines() if "unknown settings ignored" in line]
    assert len(warned) == 1
    assert "log.rentention.ms, my.own.setting" in warned[0]
    assert code == 0
