"""Tests that librdkafka and aiokafka log in, produce and consume, and report a wrong password."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer

from broker.authentication.logins import FAILURE, SUCCESS, Result
from tests.broker.authentication.letting_in import LISTENER, broker_with_logins, port_of

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def confluent(port: int, mechanism: str, password: str = "alice-secret") -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "log_level": 0,
    }


def produce_and_consume(settings: dict[str, Any], topic: str) -> list[bytes]:
    producer = Producer(settings)
    for number in range(3):
        producer.produce(topic, str(number).encode())
    assert producer.flush(20) == 0
    group = {**settings, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(group)
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        for _ in range(60):
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
            if len(found) == 3:
                return found
        return found
    finally:
        consumer.close()


def error_of(settings: dict[str, Any]) -> KafkaError:
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append})
    for _ in range(40):
        producer.poll(0.25)
        for error in errors:
            if error.code() == KafkaError._AUTHENTICATION:
                return error
    raise AssertionError(errors)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_librdkafka_logs_in(tmp_path: Path, mechanism: str) -> None:
    async with broker_with_logins(tmp_path, scram=True) as (broker, logins):
        settings = confluent(port_of(broker), mechanism)
        found = await asyncio.to_thread(produce_and_consume, settings, "t")

        assert found == [b"0", b"1", b"2"]
        assert {each.principal.name for each in broker.server.connections} <= {"alice"}
        assert logins.counts[Result(LISTENER, mechanism, SUCCESS)] >= 2
        assert logins.strangers == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_librdkafka_reports_a_wrong_password(tmp_path: Path, mechanism: str) -> None:
    async with broker_with_logins(tmp_path, scram=True) as (broker, logins):
        settings = confluent(port_of(broker), mechanism, "wrong")
        error = await asyncio.to_thread(error_of, settings)

        assert "Authentication failed" in error.str()
        assert logins.counts[Result(LISTENER, mechanism, FAILURE)] >= 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in(tmp_path: Path, mechanism: str) -> None:
    async with broker_with_logins(tmp_path, scram=True) as (broker, _):
        settings = {
            "bootstrap_servers": f"127.0.0.1:{port_of(broker)}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
        }
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("t", b"x")
        consumer = AIOKafkaConsumer("t", **settings, group_id="g", auto_offset_reset="earliest")
        async with consumer:
            assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"x"
