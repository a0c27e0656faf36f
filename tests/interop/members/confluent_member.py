"""A group member that uses confluent-kafka (librdkafka)."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from lines import Commands, Positions, config, emit, pairs

settings = config()
positions = Positions()
strategy = settings.get("strategy", "range")
incremental = strategy == "cooperative-sticky"
stands_at = {(t, p): offset for t, p, offset in settings.get("stands_at", [])}
"""For each partition, the offset of a record that this member cannot process. The member stops
reading the partition there."""
each_takes_s = settings.get("each_takes_s", 0)
"""The time in seconds that the member needs to process a record."""


def commit(consumer, offsets):
    if not offsets:
        return True
    try:
        done = consumer.commit(
            offsets=[TopicPartition(t, p, offset) for (t, p), offset in offsets.items()],
            asynchronous=False,
        )
        for each in done:
            if each.error:
                raise KafkaException(each.error)
    except KafkaException as error:
        emit("commit_failed", error=error.args[0].name())
        return False
    positions.committed(offsets)
    return True


def on_assign(consumer, partitions):
    emit("assigned", partitions=pairs(partitions))


def on_revoke(consumer, partitions):
    keys = [(p.topic, p.partition) for p in partitions]
    commit(consumer, positions.of(keys))
    positions.forget(keys)
    emit("revoked", partitions=pairs(partitions))


def on_lost(consumer, partitions):
    positions.forget([(p.topic, p.partition) for p in partitions])
    emit("lost", partitions=pairs(partitions))


options = {
    "bootstrap.servers": settings["bootstrap"],
    "group.id": settings["group"],
    "client.id": settings["name"],
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": settings.get("session_timeout_ms", 6000),
    "heartbeat.interval.ms": 300,
    "max.poll.interval.ms": 60000,
    "topic.metadata.refresh.interval.ms": 1000,
    "partition.assignment.strategy": strategy,
}
if settings.get("instance"):
    options["group.instance.id"] = settings["instance"]

commands = Commands()
consumer = Consumer(options)
topics = ["^" + settings["pattern"]] if settings.get("pattern") else settings["topics"]
consumer.subscribe(topics, on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
emit("started")
while (word := commands.next()) != "leave":
    if word == "commit" and commit(consumer, positions.all()):
        emit("commit_done")
    message = consumer.poll(0.05)
    if message is None:
        continue
    if message.error():
        emit("error", error=message.error().name())
    elif message.offset() < stands_at.get((message.topic(), message.partition()), 1 << 62):
        positions.consumed(message.topic(), message.partition(), message.offset(), message.value())
        time.sleep(each_takes_s)
# A static member leaves without a revocation, so its consumed records are committed here.
commit(consumer, positions.all())
consumer.close()
emit("left")
