"""A group member that uses kafka-python."""

from __future__ import annotations

from kafka import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError
from lines import Commands, Positions, config, emit, pairs

settings = config()
positions = Positions()
assignors = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def as_asked(offsets):
    return {
        TopicPartition(t, p): OffsetAndMetadata(offset, "", -1)
        for (t, p), offset in offsets.items()
    }


def commit(offsets):
    if not offsets:
        return True
    try:
        consumer.commit(as_asked(offsets))
    except KafkaError as error:
        emit("commit_failed", error=type(error).__name__)
        return False
    positions.committed(offsets)
    return True


class Listener(AsyncConsumerRebalanceListener):
    """A rebalance listener that runs in the event loop of the client. The listener must not block
    this loop."""

    async def on_partitions_revoked(self, revoked):
        keys = [(p.topic, p.partition) for p in revoked]
        offsets = positions.of(keys)
        if offsets:
            try:
                await consumer.commit_async(as_asked(offsets))
            except KafkaError as error:
                emit("commit_failed", error=type(error).__name__)
            else:
                positions.committed(offsets)
        positions.forget(keys)
        emit("revoked", partitions=pairs(revoked))

    async def on_partitions_assigned(self, assigned):
        emit("assigned", partitions=pairs(assigned))

    async def on_partitions_lost(self, lost):
        positions.forget([(p.topic, p.partition) for p in lost])
        emit("lost", partitions=pairs(lost))


def finish_joining():
    """Lets the next poll complete a join that the last poll did not complete.

    kafka-python 3.0.12 forgets a join that only a metadata change has caused. It then sends no
    heartbeats and hangs, also with Apache Kafka.
    """
    if consumer._coordinator.rejoining:
        consumer._coordinator.request_rejoin()


def polled():
    """Returns the records of one poll. Ignores the exceptions that kafka-python 3.0.12 may raise
    when a broker is down."""
    try:
        return consumer.poll(timeout_ms=200)
    except KafkaConnectionError:
        return {}


commands = Commands()
consumer = KafkaConsumer(
    bootstrap_servers=settings["bootstrap"],
    group_id=settings["group"],
    client_id=settings["name"],
    group_instance_id=settings.get("instance"),
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    session_timeout_ms=settings.get("session_timeout_ms", 6000),
    heartbeat_interval_ms=300,
    max_poll_interval_ms=60000,
    metadata_max_age_ms=1000,
    partition_assignment_strategy=(assignors[settings.get("strategy", "range")],),
)
if settings.get("pattern"):
    consumer.subscribe(pattern="^" + settings["pattern"], listener=Listener())
else:
    consumer.subscribe(topics=settings["topics"], listener=Listener())
consumer.topics()  # load metadata before it joins, so that it does not cause a rebalance
emit("started")
while (word := commands.next()) != "leave":
    if word == "commit" and commit(positions.all()):
        emit("commit_done")
    for records in polled().values():
        for record in records:
            positions.consumed(record.topic, record.partition, record.offset, record.value)
    finish_joining()
commit(positions.all())
consumer.close(autocommit=False)
emit("left")
