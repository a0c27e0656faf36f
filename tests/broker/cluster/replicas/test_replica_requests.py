"""Tests the responses of a leader, a follower and a broker without a replica, to replicas,
consumers and producers. The test sends the requests of the other replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.topics.replicas.replica import Replica
from protocol.errors import (
    FENCED_LEADER_EPOCH,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.records.stored import iter_stored
from replication.values import Rules
from tests.broker.cluster.fellows import Controller, Fellow, cluster, eventually
from tests.log.log_tools import batch
from tests.wire import Wire, values_of
from tests.wire import batch as produced

_CLIENTS = ThreadPoolExecutor(8)
REPLICAS = (1, 2, 3)


class LeaderScene:
    """Broker 1, to which a test sends requests. It leads t-0 with three replicas. It has no replica
    of t-1, and does not know topic u."""

    def __init__(self, fellow: Fellow, controller: Controller) -> None:
        self.fellow = fellow
        self.controller = controller

    @property
    def replica(self) -> Replica:
        return self.fellow.replica()

    async def asks(self, name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
        """Sends a request on a new connection. Returns the response."""

        def call() -> dict[str, Any]:
            with Wire(self.fellow.port) as wire:
                return wire.call(name, version, value)

        return await asyncio.get_running_loop().run_in_executor(_CLIENTS, call)

    async def fetch(
        self,
        offset: int,
        replica: int = -1,
        version: int = 12,
        *,
        epoch: int = -1,
        last_epoch: int = -1,
        wait_ms: int = 0,
        index: int = 0,
        topic: str = "t",
        **more: Any,
    ) -> dict[str, Any]:
        """Sends Fetch. Returns the entry of one partition. ``more`` are fields of the request."""
        wanted = {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": epoch,
            "last_fetched_epoch": last_epoch,
        }
        value = {
            "replica_id": replica,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "topics": [{"topic": topic, "partitions": [wanted]}],
            **more,
        }
        answer = await self.asks("Fetch", version, value)
        found = answer["responses"]
        return {} if not found else found[0]["partitions"][0]

    async def followers(self, offset: int) -> None:
        """Sends a Fetch request from ``offset`` for each of the two followers."""
        for each in (2, 3):
            assert (await self.fetch(offset, each))["error_code"] == NONE

    async def ends(
        self, timestamp: int = -1, replica: int = -1, version: int = 5
    ) -> tuple[int, int]:
        """Sends ListOffsets. Returns error code and offset."""
        wanted = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": 2}
        topics = [{"name": "t", "partitions": [wanted]}]
        answer = await self.asks("ListOffsets", version, {"replica_id": replica, "topics": topics})
        found = answer["topics"][0]["partitions"][0]
        offset = found["offset"] if version else found["old_style_offsets"][0]
        return found["error_code"], offset

    async def produce(
        self, acks: int = -1, timeout_ms: int = 10_000, topic: str = "t", index: int = 0
    ) -> dict[str, Any]:
        partition = {"index": index, "records": produced(b"v")}
        answer = await self.asks(
            "Produce",
            8,
            {
                "acks": acks,
                "timeout_ms": timeout_ms,
                "topic_data": [{"name": topic, "partition_data": [partition]}],
            },
        )
        found: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
        return found


@asynccontextmanager
async def leader_scene(
    records: int = 0, isr: Sequence[int] = REPLICAS, **settings: Any
) -> AsyncIterator[LeaderScene]:
    fellow = Fellow(1, **settings)
    async with cluster(fellow) as controller:
        await controller.lead(1, replicas=REPLICAS, isr=isr, partitions=(0,))
        state = fellow.replica().state
        assert state is not None
        controller.show(controller.shown("t", state, (0, 1)))
        fellow.append(records)
        yield LeaderScene(fellow, controller)


# -- Fetch


@pytest.mark.proves("clusters 8")
async def test_replica_reads_up_to_log_end_and_consumer_up_to_high_watermark() -> None:
    async with leader_scene(records=3) as it:
        found = await it.fetch(0, 2)
        assert (found["high_watermark"], values_of(found["records"])) == (0, [b"v"] * 3)
        assert values_of((await it.fetch(0))["records"]) == []
        await it.fetch(2, 2)
        await it.fetch(1, 3)
        found = await it.fetch(0)
        assert (found["high_watermark"], values_of(found["records"])) == (1, [b"v"])
        assert values_of((await it.fetch(2))["records"]) == []


@pytest.mark.proves("clusters 8")
@pytest.mark.parametrize("replica", [2, -1])
async def test_fetch_above_the_log_end_offset_gets_offset_out_of_range(replica: int) -> None:
    async with leader_scene(records=3) as it:
        assert (await it.fetch(3, replica))["error_code"] == NONE
        assert (await it.fetch(4, replica))["error_code"] == OFFSET_OUT_OF_RANGE
        it.replica.log.delete_records(2)
        assert (await it.fetch(1, replica))["error_code"] == OFFSET_OUT_OF_RANGE


async def test_leader_serves_replica_fetches_only_to_assigned_replicas() -> None:
    async with leader_scene(records=1) as it:
        assert (await it.fetch(0, 4))["error_code"] == UNKNOWN_LEADER_EPOCH
        assert (await it.fetch(0, 2, epoch=1))["error_code"] == UNKNOWN_LEADER_EPOCH
        await it.controller.lead(2, replicas=REPLICAS)
        for replica in (-1, 3):
            found = await it.fetch(0, replica, epoch=1)
            assert found["error_code"] == NOT_LEADER_OR_FOLLOWER
            found = await it.fetch(0, replica, epoch=0)
            assert found["error_code"] == FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("topic", "index", "error_code"),
    [
        ("t", 1, NOT_LEADER_OR_FOLLOWER),
        ("t", 2, UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_unknown_partitions_and_partitions_on_other_brokers_get_different_errors(
    topic: str, index: int, error_code: int
) -> None:
    async with leader_scene() as it:
        assert (await it.fetch(0, topic=topic, index=index))["error_code"] == error_code
        assert (await it.produce(topic=topic, index=index))["error_code"] == error_code
        listed = [{"name": topic, "partitions": [{"partition_index": index, "timestamp": -1}]}]
        answer = await it.asks("ListOffsets", 5, {"replica_id": -1, "topics": listed})
        assert answer["topics"][0]["partitions"][0]["error_code"] == error_code


async def test_follower_whose_log_diverges_gets_the_end_offset_of_its_last_epoch() -> None:
    async with leader_scene(records=3) as it:
        await it.controller.lead(1, replicas=REPLICAS)
        it.fellow.append(2)
        assert it.replica.log.epochs.entries[-1] == (1, 3)
        found = await it.fetch(5, 2, last_epoch=0)
        assert found["diverging_epoch"] == {"epoch": 0, "end_offset": 3}
        assert it.replica.led is not None
        assert it.replica.led.followers[2].end_offset == -1
        found = await it.fetch(3, 2, last_epoch=0)
        assert (found["diverging_epoch"]["epoch"], len(values_of(found["records"]))) == (-1, 2)
        assert it.replica.led.followers[2].end_offset == 3


async def test_replica_fetch_of_a_client_is_denied() -> None:
    async with leader_scene(records=2) as it:
        object.__setattr__(it.fellow.settings, "listener", "BROKERS")
        found = await it.fetch(2, 2)
        assert (found["error_code"], found["records"]) == (TOPIC_AUTHORIZATION_FAILED, b"")
        assert it.replica.led is not None
        assert it.replica.led.followers[2].end_offset == -1
        assert (await it.fetch(0))["error_code"] == NONE, "it may read as a consumer does"


async def test_follower_fetch_time_is_not_updated_when_a_waiting_fetch_returns() -> None:
    """The replica had all records when it sent the request, and was then paused. The response does
    not prove that the replica was in contact later."""
    async with leader_scene() as it:
        waits = asyncio.ensure_future(it.fetch(0, 2, wait_ms=60_000))
        led = it.replica.led
        assert led is not None
        follower = led.followers[2]
        await eventually(lambda: follower.end_offset == 0)
        heard_ms = follower.fetched_ms
        await eventually(lambda: it.fellow.time.now().mono_ms > heard_ms)
        it.fellow.append(1)
        assert values_of((await waits)["records"]) == [b"v"]
        assert (follower.fetched_ms, follower.caught_up_ms) == (heard_ms, heard_ms)


async def test_fetch_from_version_15_reads_the_replica_id_from_a_tagged_field() -> None:
    async with leader_scene(records=2) as it:
        value = {
            "replica_state": {"replica_id": 2, "replica_epoch": 7},
            "max_wait_ms": 0,
            "topics": [
                {
                    "topic_id": it.controller.topic_id,
                    "partitions": [
                        {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
                    ],
                }
            ],
        }
        answer = await it.asks("Fetch", 17, value)
        found = answer["responses"][0]["partitions"][0]
        assert values_of(found["records"]) == [b"v"]
        assert it.replica.led is not None
        assert it.replica.led.followers[2].end_offset == 1


async def test_empty_incremental_fetch_updates_the_fetch_time_of_its_follower() -> None:
    async with leader_scene() as it:
        wanted = {
            "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20,
            "last_fetched_epoch": 0,
        }  # fmt: skip
        topics = [{"topic": "t", "partitions": [wanted]}]
        value = {
            "replica_id": 2, "max_wait_ms": 0, "session_id": 0, "session_epoch": 0,
            "topics": topics,
        }  # fmt: skip
        first = await it.asks("Fetch", 12, value)
        assert it.replica.led is not None
        follower = it.replica.led.followers[2]
        before_ms = follower.fetched_ms
        await eventually(lambda: it.fellow.time.now().mono_ms > before_ms)
        answer = await it.asks(
            "Fetch", 12, value | {"session_id": first["session_id"], "session_epoch": 1} | {
                "topics": []
            },
        )  # fmt: skip
        assert answer["responses"] == []
        assert follower.fetched_ms > before_ms


async def test_parked_fetch_returns_uncommitted_records_only_to_a_replica() -> None:
    async with leader_scene() as it:
        replica = asyncio.ensure_future(it.fetch(0, 2, wait_ms=20_000))
        consumer = asyncio.ensure_future(it.fetch(0, wait_ms=20_000))
        await eventually(lambda: len(it.fellow.long_polls) == 2)
        it.fellow.append()
        assert values_of((await replica)["records"]) == [b"v"]
        assert not consumer.done()
        await it.followers(1)
        assert values_of((await consumer)["records"]) == [b"v"]


async def test_parked_fetches_get_not_leader_when_leadership_is_lost() -> None:
    async with leader_scene() as it:
        parked = [asyncio.ensure_future(it.fetch(0, each, wait_ms=20_000)) for each in (2, -1)]
        await eventually(lambda: len(it.fellow.long_polls) == 2)
        await it.controller.lead(2, replicas=REPLICAS)
        for each in await asyncio.gather(*parked):
            assert each["error_code"] == NOT_LEADER_OR_FOLLOWER


@pytest.mark.proves("clusters 25")
@pytest.mark.parametrize(("version", "magic"), [(1, 0), (3, 1), (4, 2)])
async def test_replica_of_an_old_release_gets_down_converted_records(
    version: int, magic: int
) -> None:
    """An old replica would mark the partition as corrupt if it received magic 2."""
    async with leader_scene(records=2) as it:
        found = await it.fetch(0, 2, version)
        entries = list(iter_stored(found["records"], partial=True))
        assert {header.magic for header, _ in entries} == {magic}
        assert [header.last_offset for header, _ in entries] == [0, 1]


# -- ListOffsets and OffsetForLeaderEpoch


@pytest.mark.proves("clusters 7")
@pytest.mark.parametrize("version", [0, 1, 5])
async def test_list_offsets_returns_the_log_end_offset_as_latest_offset_only_to_replicas(
    version: int,
) -> None:
    async with leader_scene(records=3) as it:
        await it.fetch(2, 2)
        await it.fetch(1, 3)
        assert await it.ends(replica=2, version=version) == (NONE, 3)
        assert await it.ends(version=version) == (NONE, 1)
        assert await it.ends(-2, replica=2, version=version) == (NONE, 0)


@pytest.mark.parametrize(
    ("version", "error_code"), [(1, LEADER_NOT_AVAILABLE), (5, OFFSET_NOT_AVAILABLE)]
)
async def test_new_leader_refuses_latest_offset_until_high_watermark_is_known(
    version: int, error_code: int
) -> None:
    async with leader_scene() as it:
        await it.controller.lead(2, replicas=REPLICAS)
        it.replica.append_replicated(batch(0) + batch(1), 1, 0)
        await it.controller.lead(1, replicas=REPLICAS)
        assert await it.ends(version=version) == (error_code, -1)
        assert await it.ends(1 << 60, version=version) == (error_code, -1)
        assert await it.ends(-2, version=version) == (NONE, 0)
        assert await it.ends(0, version=version) == (NONE, 0)
        assert await it.ends(replica=2, version=version) == (NONE, 2)
        await it.followers(2)
        assert await it.ends(version=version) == (NONE, 2)


@pytest.mark.parametrize("replica", [2, -1])
async def test_offset_for_leader_epoch_returns_log_end_for_the_current_epoch(replica: int) -> None:
    async with leader_scene(records=3) as it:
        wanted = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": 0}
        value = {"replica_id": replica, "topics": [{"topic": "t", "partitions": [wanted]}]}
        answer = await it.asks("OffsetForLeaderEpoch", 3, value)
        found = answer["topics"][0]["partitions"][0]
        assert (found["error_code"], found["leader_epoch"], found["end_offset"]) == (NONE, 0, 3)


# -- Produce


async def test_produce_is_answered_when_all_in_sync_replicas_have_the_records() -> None:
    async with leader_scene() as it:
        waiting = asyncio.ensure_future(it.produce())
        await eventually(lambda: it.fellow.end_offset() == 1)
        await it.fetch(1, 2)
        assert not waiting.done()
        await it.fetch(1, 3)
        found = await waiting
        assert (found["error_code"], found["base_offset"]) == (NONE, 0)


@pytest.mark.parametrize("acks", [1, -1])
async def test_produce_with_acks_all_times_out_when_followers_do_not_fetch(acks: int) -> None:
    async with leader_scene() as it:
        found = await it.produce(acks, timeout_ms=50)
        assert found["error_code"] == (NONE if acks == 1 else REQUEST_TIMED_OUT)
        assert it.fellow.end_offset() == 1


@pytest.mark.parametrize(("acks", "error_code"), [(1, NONE), (-1, NOT_ENOUGH_REPLICAS)])
async def test_produce_with_acks_all_fails_with_too_few_replicas_in_sync(
    acks: int, error_code: int
) -> None:
    async with leader_scene(isr=(1,)) as it:
        services = it.replica._services
        object.__setattr__(services, "rules", lambda _: Rules(min_isr=2))
        assert (await it.produce(acks))["error_code"] == error_code
        assert it.fellow.end_offset() == (0 if error_code else 1)


async def test_waiting_produce_gets_not_leader_when_leadership_is_lost() -> None:
    async with leader_scene() as it:
        waiting = asyncio.ensure_future(it.produce())
        await eventually(lambda: it.fellow.end_offset() == 1)
        await it.controller.lead(2, replicas=REPLICAS)
        assert (await waiting)["error_code"] == NOT_LEADER_OR_FOLLOWER
        assert (await it.produce())["error_code"] == NOT_LEADER_OR_FOLLOWER
        assert it.fellow.end_offset() == 1


# -- other requests


def _deleted(answer: dict[str, Any]) -> int:
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


@pytest.mark.parametrize(
    ("name", "value", "code_of"),
    [
        (
            "DeleteRecords",
            {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]},
            _deleted,
        ),
    ],
)
async def test_delete_records_at_a_follower_gets_not_leader(
    name: str, value: dict[str, Any], code_of: Callable[[dict[str, Any]], int]
) -> None:
    async with leader_scene() as it:
        await it.controller.lead(2, replicas=REPLICAS)
        assert code_of(await it.asks(name, 0, value)) == NOT_LEADER_OR_FOLLOWER


async def test_debug_consumer_reads_records_below_high_watermark_at_a_follower() -> None:
    async with leader_scene() as it:
        await it.controller.lead(2, replicas=REPLICAS)
        it.replica.append_replicated(batch(0) + batch(1), 1, 0)
        found = await it.fetch(0, -2)
        assert (found["error_code"], found["high_watermark"]) == (NONE, 1)
        entries = list(iter_stored(found["records"], partial=True))
        assert [header.last_offset for header, _ in entries] == [0]
        for timestamp, offset in ((-2, 0), (-1, 1)):
            assert await it.ends(timestamp, replica=-2) == (NONE, offset)
        epoch = it.replica.leader_epoch
        assert (await it.fetch(0, -2, epoch=epoch + 1))["error_code"] == UNKNOWN_LEADER_EPOCH
        assert (await it.fetch(0))["error_code"] == NOT_LEADER_OR_FOLLOWER
        assert await it.ends() == (NOT_LEADER_OR_FOLLOWER, -1)
        await it.controller.stop(it.fellow, it.replica.leader_epoch + 1, delete=False)
        assert (await it.fetch(0, -2))["error_code"] == NOT_LEADER_OR_FOLLOWER
