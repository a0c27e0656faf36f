"""`muster cluster describe`, `why` and `check` on a real cluster that loses a broker."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cli.errors import FOUND
from tests.cli.running import run
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.interop


def test_cluster_check_reports_a_killed_broker_and_its_partitions(tmp_path: Path) -> None:
    with running(tmp_path / "c", dict.fromkeys((1, 2, 3), MUSTER)) as cluster:
        cluster.create("orders", 3, 3)
        cluster.create("alone", 3, 1)
        until("no problems", lambda: checked(cluster, set()))

        cluster.kill(3)
        until("its faults are found", lambda: checked(cluster, {"LEADERLESS", "BROKER_DOWN"}))

        view = run("cluster", "describe", "--json", "-b", cluster.bootstrap).json
        assert (view["leaderless"], view["under_replicated"], view["under_min_isr"]) == (1, 3, 0)
        rows = {row["broker"]: row for row in view["brokers"]}
        assert [node for node, row in rows.items() if row["down"]] == [3]
        assert (rows[3]["leads"], rows[3]["out_of_isr"]) == (0, 3)
        assert rows[1]["leads"] + rows[2]["leads"] == 5

        cluster.start(3)
        cluster.until_whole("orders", 3)
        until("no problems", lambda: checked(cluster, set()))


def test_cluster_why_reports_that_a_replica_lagged_then_failed_then_rejoined_the_isr(
    tmp_path: Path,
) -> None:
    settings = {"zookeeper.session.timeout.ms": "12000", "replica.lag.time.max.ms": "2000"}
    kinds = dict.fromkeys((1, 2, 3), MUSTER)
    with running(tmp_path / "c", kinds, settings) as cluster:
        cluster.create("orders", 3, 3)
        leaders = {index: leader for index, (leader, _) in cluster.partitions("orders").items()}
        own = next(index for index, leader in leaders.items() if leader == 3)
        other = next(index for index, leader in leaders.items() if leader != 3)
        assert why(cluster, f"orders-{own}")["moved"]["cause"] == "created"

        cluster.processes[3].send_signal(signal.SIGSTOP)
        written(cluster, other)
        until("it has left the ISR", lambda: is_out(cluster, other, 3, "silent"), 30)
        cluster.kill(3)
        until("another leads", lambda: moved(cluster, own)["cause"] == "offline", 60)
        lost = why(cluster, f"orders-{own}")
        assert "the leader, broker 3, is no longer registered in ZooKeeper" in lost["moved"]["why"]
        assert [(each["broker"], each["alive"]) for each in lost["out"]] == [(3, False)]
        gone = why(cluster, "3")
        assert (gone["alive"], gone["out_of_isr"]) == (False, 3)
        assert gone["story"][-1]["cause"] == "gone"

        cluster.start(3)
        cluster.until_whole("orders", 3)
        until("it leads again", lambda: moved(cluster, own)["cause"] == "balance", 60)
        until("it came back", lambda: story_of(cluster, other)[-1]["cause"] == "in", 30)
        found = why(cluster, "controller")
        assert (found["controller"], found["waits"], found["unasked"]) == (1, [], [])
        text = run("cluster", "why", f"orders-{own}", "-b", cluster.bootstrap).out
        assert "broker 3, the preferred leader, is in the ISR again" in text


def test_cluster_commands_name_the_data_that_kafka_brokers_do_not_provide(tmp_path: Path) -> None:
    with running(tmp_path / "c", {1: KAFKA, 2: MUSTER, 3: MUSTER}) as cluster:
        cluster.create("orders", 3, 3)
        cluster.until_settled()
        leaders = {cluster.state("orders", index)["leader"]: index for index in range(3)}
        for index in range(3):
            written(cluster, index)
        until("no problems", lambda: checked(cluster, set()))
        until("they say the same", lambda: log_dirs(cluster, 1) == log_dirs(cluster, 2))

        cluster.stop(3)
        cluster.until_led("orders", 3)
        until("it is found", lambda: checked(cluster, {"BROKER_DOWN"}))
        unasked = run("cluster", "check", "-b", cluster.bootstrap).out
        of_kafka, moved = (told(cluster, f"orders-{leaders[each]}") for each in (1, 3))
        controller, gone, kafka = (told(cluster, each) for each in ("controller", "3", "1"))

    knows = "broker 1, the controller, could not be queried"
    assert f"reason unknown: {knows}" in of_kafka
    leader = "broker 1, the partition's leader, could not be queried"
    assert f"broker 3 is out of the ISR since an unknown time: {leader}" in of_kafka
    assert f"reason unknown: {knows}" in moved
    assert "broker 1 is the controller\n" in controller
    assert "the controller's pending work is unknown" in controller
    assert "; broker 1, the leader, could not be queried" in gone
    assert f"history unknown: {knows}" in kafka
    assert "broker 1 could not be queried for stray directories and its clock" in unasked
    for text in (of_kafka, moved, controller, gone, kafka):
        assert f"broker 1 could not be queried: the broker at 127.0.0.1:{cluster.ports[1]}" in text


def log_dirs(cluster: ZooKeeperCluster, broker: int) -> list[Any]:
    """Returns the response to each version of DescribeLogDirs, without the sizes of the disk."""
    orders = {"topic": "orders", "partitions": [0, 9]}
    strange = [{"topic": "nowhere", "partitions": [0]}, {"topic": "orders", "partitions": []}]
    found = []
    with Wire(cluster.ports[broker]) as wire:
        for version in range(5):
            for topics in (None, [], [orders], strange):
                answer = wire.call("DescribeLogDirs", version, {"topics": topics})
                (directory,) = answer["results"]
                assert directory.pop("log_dir") == str(cluster.directory(broker))
                total, free = (directory.pop(f"{each}_bytes") for each in ("total", "usable"))
                disk = shutil.disk_usage(cluster.directory(broker))
                assert total == (disk.total if version >= 4 else -1)
                assert (disk.free * 0.9 < free < disk.free * 1.1) if version >= 4 else free == -1
                directory["topics"].sort(key=lambda topic: topic["name"])
                for topic in directory["topics"]:
                    topic["partitions"].sort(key=lambda each: each["partition_index"])
                found.append(answer)
    sizes = [each["partition_size"] for each in found[0]["results"][0]["topics"][0]["partitions"]]
    assert len(sizes) == 3, sizes
    assert all(sizes), sizes
    return found


def told(cluster: ZooKeeperCluster, what: str) -> str:
    """Returns the output of `muster cluster why` as text."""
    ran = run("cluster", "why", what, "-b", cluster.bootstrap)
    assert ran.code == 0, ran.err
    return ran.out


def written(cluster: ZooKeeperCluster, index: int) -> None:
    """Produces one record, so that the replica of a stopped broker lags in the partition of this
    record."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "1", "log_level": 0})
    producer.produce("orders", b"one", partition=index)
    assert producer.flush(30) == 0


