"""`muster cluster describe` and `check` on a real cluster that loses a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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


def checked(cluster: ZooKeeperCluster, verdicts: set[str]) -> bool:
    """Whether a check finds these faults."""
    ran = run("cluster", "check", "--json", "-b", cluster.bootstrap)
    found: list[dict[str, Any]] = ran.json["faults"] if ran.out else []
    assert {each["verdict"] for each in found} == verdicts, (ran.out, ran.err)
    assert ran.code == (FOUND if verdicts else 0), ran.err
    return True
