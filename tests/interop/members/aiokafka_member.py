"""A group member that uses aiokafka."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError
from lines import Commands, Positions, config, emit, pairs

settings = config()
positions = Positions()


async def commit(consumer, offsets):
    if not offsets:
        return True
    try:
        await consumer.commit({TopicPartition(t, p): offset for (t, p), offset in offsets.items()})
    except KafkaError as error:
        emit("commit_failed", error=type(error).__name__)
        return False
    positions.committed(offsets)
    return True


class Listener(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer = consumer

    async def on_partitions_revoked(self, revoked):
        keys = [(p.topic, p.partition) for p in revoked]
        await commit(self.consumer, positions.of(keys))
        positions.forget(keys)
        emit("revoked", partitions=pairs(revoked))

    async def on_partitions_assigned(self, assigned):
        emit("assigned", partitions=pairs(assigned))


async def main():
    commands = Commands()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        client_id=settings["name"],
        group_instance_id=settings.get("instance"),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=settings.get("session_timeout_ms", 6000),
        heartbeat_interval_ms=300,
        max_poll_interval_ms=60000,
        rebalance_timeout_ms=60000,
        metadata_max_age_ms=1000,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    if settings.get("pattern"):
        consumer.subscribe(pattern="^" + settings["pattern"], listener=Listener(consumer))
    else:
        consumer.subscribe(topics=settings["topics"], listener=Listener(consumer))
    await consumer.start()
    emit("started")
    while (word := commands.next()) != "leave":
        if word == "commit" and await commit(consumer, positions.all()):
            emit("commit_done")
        for records in (await consumer.getmany(timeout_ms=50)).values():
            for record in records:
                positions.consumed(record.topic, record.partition, record.offset, record.value)
    await commit(consumer, positions.all())
    positions.forget(positions.all())
    await consumer.stop()
    emit("left")


asyncio.run(main())