def why(cluster: ZooKeeperCluster, what: str) -> Any:
    """Returns the output of `muster cluster why` as JSON."""
    ran = run("cluster", "why", what, "--json", "-b", cluster.bootstrap)
    assert ran.code == 0, ran.err
    return ran.json


def story_of(cluster: ZooKeeperCluster, index: int) -> Any:
    """Returns the events in the history of partition ``index`` that `muster cluster why` prints."""
    return why(cluster, f"orders-{index}")["story"]


def moved(cluster: ZooKeeperCluster, index: int) -> Any:
    """Returns the last change of the partition's leader, with its cause."""
    found = why(cluster, f"orders-{index}")["moved"]
    assert found is not None
    return found


def is_out(cluster: ZooKeeperCluster, index: int, broker: int, cause: str) -> bool:
    """Returns True if the replica is outside the ISR because of ``cause``."""
    out = why(cluster, f"orders-{index}")["out"]
    return [(each["broker"], each["left"] and each["left"]["cause"]) for each in out] == [
        (broker, cause)
    ]


def checked(cluster: ZooKeeperCluster, verdicts: set[str]) -> bool:
    """Asserts that the faults that `muster cluster check` finds have exactly these ``verdicts``,
    and returns True."""
    ran = run("cluster", "check", "--json", "-b", cluster.bootstrap)
    found: list[dict[str, Any]] = ran.json["faults"] if ran.out else []
    assert {each["verdict"] for each in found} == verdicts, (ran.out, ran.err)
    assert ran.code == (FOUND if verdicts else 0), ran.err
    return True
