"""`muster config check` reports the settings with which the broker would not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.config.config import BadConfig
from broker.config.sources import load
from broker.time import Time
from cli.errors import FOUND
from tests.certificates import Authority
from tests.cli.running import run

LISTENERS = "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0\n"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the paths of two PEM files: OWN has the broker's certificate and key, and CA has the
    CA's certificate."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return {"OWN": str(authority.issue("broker").pem), "CA": str(authority.certificate)}


@pytest.mark.parametrize(
    ("text", "setting", "why"),
    [
        ("ssl.keystore.location=/no/such.pem", "ssl.keystore.location", "No such file"),
        (
            "ssl.keystore.location=OWN\nssl.truststore.location=CA\nssl.truststore.password=x",
            "ssl.truststore.password",
            "ssl.truststore.password applies to PKCS12 and JKS",
        ),
        ("ssl.keystore.location=OWN\nssl.keystore.password=x", "ssl.keystore.password", "is PEM"),
        ("ssl.keystore.location=CA", "ssl.keystore.location", "must have a private key"),
        ("ssl.keystore.location=OWN\nssl.client.auth=required", "ssl.client.auth", "needs the CAs"),
        ("ssl.keystore.location=OWN\nssl.cipher.suites=NONE", "ssl.cipher.suites", "NONE"),
        (
            "http.security.protocol=SSL\nssl.keystore.location=OWN\n"
            "http.ssl.keystore.location=/no/such.pem",
            "http.ssl.keystore.location",
            "listener http: /no/such.pem can't be read",
        ),
    ],
)
def test_config_check_reports_keystore_settings_that_prevent_a_start(
    tmp_path: Path, stores: dict[str, str], text: str, setting: str, why: str
) -> None:
    for name, path in stores.items():
        text = text.replace(f"={name}", f"={path}")
    file = _file(tmp_path, LISTENERS + text)

    [fault] = _faults(file)

    assert (fault["setting"], why in fault["why"]) == (setting, True), fault
    assert fault["why"] == _refusal_of_the_start(file, tmp_path)


def test_config_check_accepts_valid_keystores(tmp_path: Path, stores: dict[str, str]) -> None:
    text = f"ssl.keystore.location={stores['OWN']}\nssl.truststore.location={stores['CA']}\n"
    file = _file(tmp_path, f"{LISTENERS}{text}ssl.client.auth=required")

    assert run("config", "check", str(file)).code == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "listeners=SASL_PLAINTEXT://:9092\nsasl.enabled.mechanisms=OAUTHBEARER",
            "OAUTHBEARER does not accept unsigned tokens",
        ),
        (
            "zookeeper.connect=zk:2181\nlisteners=IN://:9092\n"
            "listener.security.protocol.map=IN:PLAINTEXT",
            "the inter-broker listener PLAINTEXT is not in listeners",
        ),
        (
            "zookeeper.connect=zk:2181\nlisteners=SASL_PLAINTEXT://:9092\n"
            "inter.broker.listener.name=SASL_PLAINTEXT\nsasl.enabled.mechanisms=SCRAM-SHA-256\n"
            "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
            "scram-sha-256.sasl.jaas.config is missing",
        ),
    ],
)
def test_config_check_reports_listener_settings_that_prevent_a_start(
    tmp_path: Path, text: str, why: str
) -> None:
    [fault] = _faults(_file(tmp_path, text))

    assert why in fault["why"]


def _file(folder: Path, text: str) -> Path:
    file = folder / "server.properties"
    file.write_text(text)
    return file


def _faults(file: Path) -> list[Any]:
    ran = run("config", "check", "--json", str(file))
    assert ran.code == FOUND, ran
    return [row for row in ran.json if row["verdict"] == "bad"]


def _refusal_of_the_start(file: Path, folder: Path) -> str:
    more = {"log.dirs": str(folder / "data"), "http.listener": "127.0.0.1:0"}
    with pytest.raises(BadConfig) as refused:
        Broker(load(file, {}, [], more), time=Time()).open()
    return str(refused.value)
