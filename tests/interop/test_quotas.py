"""Quotas that two versions of kafka-configs set, and their effect on a real producer."""

from __future__ import annotations

from time import monotonic

import pytest
from confluent_kafka import Producer

from tests import java
from tests.brokers import Broker
from tests.wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 25")]


def configs(broker: Broker, jars: str, words: str) -> str:
    tool = java.config_command(jars)
    done = java.run(jars, tool, "--bootstrap-server", broker.bootstrap, *words.split())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("jars", [java.KAFKA_NEW, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS])
def test_kafka_configs_sets_shows_and_removes_quotas(broker: Broker, jars: str, name: str) -> None:
    user = f"--entity-type users --entity-name {name}"
    configs(
        broker, jars,
        f"{user} --alter --add-config producer_byte_rate=1024,request_percentage=12.5",
    )  # fmt: skip
    configs(
        broker, jars,
        f"{user} --entity-type clients --entity-default --alter --add-config consumer_byte_rate=9",
    )  # fmt: skip
    shown = configs(broker, jars, f"{user} --describe")
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=12.5" in shown
    both = configs(broker, jars, f"{user} --entity-type clients --entity-default --describe")
    assert "consumer_byte_rate=9.0" in both
    ip = "--entity-type ips --entity-name 10.9.8.7"
    configs(broker, jars, f"{ip} --alter --add-config connection_creation_rate=5")
    assert "connection_creation_rate=5.0" in configs(broker, jars, f"{ip} --describe")
    configs(broker, jars, f"{ip} --alter --delete-config connection_creation_rate")
    assert "connection_creation_rate" not in configs(broker, jars, f"{ip} --describe")


def test_librdkafka_producer_is_throttled_and_reports_the_throttle_time(
    broker: Broker, name: str
) -> None:
    with Wire(broker.port) as wire:
        entry = {
            "entity": [{"entity_type": "client-id", "entity_name": name}],
            "ops": [{"key": "producer_byte_rate", "value": 100_000.0, "remove": False}],
        }
        wire.call("AlterClientQuotas", 1, {"entries": [entry], "validate_only": False})
    told: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": name,
            "batch.num.messages": 1,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    began = monotonic()
    for _ in range(13):
        producer.produce(name, bytes(100_000))
        producer.poll(0)
    assert producer.flush(60) == 0
    took_s = monotonic() - began
    assert max(told) > 0.5
    assert took_s > 0.9, "1.3 MB take a second more than the ten seconds' worth that comes at once"
