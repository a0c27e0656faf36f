"""Muster writes some metrics a second time, under the names that another exporter uses. The tests
compare their names and labels with those of that exporter, which are in tests/data/metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.errors import NONE
from protocol.messages.consumer_group_heartbeat import API as CONSUMER_GROUP_HEARTBEAT
from tests.broker.seen import Scrape, documented, seeing
from tests.broker.stories import a_busy_day, one_that_is_behind

NAMES = json.loads((Path(__file__).parents[2] / "data" / "metrics" / "names.json").read_text())


def names_of(scrape: Scrape, exporter: str) -> dict[str, set[frozenset[str]]]:
    """Returns the label sets of each series of ``exporter`` that the scrape contains, by series
    name."""
    return {name: scrape.labels[name] for name in NAMES[exporter] if name in scrape.labels}


async def test_kafka_exporter_series_equal_the_recorded_names_and_labels(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await a_busy_day(seen)
        await one_that_is_behind(seen)
        scrape = await seen.scrape()
        groups = {
            (group_id, topic, partition)
            for hosted in seen.broker.groups.hosted_shards
            for group_id in hosted.core.view.offsets.groups()
            for topic, partition in hosted.core.view.offsets.keys(group_id)
        }
        logs = {(each.topic, each.index) for each in seen.broker.logs.all()}

    recorded = {name: {frozenset(labels)} for name, labels in NAMES["kafka_exporter"].items()}
    assert names_of(scrape, "kafka_exporter") == recorded
    ours = {name for name in scrape.labels if name.startswith("kafka_")}
    assert ours == set(recorded), "and none that it has not"
    assert {scrape.types[name] for name in recorded} == {"gauge"}
    for name in ("current_offset", "lag"):
        assert set(scrape.of(f"kafka_consumergroup_{name}")) == {
            frozenset({f"consumergroup={group_id}", f"topic={topic}", f"partition={partition}"})
            for group_id, topic, partition in groups
        }
    for name in ("current_offset", "oldest_offset", "leader", "replicas", "in_sync_replica"):
        assert set(scrape.of(f"kafka_topic_partition_{name}")) == {
            frozenset({f"topic={topic}", f"partition={partition}"}) for topic, partition in logs
        }


@pytest.mark.parametrize("exporter", ["kminion", "lag_exporter", "jmx"])
async def test_compatibility_view_has_every_recorded_series_name_and_label(
    tmp_path: Path, exporter: str
) -> None:
    """The setting ``metrics.compat`` names another exporter, whose series were recorded. A scrape
    then has the names and labels of these series and the names that Muster documents, and no other
    names."""
    async with seeing(tmp_path, {"metrics.compat": exporter}) as seen:
        await a_busy_day(seen)
        await one_that_is_behind(seen)
        await seen.scrape()
        await seen.broker.lags.times.settled()
        scrape = await seen.scrape()

    recorded = {name: {frozenset(labels)} for name, labels in NAMES[exporter].items()}
    assert names_of(scrape, exporter) == recorded
    ours = set(scrape.labels) - set(documented())
    assert ours == set(recorded)


async def test_metrics_of_other_exporters_have_the_values_of_musters_own_metrics(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, {"metrics.compat": "jmx,kminion,lag_exporter"}) as seen:
        await a_busy_day(seen)
        await one_that_is_behind(seen)
        await seen.scrape()
        await seen.broker.lags.times.settled()
        seen.pass_ms(2000)
        scrape = await seen.scrape()
        member_id = next(
            iter(seen.broker.groups.hosted_for("behind").core.view.groups["behind"].members)
        )
        cluster = f"cluster_name={seen.broker.registry.cluster_id}"

    behind = ("group_id=behind", "topic_name=orders")
    assert (
        scrape["kminion_kafka_consumer_group_topic_partition_lag", *behind, "partition_id=2"] == 6
    )
    assert scrape["kminion_kafka_consumer_group_topic_assigned_partitions", *behind] == 1
    assert scrape["kminion_kafka_consumer_group_empty_members", "group_id=behind"] == 0
    at = (cluster, "group=behind", "topic=orders", "partition=2")
    whose = ("member_host=/127.0.0.1", f"consumer_id={member_id}", "client_id=tester")
    assert scrape["kafka_consumergroup_group_lag", *at, *whose] == 6
    native = ("consumergroup=behind", "topic=orders", "partition=2")
    seconds = scrape["muster_consumergroup_lag_seconds", *native]
    assert scrape["kafka_consumergroup_group_lag_seconds", *at, *whose] == seconds
    nobody = ("member_host=", "consumer_id=", "client_id=")
    above = ("group_id=auditors", "topic_name=orders", "partition_id=1")
    assert scrape["kminion_kafka_consumer_group_topic_partition_lag", *above] == 0, "as KMinion"
    lags = scrape.of("kafka_consumergroup_group_lag")
    assert min(lags.values()) == 0, "as kafka-lag-exporter"
    native = ("consumergroup=auditors", "topic=orders", "partition=1")
    assert scrape["kafka_consumergroup_lag", *native] == -2, "as kafka_exporter"
    first = (cluster, "group=behind", "topic=orders", "partition=0")
    assert scrape["kafka_consumergroup_group_offset", *first, *nobody] == 3
    assert scrape["kafka_coordinator_group_groupmetadatamanager_numgroupsstable"] == 2
    assert scrape["kafka_server_brokertopicmetrics_messagesin_total", "topic=orders"] == 14
    beats = "kafka_network_requestmetrics_totaltimems_count", "request=Heartbeat"
    assert scrape[beats] == 1


async def test_metrics_with_jmx_exporter_names_count_only_classic_groups(tmp_path: Path) -> None:
    async with seeing(tmp_path, {"metrics.compat": "jmx"}) as seen:
        await seen.client.join_alone("behind")
        joined = await seen.client.call(
            CONSUMER_GROUP_HEARTBEAT.key,
            1,
            group_id="modern",
            member_id="member",
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert joined["error_code"] == NONE
        scrape = await seen.scrape()

    manager = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert (scrape[manager], scrape[f"{manager}stable"]) == (1, 1)
    assert sum(scrape.of("muster_groups").values()) == 2
