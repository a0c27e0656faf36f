"""Tests the transaction coordinator in a cluster: leadership changes, and markers of other
coordinators."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.topics.registry import TRANSACTION_TOPIC
from log.values import Marker
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NONE,
    NOT_COORDINATOR,
    TRANSACTION_COORDINATOR_FENCED,
)
from replication.values import Rules
from tests.broker.cluster.coordinating import CoordinatingBroker
from tests.broker.edge import Taker, eventually
from transactions.calls import (
    TV1,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
)

ID = next(name for name in ("a", "b", "c", "d") if partition_for(name, 2) == 0)
PLACES = [("orders", [0, 1])]


async def _reply_of(broker: CoordinatingBroker, call: Any) -> Any:
    done = asyncio.get_running_loop().create_future()
    broker.transactions.submit(ID, call(Taker(done.set_result)))
    return await asyncio.wait_for(done, 60)


async def _lead(broker: CoordinatingBroker, epoch: int, isr: tuple[int, ...] = (1,)) -> None:
    broker.lead(epoch=epoch, isr=isr, topic=TRANSACTION_TOPIC)
    await broker.serves(topic=TRANSACTION_TOPIC)


async def _ending(broker: CoordinatingBroker) -> int:
    """Commits a transaction, and waits until the leaders have received its markers, which they do
    not answer. Returns the producer id."""
    begun = await _reply_of(broker, lambda ticket: InitProducerId(ticket, ID, 60_000, -1, -1))
    assert begun.error_code == NONE
    whose = ID, begun.producer_id, begun.producer_epoch
    assert (
        await _reply_of(broker, lambda ticket: AddPartitions(ticket, *whose, PLACES, TV1)) == NONE
    )
    ended = await _reply_of(broker, lambda ticket: EndTransaction(ticket, *whose, True, TV1))
    assert ended.error_code == NONE
    await eventually(lambda: len(broker.leaders.asked) == 2)
    return int(begun.producer_id)


async def _state(broker: CoordinatingBroker) -> str:
    reply = await _reply_of(broker, lambda ticket: DescribeTransaction(ticket, ID))
    return str(reply.state)


def _answer(broker: CoordinatingBroker, error_code: int) -> None:
    asked, broker.leaders.asked = broker.leaders.asked, []
    for _, _, _, ticket in asked:
        ticket.take(error_code)


def _sent_markers(broker: CoordinatingBroker) -> set[Marker]:
    return {marker for _, _, marker, _ in broker.leaders.asked}


async def test_markers_have_the_leader_epoch_as_coordinator_epoch(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        await _lead(broker, epoch=5)
        producer_id = await _ending(broker)
        assert _sent_markers(broker) == {Marker(producer_id, 0, 5, committed=True)}
        _answer(broker, NONE)
        assert await _state(broker) == "CompleteCommit"


async def test_next_coordinator_sends_markers_with_its_leader_epoch(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        await _lead(broker, epoch=5)
        producer_id = await _ending(broker)
        broker.follow(epoch=6, topic=TRANSACTION_TOPIC)
        _answer(broker, NETWORK_EXCEPTION)
        await eventually(lambda: not broker.markers.sendings)
        await _lead(broker, epoch=7)
        await eventually(lambda: len(broker.leaders.asked) == 2)
        assert _sent_markers(broker) == {Marker(producer_id, 0, 7, committed=True)}


async def test_former_transaction_coordinator_does_not_complete_transactions(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        await _lead(broker, epoch=5)
        await _ending(broker)
        replica = broker.replica(topic=TRANSACTION_TOPIC)
        end_offset = replica.log.log_end_offset
        broker.follow(epoch=6, topic=TRANSACTION_TOPIC)
        _answer(broker, NONE)
        assert not broker.markers.sendings
        assert replica.log.log_end_offset == end_offset


async def test_fenced_coordinator_sends_markers_again_when_it_is_reelected(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        await _lead(broker, epoch=5)
        producer_id = await _ending(broker)
        _answer(broker, TRANSACTION_COORDINATOR_FENCED)
        assert await _state(broker) == "PrepareCommit"
        sending = broker.markers.sendings[ID]
        await eventually(lambda: sending.timer is not None)
        assert broker.leaders.asked == []
        await _lead(broker, epoch=8)  # The shard stays loaded.
        await eventually(lambda: len(broker.leaders.asked) == 2)
        assert _sent_markers(broker) == {Marker(producer_id, 0, 8, committed=True)}
        _answer(broker, NONE)
        assert await _state(broker) == "CompleteCommit"


@pytest.mark.proves("clusters 26")
async def test_marker_is_sent_after_in_sync_replicas_have_the_prepare_record(
    tmp_path: Path,
) -> None:
    """If the marker were sent earlier, and the leader failed, a new leader without the Prepare
    record could decide the transaction differently."""
    async with CoordinatingBroker(tmp_path) as broker:
        await _lead(broker, epoch=5)
        await _ending(broker)
        replica = broker.replica(topic=TRANSACTION_TOPIC)
        broker.follow(epoch=6, topic=TRANSACTION_TOPIC)
        broker.leaders.asked.clear()
        replica.high_watermark = replica.log.log_end_offset - 1
        broker.lead(epoch=7, isr=(1, 2), topic=TRANSACTION_TOPIC)
        hosted = broker.transactions.life.by_partition[0]
        await eventually(lambda: replica.waiting == 1)
        assert hosted.loaded_records == 4 - 1
        refused = await _reply_of(broker, lambda ticket: DescribeTransaction(ticket, ID))
        assert refused.error_code == COORDINATOR_LOAD_IN_PROGRESS
        assert broker.leaders.asked == []
        replica.follower_fetched(2, replica.log.log_end_offset)
        await eventually(lambda: len(broker.leaders.asked) == 2)


async def test_waiting_load_of_a_transaction_shard_is_cancelled_when_the_broker_loses_leadership(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        await _lead(broker, epoch=5)
        await _ending(broker)
        replica = broker.replica(topic=TRANSACTION_TOPIC)
        broker.follow(epoch=6, topic=TRANSACTION_TOPIC)
        replica.high_watermark = 0
        broker.lead(epoch=7, isr=(1, 2), topic=TRANSACTION_TOPIC)
        await eventually(lambda: replica.waiting == 1)
        broker.follow(epoch=8, topic=TRANSACTION_TOPIC)
        refused = await _reply_of(broker, lambda ticket: DescribeTransaction(ticket, ID))
        assert refused.error_code == NOT_COORDINATOR
        await _lead(broker, epoch=9)
        assert await _state(broker) == "PrepareCommit"


async def test_init_producer_id_is_refused_below_min_insync_replicas(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path, rules=Rules(min_isr=2)) as broker:
        await _lead(broker, epoch=5, isr=(1, 2))
        broker.lead(epoch=6, isr=(1,), topic=TRANSACTION_TOPIC)
        refused = await _reply_of(broker, lambda ticket: InitProducerId(ticket, ID, 60_000, -1, -1))
        assert refused.error_code == COORDINATOR_NOT_AVAILABLE
        assert broker.replica(topic=TRANSACTION_TOPIC).log.log_end_offset == 0
