"""Java clients continue while a test kills brokers of a `MusterCluster` and moves leaders."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from musterd.testing import MusterCluster
from tests import java
from tests.waiting import until

pytestmark = pytest.mark.interop

RECORDS = 1500


@pytest.fixture
def cluster() -> Iterator[MusterCluster]:
    with MusterCluster() as started:
        started.create_topic("orders")
        yield started


def test_java_producer_writes_each_record_once_while_leaders_are_killed_and_moved(
    cluster: MusterCluster,
) -> None:
    words = ["--topic", "orders", "--num-records", str(RECORDS), "--record-size", "20"]
    words += ["--throughput", "300", "--producer-props", "acks=all"]
    words += [f"bootstrap.servers={cluster.bootstrap_servers}"]
    with ThreadPoolExecutor() as threads:
        ran = threads.submit(
            java.run, java.KAFKA_NEW, "org.apache.kafka.tools.ProducerPerformance", *words
        )
        until("records arrive", lambda: bool(cluster.records("orders")), 60)
        with cluster.kill(cluster.leader("orders")):
            before = len(cluster.records("orders"))
            until("records arrive", lambda: len(cluster.records("orders")) > before, 60)
        cluster.wait_for_partition("orders").in_sync()
        cluster.move_leader("orders")
        cluster.rolling_restart()
        done = ran.result(120)

    assert f"{RECORDS} records sent" in done.stdout, done
    assert len(cluster.records("orders")) == RECORDS


def test_java_consumer_group_continues_when_its_coordinator_is_killed_and_later_moved(
    cluster: MusterCluster,
) -> None:
    produced = "".join(f"{number}\n" for number in range(300))
    words = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders"]
    java.run(java.KAFKA_NEW, "org.apache.kafka.tools.ConsoleProducer", *words, text_in=produced)
    more = ["--group", "billing", "--from-beginning", "--max-messages", "600"]
    with ThreadPoolExecutor() as threads:
        ran = threads.submit(
            java.run, java.KAFKA_NEW, "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *words, *more,
        )  # fmt: skip
        cluster.wait_for("billing", timeout_s=60).committed("orders", at_least=300)
        coordinator = cluster.coordinator("billing")
        assert coordinator is not None
        with cluster.kill(coordinator):
            java.run(
                java.KAFKA_NEW, "org.apache.kafka.tools.ConsoleProducer", *words, text_in=produced
            )
        cluster.move_coordinator("billing")
        done = ran.result(120)

    assert sorted(map(int, done.stdout.split())) == sorted([*range(300), *range(300)])
    cluster.wait_for("billing").committed("orders", at_least=600)
