"""Tests that the tools of `bench/` connect to secured brokers with the properties files of
`--command-config`."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from bench.load_process import Process
from bench.load_work import PARTITIONS, TOPIC, Work, commit
from bench.secured import LISTENER, PLAIN, Access, chosen, read
from client.errors import ClientError
from tests.brokers import CHECKOUT, Broker, running
from tests.certificates import Authority
from tests.interop.cluster import Cluster
from tests.waiting import until

TOOLS = ("load", "load_transactions", "throughput", "cluster", "start", "instructions")
SERVER = """
listeners=PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9093
advertised.listeners=PLAINTEXT://localhost:9092,SASL_SSL://localhost:9093
ssl.keystore.location=broker.pem
ssl.keystore.type=PEM
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
http.listener=127.0.0.1:9644
http.authentication=basic
"""
CLIENT = """
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=an-authority.pem
sasl.mechanism=%s
sasl.jaas.config=org.apache.kafka.common.security.%s required \\
    username="admin" password="a \\\\"word";
"""
MODULES = {"SCRAM-SHA-512": "scram.ScramLoginModule", "PLAIN": "plain.PlainLoginModule"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes the properties files into a folder. Changes the working directory to this folder,
    because the files contain relative paths."""
    Authority(tmp_path).issue("broker")
    (tmp_path / "server.properties").write_text(SERVER)
    for mechanism, module in MODULES.items():
        (tmp_path / f"{mechanism}.properties").write_text(CLIENT % (mechanism, module))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def access_by(mechanism: str) -> Access:
    return read(Path(f"{mechanism}.properties"), Path("server.properties"))


@pytest.mark.campaign
@pytest.mark.parametrize("tool", TOOLS)
def test_each_bench_tool_accepts_command_config_and_server_config(tool: str) -> None:
    command = [sys.executable, "-m", f"bench.{tool}", "--help"]
    told = subprocess.run(
        command, cwd=CHECKOUT, check=True, capture_output=True, text=True, timeout=60
    )

    assert "--command-config FILE" in told.stdout
    assert "--server-config FILE" in told.stdout


def test_server_config_secures_the_broker_and_keeps_its_listener_names(files: Path) -> None:
    settings = access_by("PLAIN").settings

    jaas = f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config"
    assert 'user_admin="a \\"word"' in settings[jaas]
    assert {name: value for name, value in settings.items() if name != jaas} == {
        "ssl.keystore.location": str(files / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(files / "an-authority.pem"),
        "ssl.truststore.type": "PEM",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def test_bench_tool_passes_no_settings_without_properties_files() -> None:
    assert read(None, None) == PLAIN
    assert (PLAIN.settings, PLAIN.sets(), PLAIN.groupload(), PLAIN.scram) == ({}, [], [], None)


def test_bench_tool_exits_with_one_line_when_a_properties_file_is_wrong(files: Path) -> None:
    (files / "odd.properties").write_text("security.protocol=TLS\n")
    given = argparse.Namespace(command_config=Path("odd.properties"), server_config=None)

    with pytest.raises(SystemExit, match=r"odd.properties: unknown security.protocol=TLS"):
        chosen(given)


@pytest.mark.parametrize("mechanism", MODULES)
def test_client_logs_in_with_a_properties_file_but_not_with_a_wrong_password(
    files: Path, mechanism: str
) -> None:
    access = access_by(mechanism)
    broker = Broker(files / "data", access.settings)
    access.add_user(broker.data)
    with running(broker):
        Cluster(broker.bootstrap, access.connect).create_topic("orders", 2)
        with access.connect(broker.port) as connection:
            known = connection.call("Metadata", 1, topics=None)["topics"]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **access.librdkafka()})
        listed = admin.list_topics(timeout=20).topics

        assert [each["name"] for each in known] == list(listed) == ["orders"]
        file = Path(f"{mechanism}.properties")
        file.write_text(file.read_text().replace("a \\\\", "another \\\\"))
        with pytest.raises(ClientError, match="login of user admin"):
            read(file, None).connect(broker.port)


@pytest.mark.campaign
def test_group_load_tool_commits_100_times_over_tls(files: Path) -> None:
    access = access_by("SCRAM-SHA-512")
    process = Process(files / "data", access)
    process.data.mkdir()
    access.add_user(process.data)
    process.start()
    try:
        process.connected().close()
        cluster = Cluster(f"127.0.0.1:{process.port}", access.connect)
        cluster.create_topic(TOPIC, PARTITIONS)
        until(
            "groups have a coordinator",
            lambda: cluster.call("FindCoordinator", 1, key="x", key_type=0)["error_code"] == 0,
        )
        work = Work(groups=100, commits=1000)
        commit(process, work, random.Random(1), cover=True)
    finally:
        process.end(signal.SIGKILL)

    assert work.acked == work.sent
    assert len(work.acked) == 100
