"""Kafka Streams 4.3.1 with ``group.protocol=streams`` (KIP-1071) in a cluster on a real ZooKeeper,
when brokers and instances are killed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsets.partitioner import partition_for
from tests.interop.test_consumer_groups_in_clusters import features
from tests.interop.test_streams_groups import GROUPS, tool
from tests.interop.word_count import PARTITIONS, WordCount
from tests.interop.zookeeper_cluster import MUSTER, SETTINGS, ZooKeeperCluster, running

pytestmark = pytest.mark.interop
LEVEL = "streams.version=1"
REPLICAS = 3
STREAMS = {each: value for each, value in GROUPS.items() if each not in SETTINGS}
"""The settings in `GROUPS` that are not in `SETTINGS`."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    with running(tmp_path, {1: MUSTER, 2: MUSTER, 3: MUSTER}, STREAMS) as cluster:
        yield cluster


@pytest.fixture
def word_count(cluster: ZooKeeperCluster, tmp_path: Path) -> Iterator[WordCount]:
    application = WordCount(cluster.bootstrap, "counts", tmp_path)
    for topic in (application.lines, application.counts):
        cluster.create(topic, PARTITIONS, REPLICAS)
    try:
        yield application
    finally:
        application.kill()


def coordinator(cluster: ZooKeeperCluster, group_id: str) -> int:
    state = cluster.state("__consumer_offsets", partition_for(group_id, 4))
    return int(state["leader"])


@pytest.mark.timeout(600)
@pytest.mark.proves("streams 10")
def test_streams_word_counts_are_exact_when_brokers_of_a_cluster_are_killed(
    cluster: ZooKeeperCluster, word_count: WordCount
) -> None:
    refused = word_count.start("refused")
    refused.until_says("FAILED .*does not support the STREAMS group protocol")
    refused.kill()
    assert "was upgraded to 1" in features(cluster, "upgrade", "--feature", LEVEL)
    word_count.running("first", "second")
    for name in ("words-repartition", "counts-changelog"):
        replicas = cluster.assignment(f"{word_count.name}-{name}")
        assert [len(replicas[each]) for each in range(PARTITIONS)] == [REPLICAS] * PARTITIONS
    word_count.send(150)
    for role in (
        lambda: coordinator(cluster, word_count.name),
        lambda: int(cluster.state(word_count.lines, 0)["leader"]),
        cluster.controller,
    ):
        killed = role()
        word_count.send(150)
        cluster.kill(killed)
        cluster.until_gone(killed)
        word_count.send(150)
        cluster.start(killed)
        cluster.until_settled()
    word_count.start("third").until_says("STATE REBALANCING")
    killed = coordinator(cluster, word_count.name)
    cluster.kill(killed)
    word_count.send(150)
    word_count.instances["second"].kill()
    word_count.instances["third"].until_says("STATE RUNNING")
    cluster.start(killed)
    cluster.until_settled()
    word_count.send(150)
    word_count.until_counted(240)
    state = tool(word_count, "--describe", "--group", word_count.name, "--state", "--verbose")
    assert re.search(rf"{word_count.name} .*Stable +\d+ +\d+ +2$", state, re.MULTILINE), state
    for name in ("first", "third"):
        assert word_count.instances[name].stop() == 143
