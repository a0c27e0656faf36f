"""Tests the metrics of brokers in a cluster: replicas, other brokers and the controller."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.metrics.exposition import render
from tests.broker.cluster.members import Members, members
from tests.broker.seen import Scrape, documented
from tests.broker.serving import asked
from tests.wire import batch

NAMES = json.loads((Path(__file__).parents[2] / "data" / "metrics" / "names.json").read_text())
TOPIC = "orders"
PARTITIONS = 6


async def scraped(broker: Broker) -> Scrape:
    return Scrape(b"".join([each async for each in render(broker.sources)]).decode())


async def until(cluster: Members, what: str, holds: Callable[[list[Scrape]], bool]) -> list[Scrape]:
    """Waits until ``holds`` returns true for the scrapes of all brokers. Returns the scrapes."""
    deadline = time.monotonic() + 30
    while True:
        scrapes = [await scraped(each) for each in cluster.brokers.values()]
        if holds(scrapes):
            return scrapes
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        await asyncio.sleep(0.02)


def total(scrapes: list[Scrape], *key: str) -> float:
    """Returns the sum of a series over the brokers."""
    values = [scrape[key] for scrape in scrapes]
    assert None not in values, f"somebody has no {key}"
    return sum(value for value in values if value is not None)


async def produce(cluster: Members, partition: int) -> None:
    data = {"index": partition, "records": batch(b"a", b"b")}
    topics = [{"name": TOPIC, "partition_data": [data]}]
    value = {"acks": -1, "timeout_ms": 15_000, "topic_data": topics}
    leader = await cluster.leader(TOPIC, partition)
    answer = await asked(leader, lambda wire: wire.call("Produce", 9, value))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer


@pytest.mark.campaign
async def test_replica_metrics_change_when_a_broker_stops_and_returns(tmp_path: Path) -> None:
    async with members(tmp_path, {"min.insync.replicas": "2"}) as cluster:
        await cluster.create(TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            await produce(cluster, partition)

        def is_whole(scrapes: list[Scrape]) -> bool:
            return (
                total(scrapes, "muster_partitions", "role=leader") == PARTITIONS
                and total(scrapes, "muster_partitions", "role=follower") == 2 * PARTITIONS
                and total(scrapes, "muster_partitions_under_replicated") == 0
                and total(scrapes, "muster_controller_partitions") == PARTITIONS
                and total(scrapes, "muster_high_watermark_waiting_records") == 0
            )

        scrapes = await until(cluster, "all is replicated", is_whole)
        assert total(scrapes, "muster_controller_active") == 1
        assert total(scrapes, "muster_controller_brokers") == 3
        assert total(scrapes, "muster_controller_topics") == 1
        assert total(scrapes, "muster_controller_partitions_offline") == 0
        assert total(scrapes, "muster_controller_partitions_imbalanced") == 0
        assert total(scrapes, "muster_zookeeper_session", "state=connected") == 3
        assert total(scrapes, "muster_broker_registered") == 3
        given = total(scrapes, "muster_replication_bytes_total", "direction=out")
        assert given == total(scrapes, "muster_replication_bytes_total", "direction=in") > 0
        assert total(scrapes, "muster_replica_fetchers", "state=fetching") == 6

        first = cluster.brokers[1].cluster.controller_id
        leaving = next(each for each in cluster.brokers if each != first)
        await cluster.stop(leaving)

        def is_short(scrapes: list[Scrape]) -> bool:
            return total(scrapes, "muster_replicas_out_of_sync", "reason=dead") == PARTITIONS

        scrapes = await until(cluster, "a replica of each is missing", is_short)
        assert total(scrapes, "muster_partitions_under_replicated") == PARTITIONS
        assert total(scrapes, "muster_partitions_at_min_isr") == PARTITIONS
        assert total(scrapes, "muster_partitions_under_min_isr") == 0
        assert total(scrapes, "muster_controller_partitions_imbalanced") == PARTITIONS / 3
        changes = total(scrapes, "muster_controller_leader_changes_total", "cause=shutdown")
        assert changes == PARTITIONS / 3

        await cluster.start(leaving)
        scrapes = await until(cluster, "it is in sync again", is_whole)
        assert total(scrapes, "muster_isr_changes_total", "change=expand") == PARTITIONS


async def test_metrics_page_documents_every_series_with_its_labels(tmp_path: Path) -> None:
    async with members(tmp_path) as cluster:
        await cluster.create(TOPIC, 3)
        scrapes = [await scraped(each) for each in cluster.brokers.values()]
    pages = documented(in_cluster=True)
    for scrape in scrapes:
        for name, labels in scrape.labels.items():
            if name.startswith("muster_"):
                kind, wanted, meaning = pages[name]
                assert labels == {wanted}, name
                assert scrape.types[name] == kind, name
                assert meaning, name
    shown = set().union(*[scrape.labels for scrape in scrapes])
    assert pages.keys() - documented().keys() <= shown, "each has a series"


async def test_jmx_view_of_a_cluster_has_the_metric_names_of_kafka(tmp_path: Path) -> None:
    settings = {"metrics.compat": "jmx", "min.insync.replicas": "2"}
    async with members(tmp_path, settings) as cluster:
        await cluster.create(TOPIC, 3)
        await produce(cluster, 0)

        def is_replicated(scrapes: list[Scrape]) -> bool:
            return total(scrapes, "kafka_server_replicamanager_partitioncount") == 9

        scrapes = await until(cluster, "each has a replica of each", is_replicated)
        one = next(iter(cluster.brokers.values()))
        assert len((await scraped(one)).of("kafka_server_fetcherlagmetrics_consumerlag")) == 2

    recorded = {**NAMES["jmx"], **NAMES["jmx_in_a_cluster"]}
    there = {name: labels for scrape in scrapes for name, labels in scrape.labels.items()}
    new = {name for name in recorded if not name.startswith("kafka_coordinator_group_")}
    assert {name: {frozenset(recorded[name])} for name in new} == {
        name: there[name] for name in new
    }
    manager, controller = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
    assert total(scrapes, f"{manager}leadercount") == 3
    assert total(scrapes, f"{manager}atminisrpartitioncount") == 0
    assert total(scrapes, f"{controller}activecontrollercount") == 1
    assert total(scrapes, f"{controller}globalpartitioncount") == 3
    assert total(scrapes, f"{controller}activebrokercount") == 3
    in_sync: dict[frozenset[str], float] = {}
    for scrape in scrapes:
        in_sync |= scrape.of("kafka_cluster_partition_insyncreplicascount")
    assert sorted(in_sync.values()) == [3, 3, 3]


async def test_zookeeper_session_metrics_change_when_the_session_is_suspended(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as cluster:
        broker = cluster.brokers[2]
        member = broker.mode.member
        assert member is not None
        zookeeper: Any = member.joined.zookeeper
        zookeeper.suspend()
        await asyncio.sleep(0.01)
        scrape = await scraped(broker)
        assert scrape["muster_zookeeper_session", "state=connected"] == 0
        assert scrape["muster_zookeeper_session", "state=suspended"] == 1
        lost_s = scrape["muster_zookeeper_disconnected_seconds"]
        assert lost_s is not None
        assert lost_s > 0
        zookeeper.resume()
        await until(
            cluster,
            "it is connected again",
            lambda scrapes: total(scrapes, "muster_zookeeper_session", "state=connected") == 3,
        )
        scrape = await scraped(broker)
        assert scrape["muster_zookeeper_session_changes_total", "state=suspended"] == 1
        assert scrape["muster_zookeeper_disconnected_seconds"] == 0
