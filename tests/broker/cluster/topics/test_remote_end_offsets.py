"""Tests the lag of groups in partitions whose leader is another broker than the group's
coordinator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.cluster.topics import remote_end_offsets
from broker.metrics.exposition import render
from broker.metrics.lag import PartitionLag
from broker.metrics.lso_blockers import LsoBlocker
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from tests.broker.cluster.members import GROUP, TRANSACTION, Members, members
from tests.broker.seen import Scrape
from tests.broker.serving import asked, eventually
from tests.broker.transactional import TransactionalProducer
from tests.wire import Wire, batch

TOPIC, TEAM = "orders", "team"
REPLICAS: Mapping[int, Sequence[int]] = {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [2, 1], 4: [3, 2]}
"""The replicas of each partition. The group coordinator leads some partitions, follows some
partitions, and has no replica of the other partitions."""
RETRIED = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)


async def _create(cluster: Members) -> None:
    controller = cluster.brokers[cluster.brokers[1].cluster.controller_id]
    made = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": index, "broker_ids": list(replicas)}
            for index, replicas in REPLICAS.items()
        ],
        "configs": [],
    }
    value = {"topics": [made], "timeout_ms": 15_000, "validate_only": False}
    answer = await asked(controller, lambda wire: wire.call("CreateTopics", 5, value))
    assert [each["error_code"] for each in answer["topics"]] == [NONE], answer


async def _produce(cluster: Members, partition: int, count: int) -> None:
    data = {"index": partition, "records": batch(*[b"v"] * count)}
    topics = [{"name": TOPIC, "partition_data": [data]}]
    value = {"acks": -1, "timeout_ms": 15_000, "topic_data": topics}
    leader = await cluster.leader(TOPIC, partition)
    answer = await asked(leader, lambda wire: wire.call("Produce", 9, value))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == NONE, answer


async def _commit(cluster: Members, offsets: Mapping[int, int]) -> Broker:
    """Commits offsets on the coordinator. Returns the coordinator."""
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for index, offset in offsets.items()
    ]
    value = {
        "group_id": TEAM,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": TOPIC, "partitions": partitions}],
    }

    def run(wire: Wire) -> int:
        answer = wire.call("OffsetCommit", 8, value)
        codes = {each["error_code"] for each in answer["topics"][0]["partitions"]}
        return int(max(codes))

    assert await cluster.at_coordinator(TEAM, GROUP, run, *RETRIED) == NONE
    return await cluster.coordinator(TEAM, GROUP)


def _lags(broker: Broker) -> dict[int, PartitionLag]:
    hosted = broker.groups.hosted_for(TEAM)
    assert hosted is not None
    return {each.partition: each for each in broker.lags.of_group(hosted, TEAM)}


async def _scrape(broker: Broker) -> Scrape:
    return Scrape(b"".join([each async for each in render(broker.sources)]).decode())


@pytest.mark.campaign
async def test_coordinator_returns_lag_of_partitions_without_a_local_replica(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as cluster:
        await _create(cluster)
        for partition in REPLICAS:
            await _produce(cluster, partition, 10 + partition)
        coordinator = await _commit(cluster, {0: 4, 1: 5, 2: 6, 3: 7, 4: 14})
        assert any(coordinator.registry.node_id not in each for each in REPLICAS.values())

        wanted = {0: 6, 1: 6, 2: 6, 3: 6, 4: 0}
        await eventually(
            "all lags are known",
            lambda: {index: each.records for index, each in _lags(coordinator).items()} == wanted,
        )
        for index, each in _lags(coordinator).items():
            assert (each.log_start_offset, each.log_end_offset) == (0, 10 + index)
        hosted = coordinator.groups.hosted_for(TEAM)
        assert hosted is not None
        assert coordinator.lags.in_topic(hosted, TEAM, TOPIC) == (5, 24)
        group = hosted.core.view.groups[TEAM]
        assert coordinator.lags.records_of(hosted, group) == 24

        shown: dict[frozenset[str], list[float]] = {}
        lag: dict[frozenset[str], float] = {}
        for broker in cluster.brokers.values():
            scrape = await _scrape(broker)
            lag |= scrape.of("kafka_consumergroup_lag")
            for labels, end in scrape.of("kafka_topic_partition_current_offset").items():
                if f"topic={TOPIC}" in labels:
                    shown.setdefault(labels, []).append(end)
            assert scrape["kafka_brokers"] == 3
        assert {labels - {f"topic={TOPIC}"}: ends for labels, ends in shown.items()} == {
            frozenset({f"partition={index}"}): [10 + index] for index in REPLICAS
        }, "each once, by its leader"
        group_labels = {f"consumergroup={TEAM}", f"topic={TOPIC}"}
        assert {labels - group_labels: records for labels, records in lag.items()} == {
            frozenset({f"partition={index}"}): records for index, records in wanted.items()
        }


@pytest.mark.campaign
async def test_lag_is_0_when_the_commit_is_above_the_known_log_end_offset(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(remote_end_offsets, "EVERY_MS", 100)
    monkeypatch.setattr(remote_end_offsets, "LOOK_S", 0.05)
    async with members(tmp_path) as cluster:
        await _create(cluster)
        for partition in REPLICAS:
            await _produce(cluster, partition, 10)
        coordinator = await _commit(cluster, dict.fromkeys(REPLICAS, 10))
        await eventually(
            "all is read", lambda: {each.records for each in _lags(coordinator).values()} == {0}
        )
        await _commit(cluster, dict.fromkeys(REPLICAS, 15))
        seen = [each.lag for each in _lags(coordinator).values()]
        leads = coordinator.registry.node_id
        for index, replicas in REPLICAS.items():
            if replicas[0] != leads:
                assert seen[index] == 0, "it may have been read from records that are news here"
        await eventually(
            "the leaders say that nothing is there",
            lambda: {each.lag for each in _lags(coordinator).values()} == {-5},
        )


async def test_transaction_of_another_coordinator_is_not_reported_as_hanging(
    tmp_path: Path,
) -> None:
    """Each replica of the partition sees that the transaction is open. Only the coordinator of the
    transaction knows its transactional id, and whether it hangs."""
    async with members(tmp_path) as cluster:
        await cluster.create(TOPIC, 1)
        wire: Any = None
        who = TransactionalProducer(wire, "t", 1)

        def begin(at: Wire) -> int:
            nonlocal who
            who = dataclasses.replace(who, wire=at)
            return who.init() or who.add({TOPIC: [0]})

        assert await cluster.at_coordinator("t", TRANSACTION, begin, *RETRIED) == NONE

        def produce(at: Wire) -> int:
            return int(dataclasses.replace(who, wire=at).produce(TOPIC, b"v")["error_code"])

        assert await asked(await cluster.leader(TOPIC, 0), produce) == NONE
        coordinator = await cluster.coordinator("t", TRANSACTION)

        def held(broker: Broker) -> LsoBlocker | None:
            for _ in broker.lso_blockers.refresh():
                pass
            partition = broker.logs.get(TOPIC, 0)
            return None if partition is None else broker.lso_blockers.of(partition)

        for broker in cluster.brokers.values():
            await eventually("it is replicated", lambda: held(broker) is not None)  # noqa: B023
            blocker = held(broker)
            assert blocker is not None
            knows = broker is coordinator
            assert blocker.transactional_id == ("t" if knows else None)
            assert (blocker.hangs, blocker.is_elsewhere) == (False, not knows)
