"""Helpers for tests of the share coordinator. The tests run a broker in their own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.topics.registry import SHARE_STATE_TOPIC
from share.persister.calls import StateReply
from share.values import SharePartitionKey
from tests.broker.partitions import log_of
from tests.broker.serving import serving

TOPIC = "orders"
ONE_PARTITION = {"share.coordinator.state.topic.num.partitions": "1"}


def sharing(
    directory: Path | str, settings: Mapping[str, str] | None = None, **parts: Any
) -> AbstractAsyncContextManager[Broker]:
    """Yields a broker whose topic ``__share_group_state`` has one partition."""
    return serving(directory, {**ONE_PARTITION, **(settings or {})}, **parts)


async def key_of(broker: Broker, partition: int = 0, group_id: str = "g") -> SharePartitionKey:
    """Returns the key of a share partition. Creates the topic `TOPIC` with three partitions if it
    does not exist."""
    topic = broker.registry.topic(TOPIC) or await broker.topics.create(TOPIC, 3, {})
    return SharePartitionKey(group_id, topic.topic_id, partition)


async def told(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Calls ``ask`` with a callback, waits until the callback is called, and returns its
    argument."""
    answer = asyncio.get_running_loop().create_future()
    ask(answer.set_result)
    return await asyncio.wait_for(answer, 30)


async def initialized(
    broker: Broker, *keys: SharePartitionKey, state_epoch: int = 1, start_offset: int = 0
) -> None:
    """Initializes the states of share partitions and checks that no error is returned."""
    replies = await told(
        lambda done: broker.share_persister.initialize(keys, state_epoch, start_offset, done)
    )
    assert replies == dict.fromkeys(keys, StateReply(0))


async def written(
    broker: Broker, key: SharePartitionKey, start_offset: int, *batches: Any, complete: int = 0
) -> int:
    reply = await told(
        lambda done: broker.share_persister.write(key, 1, 0, start_offset, complete, batches, done)
    )
    return int(reply.error_code)


async def state(broker: Broker, key: SharePartitionKey) -> Any:
    """Returns the state of a share partition and checks that no error is returned."""
    reply = await told(lambda done: broker.share_persister.read(key, 0, done))
    assert reply.error_code == 0, reply
    return reply.state


def offsets(broker: Broker) -> tuple[int, int]:
    """Returns log start offset and log end offset of the only partition of
    ``__share_group_state``."""
    log = log_of(broker, SHARE_STATE_TOPIC)
    return log.log_start_offset, log.log_end_offset
