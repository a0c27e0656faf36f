"""Helpers for transactions on a broker in the event loop of the test. They call the transaction
coordinator without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from broker.broker import Broker
from broker.topics.registry import TRANSACTION_TOPIC
from log.partition_log import PartitionLog
from protocol.errors import CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS, NONE
from protocol.records.batch import records_of
from tests.broker.edge import Taker
from tests.broker.serving import eventually, serving
from tests.wire import batch
from transactions.calls import (
    TV2,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    Partitions,
)

TOPIC = "orders"
PLACES: Partitions = [(TOPIC, [0, 1, 2])]


class Producer(NamedTuple):
    """The transactional id, producer id and epoch of a producer."""

    transactional_id: str
    producer_id: int
    epoch: int


class Ended(NamedTuple):
    """A transaction marker in the log of a partition."""

    offset: int
    producer_id: int
    epoch: int
    committed: bool
    coordinator_epoch: int


async def told(broker: Broker, call: Callable[[Taker], Any]) -> Any:
    """Sends one call to the transaction coordinator and returns the reply."""
    done = asyncio.get_running_loop().create_future()
    made = call(Taker(done.set_result))
    broker.transactions.submit(made.transactional_id, made)
    return await asyncio.wait_for(done, 30)


async def served(broker: Broker) -> None:
    """Waits until the topic `__transaction_state` is created and its shards are loaded."""
    await broker.topics.ensure(TRANSACTION_TOPIC)
    assert await broker.producer_ids.ready()
    await eventually("the load", lambda: not broker.transactions.life.loading)


@asynccontextmanager
async def coordinating(
    directory: Path | str, settings: Mapping[str, str], **parts: Any
) -> AsyncIterator[Broker]:
    """Yields a broker that has a topic of three partitions and whose transaction coordinator is
    loaded."""
    async with serving(directory, settings, **parts) as broker:
        await served(broker)
        if broker.registry.topic(TOPIC) is None:
            await broker.topics.create(TOPIC, 3, {})
        yield broker


async def initialised(broker: Broker, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    """Sends InitProducerId, and repeats it while the previous transaction is being completed."""
    while True:
        reply = await told(
            broker, lambda ticket: InitProducerId(ticket, transactional_id, timeout_ms, -1, -1)
        )
        if reply.error_code not in (CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS):
            break
        await asyncio.sleep(0)
    assert reply.error_code == NONE, reply
    return Producer(transactional_id, reply.producer_id, reply.producer_epoch)


async def added(
    broker: Broker, producer: Producer, partitions: Partitions = PLACES, rules: int = TV2
) -> int:
    code: int = await told(
        broker, lambda ticket: AddPartitions(ticket, *producer, partitions, rules)
    )
    return code


async def ended(broker: Broker, producer: Producer, committed: bool, rules: int = TV2) -> Producer:
    """Sends EndTxn and returns the producer with the producer id and epoch of the reply."""
    reply = await told(broker, lambda ticket: EndTransaction(ticket, *producer, committed, rules))
    assert reply.error_code == NONE, reply
    if rules < TV2:
        return producer
    return Producer(producer.transactional_id, reply.producer_id, reply.producer_epoch)


async def state_of(broker: Broker, transactional_id: str) -> str:
    reply = await told(broker, lambda ticket: DescribeTransaction(ticket, transactional_id))
    state: str = reply.state
    return state


def state_now(broker: Broker, transactional_id: str) -> str:
    """Returns the state of a transactional id from the active shard, or "" if the id is unknown."""
    view = broker.transactions.view_of(transactional_id)
    found = None if view is None else view.get(transactional_id)
    return "" if found is None else str(found.value.state.wire_name)


def append(broker: Broker, producer: Producer, partition: int, topic: str = TOPIC) -> None:
    """Appends transactional records directly to a partition, without verification of the
    transaction."""
    now_ms = broker.time.now().wall_ms
    data = batch(
        b"value",
        timestamp=now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    found = broker.logs.get(topic, partition)
    assert found is not None
    found.append(data, now_ms)


def markers(broker: Broker, partition: int, topic: str = TOPIC) -> list[Ended]:
    found = broker.logs.get(topic, partition)
    assert found is not None
    return markers_of(found.log)


def markers_of(log: PartitionLog) -> list[Ended]:
    result = []
    for data, header in log.scan():
        if not header.is_control:
            continue
        (record,) = records_of(data, header)
        assert record.key is not None
        assert record.value is not None
        result.append(
            Ended(
                header.base_offset,
                header.producer_id,
                header.producer_epoch,
                record.key[3] == 1,
                int.from_bytes(record.value[2:6], "big", signed=True),
            )
        )
    return result


def state_partition(broker: Broker, transactional_id: str) -> Any:
    hosted = broker.transactions.hosted_for(transactional_id)
    assert hosted is not None
    assert hosted.log.topic == TRANSACTION_TOPIC
    return hosted.partition
