"""Producers of each client, which send the same records."""

from __future__ import annotations

import asyncio

from tests import java


def produce(
    client: str, bootstrap: str, topic: str, values: list[str], codec: str = "none"
) -> None:
    """Produces ``values`` with the client ``client``. The key of each record is its index. Returns
    when all records are acknowledged."""
    match client:
        case "confluent":
            _confluent(bootstrap, topic, values, codec)
        case "kafka-python":
            _kafka_python(bootstrap, topic, values, codec)
        case "aiokafka":
            asyncio.run(_aiokafka(bootstrap, topic, values, codec))
        case _:
            _java(client.removeprefix("java-"), bootstrap, topic, values, codec)


def _confluent(bootstrap: str, topic: str, values: list[str], codec: str) -> None:
    from confluent_kafka import Producer

    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
    )
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value.encode(),
            str(number).encode(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert not failed


def _kafka_python(bootstrap: str, topic: str, values: list[str], codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all",
        enable_idempotence=True,
    )
    try:
        sent = [
            producer.send(topic, value.encode(), str(number).encode())
            for number, value in enumerate(values)
        ]
        for each in sent:
            each.get(20)
    finally:
        producer.close()


async def _aiokafka(bootstrap: str, topic: str, values: list[str], codec: str) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(topic, value.encode(), str(number).encode())
            for number, value in enumerate(values)
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def _java(release: str, bootstrap: str, topic: str, values: list[str], codec: str) -> None:
    old = release.startswith("0.")
    done = java.run(
        f"kafka-{release}",
        "kafka.tools.ConsoleProducer" if old else "org.apache.kafka.tools.ConsoleProducer",
        "--broker-list" if old else "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--compression-codec",
        codec,
        *(["--request-required-acks", "-1"] if old else []),
        "--property" if old else "--reader-property",
        "parse.key=true",
        "--property" if old else "--reader-property",
        "key.separator=:",
        text_in="".join(f"{number}:{value}\n" for number, value in enumerate(values)),
    )
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr, done.stderr
