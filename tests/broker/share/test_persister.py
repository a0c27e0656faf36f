"""The persister of a broker stores and reads the states of share partitions."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cores.hosted_shard import Phase
from broker.topics.registry import SHARE_STATE_TOPIC
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from share.persister.calls import StateReply
from share.values import SharePartitionKey, StateBatch, StoredState
from tests.broker.serving import eventually, serving
from tests.broker.share.states import (
    TOPIC,
    initialized,
    key_of,
    offsets,
    sharing,
    state,
    told,
    written,
)
from tests.simulated_files import SimulatedFiles

DONE = StateBatch(0, 4, 2, 1)
FREE = StateBatch(5, 9, 0, 1)
LOG = f"{SHARE_STATE_TOPIC}-0/00000000000000000000.log"


async def test_first_persister_call_creates_the_state_topic_and_later_calls_wait_for_the_creation(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as broker:
        key, other = await key_of(broker), await key_of(broker, 1)
        assert broker.registry.topic(SHARE_STATE_TOPIC) is None
        one = told(lambda done: broker.share_persister.initialize([key], 1, 0, done))
        two = told(lambda done: broker.share_persister.initialize([other], 1, 7, done))
        replies = await asyncio.gather(one, two)
        assert replies == [{key: StateReply(0)}, {other: StateReply(0)}]
        assert (await state(broker, other)).start_offset == 7
        topic = broker.registry.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        assert topic.configs == {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "compression.type": "producer",
            "segment.bytes": "104857600",
            "min.insync.replicas": "1",
        }


async def test_written_state_is_read_after_a_restart(tmp_path: Path) -> None:
    async with sharing(tmp_path) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
        assert await written(broker, key, 0, DONE, FREE, complete=5) == NONE
        assert await written(broker, key, 5, complete=0) == NONE
    async with sharing(tmp_path) as broker:
        assert await state(broker, key) == StoredState(1, 0, 5, 0, (FREE,))
        summary = await told(lambda done: broker.share_persister.summary([key], done))
        assert summary == {key: StateReply(NONE, state=StoredState(1, 0, 5, 0))}


async def test_share_states_are_spread_over_50_partitions_and_loaded_at_start(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        keys = [await key_of(broker, 0, f"group-{n}") for n in range(60)]
        await initialized(broker, *keys)
        hosted = broker.share_states.hosted_shards
        assert len(hosted) == 50
        assert sum(each.core.view.known() > 0 for each in hosted) > 20
    async with serving(tmp_path) as broker:
        for key in keys:
            assert (await state(broker, key)).state_epoch == 1


@pytest.mark.parametrize(("partition", "deleted"), [(-1, INVALID_REQUEST), (3, NONE)])
async def test_persister_call_for_an_unknown_topic_or_partition_is_refused(
    tmp_path: Path, partition: int, deleted: int
) -> None:
    async with sharing(tmp_path) as broker:
        states = broker.share_persister
        known = await key_of(broker)
        for key in (known._replace(partition=partition), known._replace(topic_id=b"x" * 16)):
            replies = await told(partial(states.initialize, [key], 1, 0))
            assert replies[key].error_code == UNKNOWN_TOPIC_OR_PARTITION
            reply = await told(partial(states.read, key, 0))
            assert reply.error_code == UNKNOWN_TOPIC_OR_PARTITION
            assert await written(broker, key, 0, FREE) == UNKNOWN_TOPIC_OR_PARTITION
            error = deleted if key.partition == partition else NONE
            assert (await told(partial(states.delete, [key])))[key].error_code == error


async def test_error_of_the_share_coordinator_is_returned_to_the_persisters_caller(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as broker:
        key = await key_of(broker)
        states = broker.share_persister

        async def errors(*asks: Any) -> list[int]:
            return [(await told(ask)).error_code for ask in asks]

        def write(state_epoch: int, leader_epoch: int) -> Any:
            return lambda done: states.write(key, state_epoch, leader_epoch, 0, 0, [FREE], done)

        assert await errors(lambda done: states.read(key, 0, done)) == [INVALID_REQUEST]
        assert await errors(write(1, 0)) == [INVALID_REQUEST]
        await initialized(broker, key, state_epoch=4)
        assert await errors(
            lambda done: states.read(key, 3, done),
            lambda done: states.read(key, 2, done),
            write(4, 2),
            write(3, 3),
            write(4, 3),
        ) == [NONE, FENCED_LEADER_EPOCH, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, NONE]
        replies = await told(lambda done: states.initialize([key], 3, 0, done))
        assert replies[key].error_code == FENCED_STATE_EPOCH


async def test_persister_call_with_an_empty_list_of_share_partitions_is_answered(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as broker:
        assert await told(lambda done: broker.share_persister.delete([], done)) == {}
        assert broker.registry.topic(SHARE_STATE_TOPIC) is None


async def test_persister_calls_fail_when_the_state_topic_cannot_be_created() -> None:
    fs = SimulatedFiles()
    async with sharing("/data", fs=fs) as broker:
        broker.share_persister.retries = 1
        key = await key_of(broker)
        fs.fail("write", "topics.json.spare", count=1 << 30)
        with capture_logs() as lines:
            replies = await told(lambda done: broker.share_persister.initialize([key], 1, 0, done))
        assert replies[key].error_code == COORDINATOR_NOT_AVAILABLE
        errors = [each for each in lines if "can't be created" in each["event"]]
        assert len(errors) == 2, "the call was repeated once"
        fs.heal()
        await initialized(broker, key)


async def test_persister_call_is_repeated_until_the_log_accepts_writes(tmp_path: Path) -> None:
    fs = SimulatedFiles()
    async with sharing("/data", fs=fs) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
        fs.fail("write", LOG)
        answer = asyncio.ensure_future(written(broker, key, 0, FREE))
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the failure", lambda: hosted.phase is not Phase.ACTIVE)
        fs.heal()
        assert await answer == NONE
        assert (await state(broker, key)).batches == (FREE,)


async def test_waiting_persister_calls_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    fs = SimulatedFiles()
    async with sharing("/data", fs=fs) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
        fs.fail("write", LOG, count=1 << 30)
        answer = asyncio.ensure_future(written(broker, key, 0, FREE))
        await eventually("a retry", lambda: broker.share_persister._retries)
        fs.heal()
    assert await answer == COORDINATOR_NOT_AVAILABLE


# -- deletions and pruning


async def test_share_states_of_a_deleted_topic_are_deleted(tmp_path: Path) -> None:
    async with sharing(tmp_path) as broker:
        keys = [await key_of(broker, partition) for partition in range(3)]
        await initialized(broker, *keys)
        other = await broker.topics.create("other", 1, {})
        kept = SharePartitionKey("g", other.topic_id, 0)
        await initialized(broker, kept)
        await broker.topics.delete(TOPIC)
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the deletion", lambda: hosted.core.view.known() == 1)
        assert list(hosted.core.view.known_keys) == [kept]
    async with sharing(tmp_path) as broker:
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the load", lambda: hosted.phase is Phase.ACTIVE)
        assert list(hosted.core.view.known_keys) == [kept]


async def test_pruning_deletes_remaining_share_states_of_a_deleted_topic(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as broker:
        await initialized(broker, await key_of(broker))
        broker.topics.on_deleted.clear()  # type: ignore[attr-defined]
        await broker.topics.delete(TOPIC)
    async with sharing(tmp_path) as broker:
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the load", lambda: hosted.phase is Phase.ACTIVE)
        assert hosted.core.view.known() == 1
        await broker.share_pruning.run()
        assert hosted.core.view.known() == 0


@pytest.mark.proves("share 7")
async def test_pruning_deletes_state_records_before_the_oldest_needed_snapshot(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as broker:
        first, second = await key_of(broker), await key_of(broker, 1)
        await initialized(broker, first, second)  # offsets 0 and 1
        assert await written(broker, first, 0, FREE) == NONE
        assert offsets(broker) == (0, 3)
        await broker.share_pruning.run()
        assert offsets(broker) == (0, 3), "both snapshots are needed"
        await initialized(broker, first, state_epoch=1)
        assert await written(broker, second, 0, DONE) == NONE
        await broker.share_pruning.run()
        assert offsets(broker)[0] in (0, 1), "the older of the two first snapshots is needed"
        await initialized(broker, second)
        await broker.share_pruning.run()
        assert offsets(broker) == (3, 6)
        await told(lambda done: broker.share_persister.delete([first, second], done))
        await broker.share_pruning.run()
        assert offsets(broker) == (8, 8), "nothing is needed"
        await initialized(broker, first, start_offset=2)
        assert await written(broker, first, 2, FREE) == NONE
    async with sharing(tmp_path) as broker:
        assert offsets(broker)[0] == 8
        assert await state(broker, first) == StoredState(1, 0, 2, 0, (FREE,))


async def test_share_state_segments_without_needed_records_are_deleted_by_retention(
    tmp_path: Path,
) -> None:
    settings = {
        "share.coordinator.state.topic.segment.bytes": "2000",
        "share.coordinator.snapshot.update.records.per.snapshot": "10",
    }
    async with sharing(tmp_path, settings) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
        for offset in range(100):
            assert await written(broker, key, offset, StateBatch(offset, offset + 5, 0, 1)) == NONE
        log = broker.logs.topics[SHARE_STATE_TOPIC].partitions[0].log
        before = len(log.segments)
        assert before > 3
        await broker.share_pruning.run()
        await broker.maintenance.run_retention()
        assert offsets(broker) == (99, 101), "a snapshot after 10 updates"
        assert len(log.segments) == 1
        wanted = await state(broker, key)
    async with sharing(tmp_path, settings) as broker:
        assert await state(broker, key) == wanted


async def test_unreadable_state_record_makes_only_its_state_partition_unavailable(
    tmp_path: Path,
) -> None:
    from tests.broker.partitions import write_records

    async with sharing(tmp_path) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
    write_records(tmp_path, SHARE_STATE_TOPIC, 0, (b"\0\0\0\1g" + b"\0" * 20, b"\0\7"))
    async with sharing(tmp_path) as broker:
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the end of the load", lambda: hosted.phase is Phase.FAILED)
        reason = broker.health()["unreadable"][f"{SHARE_STATE_TOPIC}-0"]
        assert "the value has version 7, expected 0" in reason
        skip = f"share.coordinator.load.skip.records={SHARE_STATE_TOPIC}-0:1"
        assert skip in reason
    async with sharing(tmp_path, dict([skip.split("=")])) as broker:
        assert (await state(broker, key)).state_epoch == 1
