"""Tests the hints for setting names that Kafka does not have, in `muster serve` and `muster config
check`."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from broker.config.config import Config
from broker.config.config_table import BROKER, TOPIC
from broker.config.protection import SINGLE, may_be_secret
from broker.config.unknown_names import REMOVED, hint
from cli import serve
from cli.config.check import rows_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("host.name", "Kafka 3.0 removed the setting: set listeners=PLAINTEXT://HOST:PORT"),
        ("port", "Kafka 3.0 removed the setting: set listeners=PLAINTEXT://HOST:PORT"),
        ("MUSTER_PORT", "Kafka 3.0 removed the setting: set listeners=PLAINTEXT://HOST:PORT"),
        (
            "advertised.host.name",
            "Kafka 3.0 removed the setting: set advertised.listeners=PLAINTEXT://HOST:PORT",
        ),
        (
            "KAFKA_ADVERTISED_PORT",
            "Kafka 3.0 removed the setting: set advertised.listeners=PLAINTEXT://HOST:PORT",
        ),
        ("log.segment.ms", "did you mean log.roll.ms?"),
        ("segment.ms", "did you mean log.roll.ms?"),
        ("log.max.message.bytes", "did you mean message.max.bytes?"),
        ("log.rentention.ms", "did you mean log.retention.ms?"),
        ("nothing.like.it", None),
    ],
)
def test_unknown_setting_has_a_hint_when_a_known_name_is_similar(
    name: str, expected: str | None
) -> None:
    assert hint(name) == expected


def test_topic_setting_name_in_the_broker_config_gets_a_hint() -> None:
    for name in TOPIC:
        for written in {name, f"log.{name}"} - BROKER.keys():
            if "throttled.replicas" not in name and not name.startswith("remote."):
                assert (hint(written) or "").startswith("did you mean "), written
    assert REMOVED.keys().isdisjoint(BROKER)


def test_start_logs_hints_for_unknown_settings() -> None:
    config = Config({"host.name": "localhost", "log.segment.ms": "5", "nothing.like.it": "1"})

    with structlog.testing.capture_logs() as lines:
        serve._report_settings(config, kafka_env=False)

    (warned,) = [line for line in lines if "settings" in line]
    assert warned["settings"] == "host.name, log.segment.ms, nothing.like.it"
    assert warned["advice"] == (
        "host.name: Kafka 3.0 removed the setting: set listeners=PLAINTEXT://HOST:PORT;"
        " log.segment.ms: did you mean log.roll.ms?"
    )


def test_warning_about_unknown_settings_has_no_advice_when_no_setting_has_a_hint() -> None:
    with structlog.testing.capture_logs() as lines:
        serve._report_settings(Config({"nothing.like.it": "1"}), kafka_env=False)

    (warned,) = [line for line in lines if "settings" in line]
    assert "advice" not in warned


def test_config_check_hides_passwords_but_shows_quotas_and_class_names(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    shown = {"quota.producer.default": "1000", "create.topic.policy.class.name": "a.Policy"}
    hidden = {"ssl.key.password": "secret", "password.encoder.secret": "secret", "ssl.pass": "s"}
    file.write_text("".join(f"{name}={text}\n" for name, text in (shown | hidden).items()))

    values = {row["setting"]: row["value"] for row in rows_of(file)}

    assert values == shown | dict.fromkeys(hidden, "(hidden)")
    assert not any(map(may_be_secret, SINGLE))
