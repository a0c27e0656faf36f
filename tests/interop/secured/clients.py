"""Produces and consumes with each Python client, for each kind of login."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.interop.secured.brokers import Secured, password_of
from tests.interop.secured.tokens import VALID_S
from tests.waiting import until

RECEIVED_WITHIN_S = 30.0


class Who(NamedTuple):
    """The login of a user. Each client translates it into its own settings."""

    secured: Secured
    protocol: str
    mechanism: str | None
    user: str
    password: str
    """The password. For OAUTHBEARER, the token."""

    @property
    def bootstrap(self) -> str:
        return self.secured.listeners[self.protocol]

    @property
    def authority(self) -> str:
        return str(self.secured.authority.certificate)

    def certificate(self) -> str:
        """Returns the path of a file with the key and the certificate of the user."""
        return str(self.secured.authority.issue(self.user).pem)


def who(secured: Secured, protocol: str, mechanism: str | None, user: str) -> Who:
    """Returns a login with the correct password or token of the user."""
    is_token = mechanism == "OAUTHBEARER"
    secret = secured.issuer.token(user) if is_token else password_of(user)
    return Who(secured, protocol, mechanism, user, secret)


def _confluent(login: Who) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": login.bootstrap,
        "security.protocol": login.protocol,
    }
    if login.protocol.endswith("SSL"):
        settings["ssl.ca.location"] = login.authority
    if login.protocol == "SSL":
        own = login.certificate()
        settings |= {"ssl.certificate.location": own, "ssl.key.location": own}
    if login.mechanism == "OAUTHBEARER":
        settings |= {
            "sasl.mechanisms": login.mechanism,
            "oauth_cb": lambda _: (login.password, time.time() + VALID_S),
        }
    elif login.mechanism:
        settings |= {
            "sasl.mechanisms": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    return settings


def send_by_confluent(login: Who, topic: str, values: list[str]) -> None:
    from confluent_kafka import KafkaError, KafkaException, Producer

    failed: list[KafkaError] = []
    # When its producer id is rejected, librdkafka reports only that it dropped the records.
    settings = {"enable.idempotence": login.protocol.endswith("SSL"), "error_cb": failed.append}
    producer = Producer({**_confluent(login), **settings})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    until("all is sent", lambda: producer.flush(0.05) == 0 or failed, 20.0)
    producer.purge()
    if failed:
        raise KafkaException(failed[0])


def receive_by_confluent(login: Who, topic: str, group: str, count: int) -> list[str]:
    from confluent_kafka import Consumer, KafkaException

    failed: list[Any] = []
    consumer = Consumer({**_confluent(login), "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "error_cb": failed.append})  # fmt: skip
    try:
        consumer.subscribe([topic])
        found: list[str] = []
        while len(found) < count:
            message = consumer.poll(RECEIVED_WITHIN_S)
            if failed or message is None:
                raise KafkaException(failed[0] if failed else "nothing came")
            if message.error():
                raise KafkaException(message.error())
            found.append(message.value().decode())
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def _kafka_python(login: Who) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
    }
    if login.protocol.endswith("SSL"):
        settings["ssl_cafile"] = login.authority
    if login.protocol == "SSL":
        settings["ssl_certfile"] = login.certificate()
    if login.mechanism == "OAUTHBEARER":
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_oauth_token_provider": _token_of_kafka_python(login.password),
        }
    elif login.mechanism:
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return settings


def _token_of_kafka_python(token: str) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):
        def token(self) -> str:
            return token

    return Token()


def send_by_kafka_python(login: Who, topic: str, values: list[str]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(**_kafka_python(login), enable_idempotence=True, acks="all",
                             bootstrap_timeout_ms=3000)  # fmt: skip
    try:
        for each in [producer.send(topic, value.encode()) for value in values]:
            each.get(20)
    finally:
        producer.close(timeout=1)


def receive_by_kafka_python(login: Who, topic: str, group: str, count: int) -> list[str]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        **_kafka_python(login),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=RECEIVED_WITHIN_S * 1000,
    )
    try:
        found: list[str] = []
        for message in consumer:
            found.append(message.value.decode())
            if len(found) == count:
                break
        consumer.commit()
        return found
    finally:
        consumer.close()


def _aiokafka(login: Who) -> dict[str, Any]:
    from aiokafka.helpers import create_ssl_context

    settings: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
    }
    if login.protocol.endswith("SSL"):
        own = login.certificate() if login.protocol == "SSL" else None
        settings["ssl_context"] = create_ssl_context(
            cafile=login.authority, certfile=own, keyfile=own
        )
    if login.mechanism == "OAUTHBEARER":
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_oauth_token_provider": _token_of_aiokafka(login.password),
        }
    elif login.mechanism:
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return settings


def _token_of_aiokafka(token: str) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class Token(AbstractTokenProvider):
        async def token(self) -> str:
            return token

    return Token()


def send_by_aiokafka(login: Who, topic: str, values: list[str]) -> None:
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        producer = AIOKafkaProducer(**_aiokafka(login), enable_idempotence=True)
        try:
            await producer.start()
            for value in values:
                await producer.send_and_wait(topic, value.encode())
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), RECEIVED_WITHIN_S))


def receive_by_aiokafka(login: Who, topic: str, group: str, count: int) -> list[str]:
    from aiokafka import AIOKafkaConsumer

    async def receive() -> list[str]:
        consumer = AIOKafkaConsumer(
            topic,
            **_aiokafka(login),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        try:
            await consumer.start()
            found = [(await consumer.getone()).value.decode() for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(receive(), RECEIVED_WITHIN_S))


class Library(NamedTuple):
    """The functions that produce and consume with one client library."""

    send: Callable[[Who, str, list[str]], None]
    receive: Callable[[Who, str, str, int], list[str]]


LIBRARIES = {
    "confluent": Library(send_by_confluent, receive_by_confluent),
    "kafka-python": Library(send_by_kafka_python, receive_by_kafka_python),
    "aiokafka": Library(send_by_aiokafka, receive_by_aiokafka),
}
