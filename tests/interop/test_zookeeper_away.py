"""ZooKeeper does not respond for longer than a session timeout.

Leaders and coordinators continue to serve clients. Operations that need ZooKeeper fail with the
reason, and a broker that starts exits. All brokers recover when ZooKeeper responds again.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from tests.interop.cluster_loads import PARTITIONS, Group, Idempotent, Load, Plain
from tests.interop.zookeeper_cluster import MUSTER, ZooKeeperCluster, running

pytestmark = pytest.mark.interop

AWAY_S = 14.0
"""The duration of the outage in seconds: more than twice the session timeout of 6 s."""
STOPS_S = 60.0
"""The time limit in seconds for the stop of a broker. It is below the 90 s that the broker would
need if it waited three times for controller.socket.timeout.ms."""
SETTINGS = {"zookeeper.connection.timeout.ms": "4000"}


@pytest.mark.timeout(300)
def test_leaders_and_coordinators_serve_clients_when_zookeeper_is_down(tmp_path: Path) -> None:
    with running(tmp_path, dict.fromkeys((1, 2, 3), MUSTER), SETTINGS) as cluster:
        plain = Plain(cluster)
        group = Group(cluster, plain, static=False)
        loads: list[Load] = [plain, Idempotent(cluster), group]
        for load in loads:
            if load is not group:
                cluster.create(load.name, PARTITIONS, 3)
            load.start()
        for load in loads:
            load.until_goes_on()
        began = time.monotonic()
        with cluster.without_zookeeper():
            refusal = _refused(cluster)
            _ends_at_its_start(cluster, 4)
            while time.monotonic() - began < AWAY_S:
                for load in loads:
                    load.until_goes_on()
        assert "no answer from ZooKeeper for 5 s" in refusal, refusal
        cluster.until_settled()
        for load in loads:
            load.until_goes_on()
        cluster.create("afterwards", 1, 3)
        for load in loads[:2]:
            load.end()
        group.until_all_read()
        group.end()
        for load in loads:
            load.check()


def test_stop_logs_leaderless_partitions_when_zookeeper_is_down(
    tmp_path: Path,
) -> None:
    """The broker must not wait for controller.socket.timeout.ms in each attempt of the controlled
    shutdown."""
    alone = {
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "zookeeper.session.timeout.ms": "18000",
    }
    with running(tmp_path, dict.fromkeys((1, 2), MUSTER), alone) as cluster:
        cluster.create("t", 4, 2)
        cluster.until_settled()
        process = cluster.processes[2]
        with cluster.without_zookeeper():
            cluster.stop(2, within_s=STOPS_S)
        told = cluster.log(2).read_text()
        assert process.returncode == 0
        assert "have no leader until ZooKeeper is back" in told, told
        assert "the session ends after its timeout" in told, told
        assert "Traceback" not in told, told


def _refused(cluster: ZooKeeperCluster) -> str:
    """Tries to create a topic. Returns the reason why the creation fails."""
    admin = cluster.admin()
    asked = NewTopic("meanwhile", 1, 3)
    futures = admin.create_topics([asked], operation_timeout=3, request_timeout=20)
    with pytest.raises(KafkaException) as refused:
        futures["meanwhile"].result(30)
    return str(refused.value)


def _ends_at_its_start(cluster: ZooKeeperCluster, broker: int) -> None:
    """Starts a broker without ZooKeeper. Checks that it exits after zookeeper.connection.timeout.ms
    with an error message about ZooKeeper."""
    cluster.add(broker, MUSTER)
    process = cluster.processes.pop(broker)
    code = process.wait(60)
    told = cluster.log(broker).read_text()
    del cluster.kinds[broker], cluster.ports[broker], cluster.http[broker]
    assert code not in (0, None)
    assert "ZooKeeper at" in told, told
    assert "did not answer within 4000 ms: start ZooKeeper, or correct zookeeper.connect" in told, (
        told
    )
    assert "Traceback" not in told, told
