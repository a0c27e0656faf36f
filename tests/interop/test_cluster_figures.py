"""The metrics of a real cluster agree with the lag and with the replicas that clients see."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from tests import waiting
from tests.broker.seen import Scrape
from tests.commits import commit
from tests.interop.zookeeper_cluster import MUSTER, ROOT, ZooKeeperCluster, running

pytestmark = pytest.mark.interop

TOPIC, TEAM = "orders", "team"
REPLICAS = [[1, 2], [2, 3], [3, 1], [2, 1], [3, 2]]
"""The replicas of each partition. Each broker leads some partitions, follows some, and has no
replica of others."""
ENDS = [10, 20, 30, 40, 50]
COMMITTED = [10, 5, 7, 40, 1]
ALL = {1, 2, 3}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    folder = tmp_path_factory.mktemp("figures")
    settings = {"min.insync.replicas": "1", "metrics.compat": "jmx"}
    with running(folder, dict.fromkeys(ALL, MUSTER), settings) as started:
        admin = started.admin()
        made = admin.create_topics(
            [NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS)], operation_timeout=30
        )
        made[TOPIC].result(60)
        started.until_whole(TOPIC, 2)
        producer = Producer({"bootstrap.servers": started.bootstrap})
        for partition, count in enumerate(ENDS):
            for _ in range(count):
                producer.produce(TOPIC, b"v", partition=partition)
        assert producer.flush(60) == 0
        yield started


def scrapes(cluster: ZooKeeperCluster) -> list[Scrape]:
    found = []
    for broker in cluster.processes:
        answer = httpx.get(f"http://{cluster.http[broker]}/metrics", timeout=20)
        assert answer.status_code == 200, answer.text
        found.append(Scrape(answer.text))
    return found


def total(cluster: ZooKeeperCluster, *key: str) -> float:
    values = [scrape[key] for scrape in scrapes(cluster)]
    assert None not in values, f"somebody has no {key}"
    return sum(value for value in values if value is not None)


def test_lag_metric_equals_the_output_of_groups_lag(cluster: ZooKeeperCluster) -> None:
    """`groups lag` sends requests to each leader. The metric comes from the coordinator, which has
    no replica of some partitions."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": TEAM})
    commit(consumer, {(TOPIC, index): offset for index, offset in enumerate(COMMITTED)})
    consumer.close()
    command = [sys.executable, "-m", "cli.main", "groups", "lag", TEAM, "--json"]
    done = subprocess.run(
        [*command, "--bootstrap", cluster.bootstrap],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asked = {each["partition"]: each["lag"] for each in json.loads(done.stdout)}
    wanted = [end - offset for end, offset in zip(ENDS, COMMITTED, strict=True)]
    assert asked == dict(enumerate(wanted))

    def told() -> bool:
        found: dict[int, float] = {}
        for scrape in scrapes(cluster):
            for labels, lag in scrape.of("kafka_consumergroup_lag").items():
                pairs = dict(each.split("=", 1) for each in labels)
                if pairs["consumergroup"] == TEAM:
                    found[int(pairs["partition"])] = lag
        return found == asked

    waiting.until("the coordinator tells the same lag", told, 60)


def test_metrics_are_updated_when_a_broker_is_killed_and_restarted(
    cluster: ZooKeeperCluster,
) -> None:
    """The test compares the metrics with the Metadata response that clients receive."""
    waiting.until("all lead", lambda: total(cluster, "muster_controller_active") == 1, 60)
    cluster.kill(3)
    cluster.until_led(TOPIC, without=3)
    short = [index for index, replicas in enumerate(REPLICAS) if 3 in replicas]

    def out_of_sync() -> bool:
        seen = cluster.partitions(TOPIC)
        return sorted(index for index, (_, isr) in seen.items() if len(isr) < 2) == short

    waiting.until("its replicas are out of sync, and no others", out_of_sync)

    def agrees() -> bool:
        own = 0.0
        for scrape in scrapes(cluster):
            for labels, value in scrape.of("kafka_cluster_partition_underreplicated").items():
                own += value if f"topic={TOPIC}" in labels else 0
        return own == len(short)

    waiting.until("as many are under-replicated as clients are told", agrees, 60)
    kafkas, ours = "kafka_server_replicamanager_", "muster_partitions_"
    everywhere = total(cluster, f"{kafkas}underreplicatedpartitions")
    assert everywhere == total(cluster, f"{ours}under_replicated") >= len(short)
    assert total(cluster, "muster_replicas_out_of_sync", "reason=dead") == everywhere
    assert total(cluster, "muster_controller_active") == 1
    assert total(cluster, "muster_controller_brokers") == 2
    assert total(cluster, "muster_controller_partitions_offline") == 0
    assert total(cluster, "muster_controller_leader_changes_total", "cause=lost") >= 2

    cluster.start(3)
    cluster.until_brokers(ALL)
    cluster.until_whole(TOPIC, 2)
    waiting.until(
        "nothing is under-replicated",
        lambda: total(cluster, f"{ours}under_replicated") == 0,
        60,
    )
    assert total(cluster, "muster_isr_changes_total", "change=expand") >= len(short)
    waiting.until(
        "the preferred replicas lead again",
        lambda: total(cluster, "muster_controller_partitions_imbalanced") == 0,
        90,
    )
    assert total(cluster, "muster_zookeeper_session", "state=connected") == 3
