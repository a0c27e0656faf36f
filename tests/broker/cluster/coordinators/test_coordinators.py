"""Tests coordinators in a cluster: a shard is loaded and unloaded when the leadership of its
partition changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.cores.hosted_shard import Phase
from broker.cores.runtime_settings import RuntimeSettings
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import DescribeGroup
from coordinator.outcome import DescribeReply
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from protocol.records.batch import read_header
from replication.values import Rules
from tests.broker.cluster.coordinating import CoordinatingBroker
from tests.broker.edge import GROUPS, Client, Taker, eventually

EPOCH_POSITION = 12
"""The position of the leader epoch in a batch. The CRC of the batch does not cover it."""
GROUP = next(name for name in ("a", "b", "c", "d") if partition_for(name, 2) == 0)
OTHER = next(name for name in ("a", "b", "c", "d") if partition_for(name, 2) == 1)


def _caught_up(broker: CoordinatingBroker, index: int = 0) -> None:
    """Processes a fetch by the follower from the log end offset of the leader."""
    replica = broker.replica(index)
    replica.follower_fetched(2, replica.log.log_end_offset)


async def _committed(broker: CoordinatingBroker, client: Client, offset: int) -> int:
    """Commits an offset and processes the follower's fetch of the commit record. Returns the error
    code."""
    handle = client.send_commit(GROUP, offset)
    end_offset = broker.replica().log.log_end_offset
    await eventually(lambda: broker.replica().log.log_end_offset > end_offset)
    _caught_up(broker)
    answer = await client.receive(handle)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


async def test_group_requests_fail_until_the_offsets_partition_count_is_known(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        broker.nodes.counts.clear()
        client = await broker.client()
        broker.lead()
        assert await client.commit(GROUP, 5) == NOT_COORDINATOR
        await eventually(lambda: broker.nodes.reads == 1)
        broker.nodes.counts[OFFSETS_TOPIC] = 2
        broker.learnt(OFFSETS_TOPIC)
        await broker.serves()
        assert await client.commit(GROUP, 5) == NONE
        assert await client.commit(OTHER, 6) == NOT_COORDINATOR, "nobody here leads its partition"


async def test_commit_is_answered_when_the_in_sync_replicas_have_the_record(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead(isr=(1, 2))
        await broker.serves()
        handle = client.send_commit(GROUP, 5)
        await eventually(lambda: broker.replica().waiting == 1)
        _caught_up(broker)
        answer = await client.receive(handle)
        assert answer["topics"][0]["partitions"][0]["error_code"] == NONE


async def _fetch_of_an_unstable_offset(
    broker: CoordinatingBroker, client: Client
) -> tuple[int, int, int]:
    """Commits offset 5 and moves the leadership. Then sends an OffsetFetch before the in-sync
    replicas have the commit record."""
    broker.lead()
    await broker.serves()
    assert await client.commit(GROUP, 5) == NONE
    broker.follow()
    replica = broker.replica()
    # The replica is like a follower that does not know a higher high watermark.
    replica.high_watermark = 0
    broker.lead(epoch=3, isr=(1, 2))
    await broker.serves()
    handle = client.send_fetch(GROUP)
    await eventually(lambda: replica.waiting == 1)
    return handle


@pytest.mark.proves("clusters 26")
async def test_new_coordinator_returns_an_offset_only_when_the_offset_is_stable(
    tmp_path: Path,
) -> None:
    """An offset that is not stable yet may be lost if the new leader fails."""
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        handle = await _fetch_of_an_unstable_offset(broker, client)
        _caught_up(broker)
        answer = await client.receive(handle)
        assert answer["topics"][0]["partitions"][0]["committed_offset"] == 5


async def test_parked_offset_fetch_gets_not_coordinator_when_leadership_is_lost(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        handle = await _fetch_of_an_unstable_offset(broker, client)
        broker.follow(epoch=4)
        assert (await client.receive(handle))["error_code"] == NOT_COORDINATOR


async def test_commit_gets_coordinator_not_available_when_replication_times_out(
    tmp_path: Path,
) -> None:
    settings = RuntimeSettings(GROUPS, stable_timeout_ms=50)
    async with CoordinatingBroker(tmp_path, settings=settings) as broker:
        client = await broker.client()
        broker.lead(isr=(1, 2))
        await broker.serves()
        assert await client.commit(GROUP, 5) == COORDINATOR_NOT_AVAILABLE
        _caught_up(broker)
        assert await client.fetch(GROUP) == 5, "it was written, and nothing of it was lost"
        assert broker.phase() == "active"


async def test_group_requests_get_load_in_progress_when_the_load_is_queued(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        assert await client.commit(GROUP, 5) == NONE
        broker.follow()
        broker.lead(epoch=3)
        answers: list[DescribeReply] = []
        broker.groups.submit(GROUP, DescribeGroup(Taker(answers.append), GROUP))
        assert [each.error_code for each in answers] == [COORDINATOR_LOAD_IN_PROGRESS]
        await broker.serves()
        assert await client.fetch(GROUP) == 5


@pytest.mark.proves("clusters 27")
async def test_coordinator_ignores_controller_requests_with_an_older_leader_epoch(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        broker.lead(epoch=5)
        await broker.serves()
        hosted = broker.groups.life.by_partition[0]
        broker.coordinators.on_follower(broker.replica(), 4)
        assert broker.groups.life.by_partition[0] is hosted
        broker.follow(epoch=6)
        broker.coordinators.on_leader(broker.replica(), 5)
        assert broker.phase() == "", "trap 27: a late load of an older epoch"


async def test_shard_stays_loaded_when_its_leader_gets_a_higher_leader_epoch(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead(epoch=5)
        await broker.serves()
        hosted = broker.groups.life.by_partition[0]
        member_id, generation = await client.join_alone(GROUP)
        broker.lead(epoch=7)
        assert broker.groups.life.by_partition[0] is hosted
        assert await client.heartbeat(GROUP, member_id, generation) == NONE
        end_offset = hosted.log.log_end_offset
        assert await client.commit(GROUP, 5, member_id=member_id, generation_id=generation) == NONE
        written = read_header(hosted.log.read(end_offset, 1).data)
        assert written.partition_leader_epoch == 7


@pytest.mark.proves("clusters 27")
async def test_parked_join_gets_not_coordinator_when_leadership_is_lost(tmp_path: Path) -> None:
    """The broker answers the parked JoinGroup at once, so the member does not have to wait until
    its next heartbeat."""
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        await client.join_alone(GROUP)
        second = await broker.client()
        handle = second.send_join(GROUP)
        view = broker.groups.view_of(GROUP)
        await eventually(lambda: len(view.groups[GROUP].members) == 2)
        broker.follow()
        assert (await second.receive(handle))["error_code"] == NOT_COORDINATOR
        assert await client.commit(GROUP, 7) == NOT_COORDINATOR


async def test_group_keeps_members_and_generation_on_the_next_coordinator(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        member_id, generation = await client.join_alone(GROUP)
        broker.follow()
        assert await client.heartbeat(GROUP, member_id, generation) == NOT_COORDINATOR
        broker.lead(epoch=3)
        await broker.serves()
        assert await client.heartbeat(GROUP, member_id, generation) == NONE


async def test_only_offset_commits_are_refused_below_min_insync_replicas(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path, rules=Rules(min_isr=2)) as broker:
        client = await broker.client()
        replica = broker.lead(isr=(1, 2))
        await broker.serves()
        assert await _committed(broker, client, 5) == NONE
        broker.lead(epoch=2, isr=(1,))
        assert await client.commit(GROUP, 6) == COORDINATOR_NOT_AVAILABLE
        assert await client.fetch(GROUP) == 5
        assert replica.log.log_end_offset == 1, "nothing was written"
        broker.lead(epoch=3, isr=(1, 2))
        await broker.serves()
        assert await _committed(broker, client, 7) == NONE


async def test_group_coordinator_below_min_insync_replicas_answers_reads(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path, rules=Rules(min_isr=2)) as broker:
        client = await broker.client()
        broker.lead(isr=(1, 2))
        await broker.serves()
        assert await _committed(broker, client, 5) == NONE
        broker.follow()
        broker.lead(epoch=3, isr=(1,))
        await eventually(lambda: broker.phase() == "unwritable")
        assert await client.fetch(GROUP) == 5
        assert await client.commit(GROUP, 6) == COORDINATOR_NOT_AVAILABLE
        broker.lead(epoch=4, isr=(1, 2))
        await broker.serves()
        assert await _committed(broker, client, 6) == NONE


async def test_offsets_of_a_deleted_topic_are_dropped_by_their_coordinator(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead(0)
        broker.lead(1)
        await broker.serves(0)
        await broker.serves(1)
        for group in (GROUP, OTHER):
            assert await client.commit(group, 5) == NONE
            assert await client.commit(group, 6, topic="payments") == NONE
        broker.follow(1)
        end_offset = broker.replica(1).log.log_end_offset
        broker.deleted("orders")
        await eventually(lambda: broker.replica(0).log.log_end_offset == 3)
        assert await client.fetch(GROUP) == -1
        assert await client.fetch(GROUP, "payments") == 6
        assert broker.replica(1).log.log_end_offset == end_offset
        assert not any(broker.groups.duties.gone.values()), "nothing is left to be done later"


async def test_recreated_offsets_topic_has_no_shards_of_the_deleted_topic(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead(epoch=9)
        await broker.serves()
        broker.deleted(OFFSETS_TOPIC)
        assert not broker.groups.is_started
        assert await client.commit(GROUP, 5) == NOT_COORDINATOR
        broker.nodes.counts[OFFSETS_TOPIC] = 3
        broker.replicas.clear()
        broker.directory = tmp_path / "next"
        broker.lead(partition_for(GROUP, 3), epoch=0)
        await eventually(lambda: broker.groups.life.partitions == 3)
        assert await client.commit(GROUP, 5) == NONE


async def test_group_load_is_abandoned_when_leadership_is_lost(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        assert await client.commit(GROUP, 5) == NONE
        broker.follow()
        broker.lead(epoch=3)
        given_up = broker.groups.life.by_partition[0]
        broker.follow(epoch=4)
        await asyncio.sleep(0)
        assert given_up.phase is Phase.UNLOADED
        broker.lead(epoch=5)
        await broker.serves()
        assert await client.fetch(GROUP) == 5
        assert given_up.loaded_records == 0, "nobody went on with it"


async def test_group_load_ignores_a_snapshot_of_truncated_records(
    tmp_path: Path,
) -> None:
    """The broker wrote a snapshot, became a follower, truncated its last batch, and replicated the
    same batch with a newer leader epoch. The log has the same length as before, but the snapshot
    does not belong to it."""
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        replica = broker.lead()
        await broker.serves()
        assert await client.commit(GROUP, 4) == NONE
        assert await client.commit(GROUP, 5) == NONE
        snapshots = broker.groups.life.snapshots
        assert snapshots is not None
        assert await snapshots.write(broker.groups.life.by_partition[0])
        broker.follow(epoch=2)
        last = bytearray(replica.log.read(1, 1).data)
        last[EPOCH_POSITION : EPOCH_POSITION + 4] = (2).to_bytes(4, "big")
        replica.truncate_for_leader(1)
        replica.append_replicated(bytes(last), 2, 0)
        broker.lead(epoch=3)
        await broker.serves()
        assert broker.groups.life.by_partition[0].loaded_from == -1, "the whole log was read"
        assert await client.fetch(GROUP) == 5


async def test_group_load_uses_a_snapshot_that_was_written_during_an_earlier_leadership(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        client = await broker.client()
        broker.lead()
        await broker.serves()
        assert await client.commit(GROUP, 5) == NONE
        snapshots = broker.groups.life.snapshots
        assert snapshots is not None
        assert await snapshots.write(broker.groups.life.by_partition[0])
        broker.follow(epoch=2)
        broker.lead(epoch=3)
        await broker.serves()
        hosted = broker.groups.life.by_partition[0]
        assert (hosted.loaded_from, hosted.loaded_records) == (1, 0)
        assert await client.fetch(GROUP) == 5


async def test_shard_lifecycle_hosts_a_partition_only_while_the_broker_leads_it(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        life = broker.groups.life
        broker.lead()
        await broker.serves()
        assert life.hosts(0)
        broker.follow()
        assert not life.hosts(0)
        assert life.live_records(0) is None
