"""Tests coordinators on a cluster of three brokers: groups and transactions move with the
leadership of their partition."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.apis.in_cluster import offset_fetch as offset_fetch_in_cluster
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC
from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
)
from protocol.znodes import brokers
from tests.broker.cluster.members import GROUP, TRANSACTION, Members, members
from tests.broker.serving import asked, eventually
from tests.broker.transactional import TransactionalProducer
from tests.wire import Wire

TOPIC = "orders"
RETRIED = (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    CONCURRENT_TRANSACTIONS,
)
TRANSACTIONAL_IDS = ("t1", "t2", "t3", "t4")


class Client:
    """A transactional producer that finds coordinators and leaders in a cluster."""

    def __init__(self, cluster: Members, transactional_id: str, rules: int) -> None:
        self.cluster = cluster
        wire: Any = None
        self.who = TransactionalProducer(wire, transactional_id, rules)

    async def at_coordinator(self, work: Callable[[TransactionalProducer], int]) -> int:
        def run(wire: Wire) -> int:
            self.who = dataclasses.replace(self.who, wire=wire)
            return work(self.who)

        code: int = await self.cluster.at_coordinator(
            self.who.transactional_id, TRANSACTION, run, *RETRIED
        )
        return code

    async def produce(self, partition: int, value: bytes) -> int:
        code = NOT_LEADER_OR_FOLLOWER
        while code in (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS):
            leader = await self.cluster.leader(TOPIC, partition)

            def run(wire: Wire) -> int:
                self.who = dataclasses.replace(self.who, wire=wire)
                answer = self.who.produce(TOPIC, value, partition=partition)
                return int(answer["error_code"])

            code = await asked(leader, run)
        return code

    async def commit_offset(self, group_id: str, offset: int) -> int:
        def run(wire: Wire) -> int:
            who = dataclasses.replace(self.who, wire=wire)
            [code] = who.commit_offsets(group_id, {(TOPIC, 0): offset})
            return code

        code: int = await self.cluster.at_coordinator(group_id, GROUP, run, *RETRIED)
        return code


def _fetch(group_id: str) -> Callable[[Wire], int]:
    """Returns a function that fetches the committed offset of partition 0. If the error code is N,
    the function returns -1000 - N."""
    value = {
        "groups": [{"group_id": group_id, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}],
        "require_stable": False,
    }

    def run(wire: Wire) -> int:
        [group] = wire.call("OffsetFetch", 8, value)["groups"]
        if group["error_code"]:
            return -1000 - int(group["error_code"])
        return int(group["topics"][0]["partitions"][0]["committed_offset"])

    return run


async def _committed(cluster: Members, group_id: str) -> int:
    """Returns the committed offset of partition 0 according to the coordinator of the group."""
    offset: int = await cluster.at_coordinator(
        group_id, GROUP, _fetch(group_id), *[-1000 - code for code in RETRIED]
    )
    return offset


async def _commit(cluster: Members, group_id: str, offset: int) -> int:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    value = {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }

    def run(wire: Wire) -> int:
        answer = wire.call("OffsetCommit", 8, value)
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    code: int = await cluster.at_coordinator(group_id, GROUP, run, *RETRIED)
    return code


async def test_committed_offsets_survive_each_move_of_the_coordinator(tmp_path: Path) -> None:
    groups = [f"g{number}" for number in range(8)]
    async with members(tmp_path) as cluster:
        await cluster.create(TOPIC, 1)
        for number, group_id in enumerate(groups):
            assert await _commit(cluster, group_id, number) == NONE
        for node_id in (1, 2):
            await cluster.stop(node_id)
            await cluster.settled()
            for number, group_id in enumerate(groups):
                assert await _committed(cluster, group_id) == number
            await cluster.start(node_id)
            await cluster.settled()
            for number, group_id in enumerate(groups):
                assert await _commit(cluster, group_id, number) == NONE


async def test_coordinator_with_an_expired_broker_session_returns_no_outdated_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch_in_cluster, "SURE_WITHIN_S", 60.0)
    async with members(tmp_path) as cluster:
        await cluster.create(TOPIC, 1)
        assert await _commit(cluster, "g", 1) == NONE
        old = await cluster.coordinator("g", GROUP)
        node_id = next(key for key, each in cluster.brokers.items() if each is old)
        session = cluster.ensemble.nodes[brokers.path(node_id)].owner
        zookeeper = cluster.ensemble.sessions[session]
        zookeeper.suspend()
        cluster.ensemble.end_session(session)
        # The removal keeps the other brokers from sending requests to this broker.
        del cluster.brokers[node_id]
        assert await _commit(cluster, "g", 2) == NONE
        old.time.left_out_ms += 60_000
        answer = asyncio.ensure_future(asked(old, _fetch("g")))
        for _ in range(2):  # Between the two requests, another broker responds.
            assert await _committed(cluster, "g") == 2
        assert not answer.done()
        zookeeper.resume()
        assert await answer in (2, -1000 - NOT_COORDINATOR, -1000 - COORDINATOR_LOAD_IN_PROGRESS)
        cluster.brokers[node_id] = old
        await cluster.settled()
        assert await _committed(cluster, "g") == 2


@pytest.mark.parametrize("commit", [True, False])
async def test_transaction_over_several_brokers_ends_on_every_partition(
    tmp_path: Path, commit: bool
) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create(TOPIC, 3)
        for number, transactional_id in enumerate(TRANSACTIONAL_IDS):
            client = Client(cluster, transactional_id, 1)
            assert await client.at_coordinator(lambda who: who.init()) == NONE
            added = {TOPIC: [0, 1, 2]}
            assert await client.at_coordinator(lambda who: who.add(added)) == NONE  # noqa: B023
            group_id = f"of-{transactional_id}"
            assert await client.at_coordinator(lambda who: who.add_offsets(group_id)) == NONE  # noqa: B023
            for partition in range(3):
                assert await client.produce(partition, b"v") == NONE
            assert await client.commit_offset(group_id, number) == NONE
            assert await client.at_coordinator(lambda who: who.end(commit)) == NONE
            await eventually(
                "all is marked",
                lambda: not any(each.markers.sendings for each in cluster.brokers.values()),
            )
            assert await _committed(cluster, group_id) == (number if commit else -1)
        for partition in range(3):
            leader = await cluster.leader(TOPIC, partition)
            led = leader.logs.get(TOPIC, partition)
            assert led is not None
            assert led.last_stable_offset == led.high_watermark == 2 * len(TRANSACTIONAL_IDS)
        for each in cluster.brokers.values():
            assert not any(each.internal_errors.counts.values())


async def test_next_coordinator_ends_a_transaction_of_the_previous_coordinator(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create(TOPIC, 3)
        client = Client(cluster, "t", 1)
        assert await client.at_coordinator(lambda who: who.init()) == NONE
        assert await client.at_coordinator(lambda who: who.add({TOPIC: [0, 1, 2]})) == NONE
        for partition in range(3):
            assert await client.produce(partition, b"v") == NONE
        before = await cluster.coordinator("t", TRANSACTION)
        await cluster.stop(before.registry.node_id)
        await cluster.settled()
        assert await client.at_coordinator(lambda who: who.end(commit=True)) == NONE
        for partition in range(3):
            leader = await cluster.leader(TOPIC, partition)
            led = leader.logs.get(TOPIC, partition)
            assert led is not None
            await eventually("it is marked", lambda: led.last_stable_offset == 2)  # noqa: B023


async def test_partial_metadata_of_a_coordinator_topic_does_not_change_coordinators(
    tmp_path: Path,
) -> None:
    """The controller sends the metadata of some partitions of a new topic later than the metadata
    of its other partitions."""
    async with members(tmp_path) as cluster:
        broker = cluster.brokers[1]
        for key_type, topic in ((GROUP, OFFSETS_TOPIC), (TRANSACTION, TRANSACTION_TOPIC)):
            keys = [f"key {number}" for number in range(10)]
            for key in keys:
                await cluster.coordinator(key, key_type)
            value = {"key_type": key_type, "coordinator_keys": keys}

            def found(wire: Wire, value: Any = value) -> list[tuple[int, int]]:
                answers = wire.call("FindCoordinator", 4, value)["coordinators"]
                return [(each["error_code"], each["node_id"]) for each in answers]

            whole = await asked(broker, found)
            known = broker.registry.topics[topic]
            assert isinstance(broker.registry, ClusterRegistry)
            broker.registry._show(known.with_partitions(1), known)
            assert await asked(broker, found) == whole
            broker.registry._show(known, known)
