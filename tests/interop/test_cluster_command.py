"""`muster cluster describe`, `why` and `check` on a real cluster that loses a broker."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cli.errors import FOUND
from tests.cli.running import run
from tests.interop.zookeeper_cluster import MUSTER, ZooKeeperCluster, running
from tests.waiting import until

pytestmark = pytest.mark.interop


def test_a_broker_that_dies_is_found_and_its_partitions_are_counted(tmp_path: Path) -> None:
    with running(tmp_path / "c", dict.fromkeys((1, 2, 3), MUSTER)) as cluster:
        cluster.create("orders", 3, 3)
        cluster.create("alone", 3, 1)
        until("nothing is wrong", lambda: checked(cluster, set()))

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
        until("nothing is wrong", lambda: checked(cluster, set()))


def test_why_tells_of_a_lag_a_death_and_the_way_back(tmp_path: Path) -> None:
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
        assert "broker 3, which led, is gone from ZooKeeper" in lost["moved"]["why"]
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
        assert "broker 3, its preferred leader, is in the ISR again" in text


def written(cluster: ZooKeeperCluster, index: int) -> None:
    """A record that its leader has: a replica that has all is never behind."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "1", "log_level": 0})
    producer.produce("orders", b"one", partition=index)
    assert producer.flush(30) == 0


def why(cluster: ZooKeeperCluster, what: str) -> Any:
    """What `muster cluster why` finds."""
    ran = run("cluster", "why", what, "--json", "-b", cluster.bootstrap)
    assert ran.code == 0, ran.err
    return ran.json


def story_of(cluster: ZooKeeperCluster, index: int) -> Any:
    """The story of a partition."""
    return why(cluster, f"orders-{index}")["story"]


def moved(cluster: ZooKeeperCluster, index: int) -> Any:
    """How a partition got its leader."""
    found = why(cluster, f"orders-{index}")["moved"]
    assert found is not None
    return found


def is_out(cluster: ZooKeeperCluster, index: int, broker: int, cause: str) -> bool:
    """Whether a replica is out of sync, for that cause."""
    out = why(cluster, f"orders-{index}")["out"]
    return [(each["broker"], each["left"] and each["left"]["cause"]) for each in out] == [
        (broker, cause)
    ]


def checked(cluster: ZooKeeperCluster, verdicts: set[str]) -> bool:
    """Whether a check finds these faults."""
    ran = run("cluster", "check", "--json", "-b", cluster.bootstrap)
    found: list[dict[str, Any]] = ran.json["faults"] if ran.out else []
    assert {each["verdict"] for each in found} == verdicts, (ran.out, ran.err)
    assert ran.code == (FOUND if verdicts else 0), ran.err
    return True
