"""A cluster of Apache Kafka is replaced by Muster under load, one broker at a time, and then by
Kafka again.

A broker is replaced in place, with the same data directory, or by a broker with a new id, to which
partitions are reassigned. docs/use/moving.md has the same steps for operators.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import java
from tests.cli.running import run
from tests.interop.steady_clients import ORDERS, PARTITIONS, PAYMENTS, steady_clients
from tests.interop.test_dump_log_segments import dump
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running
from tests.waiting import until

pytestmark = [pytest.mark.interop, pytest.mark.proves("clusters 32")]

BROKERS = (1, 2, 3)
TOPICS = (ORDERS, PAYMENTS, "__consumer_offsets", "__transaction_state")
KAFKA_RELEASE = java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS
MOVING = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SETTINGS = {"controlled.shutdown.retry.backoff.ms": "500"}
"""The pause in ms before a broker repeats a controlled shutdown that did not succeed. The
controlled shutdown of the last broker never succeeds, because no other broker can lead its
partitions."""
LOADING = ("[main]", "[log-recovery-")
"""The names of the threads in which Kafka loads logs at its start."""
FILES = ("*.log", "*.index", "*.timeindex", "*.snapshot", "*.txnindex")


@pytest.mark.timeout(900)
def test_cluster_migrates_in_place_to_muster_and_back_to_kafka(tmp_path: Path) -> None:
    moved_in_place(tmp_path, 1, killed=False)


@pytest.mark.soak
def test_muster_or_kafka_replaces_each_killed_broker_on_the_same_data_directory(
    tmp_path: Path,
) -> None:
    moved_in_place(tmp_path, 2, killed=True)


@pytest.mark.soak
def test_cluster_migrates_to_brokers_with_new_ids_and_back(tmp_path: Path) -> None:
    with running(tmp_path / "c", dict.fromkeys(BROKERS, KAFKA), SETTINGS) as cluster:
        begin(cluster)
        with steady_clients(cluster.bootstrap) as clients:
            for kind, first in ((MUSTER, 4), (KAFKA, 7)):
                for broker in range(first, first + 3):
                    cluster.add(broker, kind)
                    cluster.until_brokers(set(cluster.kinds))
                    reassign(cluster, set(cluster.kinds) - {broker - 3}, tmp_path / "plan.json")
                    cluster.remove(broker - 3)
                    until("nothing is wrong", lambda: nothing_wrong(cluster), 90)
                    clients.until_served()
            clients.stop(cluster.bootstrap)
        end(cluster)


def moved_in_place(folder: Path, rounds: int, *, killed: bool) -> None:
    """Replaces each broker by Muster and then by Kafka again, one broker at a time. Repeats this
    ``rounds`` times."""
    with running(folder / "c", dict.fromkeys(BROKERS, KAFKA), SETTINGS) as cluster:
        begin(cluster)
        with steady_clients(cluster.bootstrap) as clients:
            for kind in (MUSTER, KAFKA) * rounds:
                for broker in BROKERS:
                    (kill if killed else stop)(cluster, broker, kind)
                    printed = cluster.log(broker).stat().st_size
                    cluster.kinds[broker] = kind
                    cluster.start(broker)
                    cluster.until_brokers(set(BROKERS))
                    until("nothing is wrong", lambda: nothing_wrong(cluster), 90)
                    clients.until_served()
                    if not killed:
                        started_without_complaint(cluster, broker, printed)
            clients.stop(cluster.bootstrap)
        end(cluster)


def stop(cluster: ZooKeeperCluster, broker: int, then: str) -> None:
    """Stops a broker cleanly. ``then`` is the kind of broker that starts next. If it is KAFKA and
    ``broker`` is the first broker, also checks that Kafka's tool can read the data directory."""
    cluster.stop(broker)
    if then == KAFKA and broker == BROKERS[0]:
        kafka_reads(cluster.directory(broker))


def kill(cluster: ZooKeeperCluster, broker: int, then: str) -> None:
    """Kills a broker. If the broker will be restarted as Kafka (``then``), waits until its
    ZooKeeper session has expired, because Kafka would exit with NodeExistsException."""
    cluster.kill(broker)
    if then == KAFKA:
        cluster.until_brokers(set(BROKERS) - {broker})


def begin(cluster: ZooKeeperCluster) -> None:
    """Creates the topics that the clients use."""
    for topic in (ORDERS, PAYMENTS):
        cluster.create(topic, PARTITIONS, 3)


def end(cluster: ZooKeeperCluster) -> None:
    """Stops all brokers. Checks that all replicas have the same bytes, also those of internal
    topics."""
    for broker in list(cluster.processes):
        cluster.stop(broker)
    names = {each.name for broker in cluster.kinds for each in partitions(cluster, broker)}
    assert {name.rpartition("-")[0] for name in names} == set(TOPICS)
    for name in names:
        topic, _, partition = name.rpartition("-")
        logs = cluster.logs(topic, int(partition))
        assert len(logs) == 3, name
        assert len(set(logs.values())) == 1, {each: len(log) for each, log in logs.items()}


def partitions(cluster: ZooKeeperCluster, broker: int) -> list[Path]:
    return sorted(cluster.directory(broker).glob("*-[0-9]*"))


def nothing_wrong(cluster: ZooKeeperCluster) -> bool:
    """Returns True if `muster cluster check` finds no fault."""
    ran = run("cluster", "check", "-b", cluster.bootstrap)
    assert ran.code == 0, ran.out + ran.err
    return True


def kafka_reads(directory: Path) -> None:
    """Reads each file in the data directory of a stopped Muster with Kafka's tool."""
    files = [each for end in FILES for each in sorted(directory.glob(f"*-[0-9]*/{end}"))]
    assert {each.suffix for each in files} == {end[1:] for end in FILES}
    said = dump(KAFKA_RELEASE, files)
    for complaint in ("mismatches", "Found", "errors", "Corrupt", "Exception"):
        assert complaint not in said, said[-3000:]


def started_without_complaint(cluster: ZooKeeperCluster, broker: int, printed: int) -> None:
    """Checks, in the output of the broker, that the broker found a cleanly closed data directory
    and recovered no log."""
    said = cluster.log(broker).read_bytes()[printed:].decode()
    if cluster.kinds[broker] == KAFKA:
        assert "since clean shutdown file was found" in said
        loading = [line for line in said.splitlines() if line.startswith(LOADING)]
        assert [line for line in loading if " INFO " not in line] == []
    else:
        loading = said.partition("accepts connections")[0].splitlines()
        assert [line for line in loading if "[warning" in line or "[error" in line] == []


def reassign(cluster: ZooKeeperCluster, brokers: set[int], plan: Path) -> None:
    topics = plan.with_name("topics.json")
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": each} for each in TOPICS]}))
    to = ",".join(map(str, sorted(brokers)))
    said = moving(cluster, f"--topics-to-move-json-file {topics} --broker-list {to} --generate")
    proposed = re.findall(r"^\{.*\}$", said, re.MULTILINE)[-1]
    plan.write_text(proposed)
    moving(cluster, f"--reassignment-json-file {plan} --execute")
    wanted = len(json.loads(proposed)["partitions"])
    until(
        "all partitions are moved",
        lambda: (
            moving(cluster, f"--reassignment-json-file {plan} --verify").count("is completed")
            == wanted
        ),
        120,
    )


def moving(cluster: ZooKeeperCluster, words: str) -> str:
    """Runs Kafka's reassignment tool and returns its output."""
    done = java.run(KAFKA_RELEASE, MOVING, "--bootstrap-server", cluster.bootstrap, *words.split())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
