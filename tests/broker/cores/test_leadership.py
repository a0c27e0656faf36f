"""Tests partitions of an internal topic for which this broker loses and regains the leadership."""

from __future__ import annotations

from pathlib import Path

from broker.cores.hosted_shard import Phase
from offsets.partitioner import partition_for
from protocol.errors import NONE, NOT_COORDINATOR
from tests.broker.edge import EdgeBroker, eventually

GROUP = "g"
HERE = partition_for(GROUP, 2)
OTHER = next(name for name in ("a", "b", "c", "d") if partition_for(name, 2) != HERE)


async def test_shard_returns_not_coordinator_after_leadership_is_lost(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        await broker.ensure_offsets_topic()
        assert await client.commit(GROUP, 5) == NONE
        assert await client.commit(OTHER, 6) == NONE
        broker.groups.resign(HERE)
        assert await client.commit(GROUP, 7) == NOT_COORDINATOR
        assert await client.fetch(GROUP) == -1000 - NOT_COORDINATOR
        assert await client.fetch(OTHER) == 6


async def test_shard_is_loaded_from_the_log_when_the_broker_leads_again(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        await broker.ensure_offsets_topic()
        assert await client.commit(GROUP, 5) == NONE
        broker.groups.resign(HERE)
        partition = broker.served_partitions[HERE]
        broker.groups.lead(partition)
        hosted = broker.groups.life.by_partition[HERE]
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert await client.fetch(GROUP) == 5
        broker.groups.lead(partition)  # With a newer epoch the shard stays unchanged.
        assert broker.groups.life.by_partition[HERE] is hosted


async def test_parked_join_gets_not_coordinator_when_the_shard_resigns(tmp_path: Path) -> None:
    """The broker answers the parked JoinGroup at once, so the member does not have to wait until
    its next heartbeat."""
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        await broker.ensure_offsets_topic()
        await client.join_alone(GROUP)
        second = await broker.client()
        handle = second.send_join(GROUP)
        view = broker.groups.view_of(GROUP)
        await eventually(lambda: len(view.groups[GROUP].members) == 2)
        broker.groups.resign(HERE)
        assert (await second.receive(handle))["error_code"] == NOT_COORDINATOR


async def test_shard_whose_load_was_abandoned_stays_unloaded(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        await broker.ensure_offsets_topic()
        assert await client.commit(GROUP, 5) == NONE
        partition = broker.served_partitions[HERE]
        broker.groups.resign(HERE)
        broker.groups.lead(partition)
        given_up = broker.groups.life.by_partition[HERE]
        broker.groups.resign(HERE)
        broker.groups.lead(partition)
        hosted = broker.groups.life.by_partition[HERE]
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert given_up.phase is Phase.UNLOADED
        assert await client.fetch(GROUP) == 5
