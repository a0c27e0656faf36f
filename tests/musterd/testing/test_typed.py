"""The errors that mypy reports for a test that uses `musterd.testing`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USER = """
from datetime import datetime, timedelta
from musterd.testing import (
    AsyncMuster, Fault, Group, Muster, MusterCluster, Offset, Partition, WaitedInVain,
)

def test_it() -> None:
    with Muster(settings={"num.partitions": 3}) as broker:
        broker.create_topic("orders", partitions=3, retention_ms=1000)
        moment: datetime = broker.time.advance(timedelta(days=1), minutes=3)
        with broker.time.follow(), broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2) as fault:
            kept: Fault = fault
            hits: int = kept.hits
        offset: Offset = broker.wait_for("billing").committed("orders", 0, at_least=3)
        committed = broker.committed("billing")
        lag: int = committed.lag + (committed["orders", 0].lag or 0)
        groups: list[Group] = broker.groups()
        print(moment, hits, offset, lag, groups, WaitedInVain)

def test_cluster() -> None:
    with MusterCluster(brokers=3, settings={"min.insync.replicas": 1}) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        leader: int = cluster.wait_for_partition("orders").leader()
        with cluster.kill(leader), cluster.shrink_isr("orders", 0, 2) as fault:
            kept: Fault = fault
        found: Partition = cluster.partition("orders")
        moved: int = cluster.move_leader("orders", to=found.replicas[-1])
        sentences: list[str] = [each.sentence for each in cluster.why("orders")]
        print(kept, moved, sentences, cluster.broker(1).bootstrap_servers)

async def test_async() -> None:
    async with AsyncMuster() as broker:
        async with broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER") as fault:
            hits: int = await fault.hits()
        await broker.time.freeze()
        group: Group = await broker.wait_for("billing", timeout_s=1).stable(members=3)
        print(hits, group)
"""


def check(folder: Path, source: str) -> str:
    (folder / "test_user.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "test_user.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.campaign
def test_mypy_strict_accepts_correct_use_of_musterd_testing(tmp_path: Path) -> None:
    assert "Success" in check(tmp_path, USER)


@pytest.mark.campaign
def test_mypy_strict_rejects_wrong_types_passed_to_musterd_testing(tmp_path: Path) -> None:
    wrong = USER.replace("times=2", "times='2'").replace("lag: int", "lag: str")

    said = check(tmp_path, wrong)

    assert said.count("error:") == 2
