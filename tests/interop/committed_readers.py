"""Consumers of each Python client, which read either all records of a partition or only committed
records."""

from __future__ import annotations

import asyncio

from confluent_kafka import Consumer, Message, TopicPartition

from tests.waiting import until

PYTHON = ("confluent", "aiokafka", "kafka-python")
WITHIN_S = 30
_END_OF_PARTITION = -191


def seen(bootstrap: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[str]:
    """Returns the values that a consumer reads from a partition. The consumer reads to the last
    offset that its isolation level allows."""
    found = messages(bootstrap, topic, partition, committed=committed)
    return [(each.value() or b"").decode() for each in found]


def messages(
    bootstrap: str, topic: str, partition: int = 0, *, committed: bool = True
) -> list[Message]:
    """Returns the messages that a consumer reads from a partition. The consumer reads to the last
    offset that its isolation level allows."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: list[Message] = []

    def at_end() -> bool:
        for message in consumer.consume(500, 0.2):
            if message.error() is not None:
                return bool(message.error().code() == _END_OF_PARTITION)
            found.append(message)
        return False

    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        until(f"the end of {topic}", at_end)
    finally:
        consumer.close()
    return found


def seen_by(reader: str, bootstrap: str, topic: str, until_offset: int) -> list[str]:
    """Returns the values that a read_committed consumer of the library ``reader`` reads from
    partition 0. The consumer stops at the position ``until_offset``, or with confluent-kafka at the
    last stable offset."""
    match reader:
        case "confluent":
            return seen(bootstrap, topic)
        case "kafka-python":
            return _seen_by_kafka_python(bootstrap, topic, until_offset)
        case _:
            return asyncio.run(_seen_by_aiokafka(bootstrap, topic, until_offset))


def _seen_by_kafka_python(bootstrap: str, topic: str, until_offset: int) -> list[str]:
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition as Partition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    partition = Partition(topic, 0)
    values: list[str] = []

    def at_end() -> bool:
        for messages in consumer.poll(timeout_ms=200).values():
            values.extend(message.value.decode() for message in messages)
        return bool(consumer.position(partition) >= until_offset)

    try:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        until(f"the end of {topic}", at_end)
    finally:
        consumer.close()
    return values


async def _seen_by_aiokafka(bootstrap: str, topic: str, until_offset: int) -> list[str]:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.structs import TopicPartition as Partition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    partition = Partition(topic, 0)
    values: list[str] = []
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        async with asyncio.timeout(WITHIN_S):
            while await consumer.position(partition) < until_offset:
                found = await consumer.getmany(partition, timeout_ms=200)
                for messages in found.values():
                    values.extend(message.value.decode() for message in messages)
    finally:
        await consumer.stop()
    return values
