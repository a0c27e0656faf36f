"""Tests of `muster pipeline restore` and its undo on a running Muster, without Java."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.times import instant
from tests.brokers import CHECKOUT, Broker
from tests.cli.running import Ran, run
from tests.interop.cluster import Cluster
from tests.pipeline.small_logs import batch_of, commit, write_segment
from tests.waiting import until

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 12")]


class Scene:
    """A new broker with one group that committed offset 10, and later offset 40."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        Cluster(broker.bootstrap).create_topic("orders", 2)
        self.commit("billing", "orders:0=10")
        self.commit("audit", "orders:0=7")
        self.then = datetime.now(UTC).isoformat()
        until("the clock is past that time", lambda: datetime.now(UTC).isoformat() > self.then)
        self.commit("billing", "orders:0=40", "orders:1=5")

    def commit(self, group: str, *offsets: str) -> None:
        words = ["offsets", "set", group, *offsets, "--force", "--execute"]
        assert run(*words, "-b", self.broker.bootstrap).code == 0

    def offsets(self, group: str) -> dict[int, int]:
        ran = run("offsets", "get", group, "--json", "-b", self.broker.bootstrap)
        return {row["partition"]: row["offset"] for row in ran.json}

    def restore(self, *words: str) -> Ran:
        return run("pipeline", "restore", *words, "-b", self.broker.bootstrap)


@pytest.fixture
def _at_st_johns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sets the local time zone to St. John's, to show that the local time zone has no effect."""
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_at_st_johns")
def test_restore_commits_old_offsets_and_undo_reverts_them(
    brokers: Callable[..., Broker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene = Scene(brokers({"offsets.topic.num.partitions": "2"}))
    asked = ["bill*", "--at", scene.then, "--source", str(scene.broker.data)]

    looked = scene.restore(*asked, "--dry-run", "--plan", "looked.json")
    assert looked.code == 0, looked.err
    assert "Nothing is changed (--dry-run)" in looked.out
    meant = f"{scene.then[:23]}Z"
    assert f"Offsets as of {meant}\n" in looked.out
    assert scene.offsets("billing") == {0: 40, 1: 5}

    done = scene.restore(*asked, "--execute", "--plan", "plan.json", "--json")
    assert done.code == 0, done.err
    assert [(c["partition"], c["before"], c["after"]) for c in done.json["changes"]] == [
        (0, 40, 10),
        (1, 5, None),
    ]
    assert scene.offsets("billing") == {0: 10}
    plan = json.loads(Path("plan.json").read_text())
    assert plan["executed_at"]
    assert plan["about"] == {"source": str(scene.broker.data), "at": meant}
    assert instant(done.json["as_of_ms"], to_the_ms=True) == meant

    scene.commit("billing", "orders:0=11")  # the group continues to read
    refused = scene.restore("--undo", "plan.json", "--execute")
    assert refused.code == 1
    assert "1 offset of plan.json changed after the plan was executed" in refused.err
    scene.commit("billing", "orders:0=10")
    assert scene.restore("--undo", "plan.json", "--execute").code == 0
    assert scene.offsets("billing") == {0: 40, 1: 5}
    assert scene.offsets("audit") == {0: 7}

    nobody = scene.restore("nobody", *asked[1:])
    assert nobody.code == 1
    assert "has no offsets of group nobody" in nobody.err
    early = scene.restore(*asked[:1], "--at", "2020-01-01", *asked[3:])
    assert early.code == 1
    assert "the history has no offset of these groups at that time" in early.err


def test_restore_rejects_a_history_of_another_cluster(broker: Broker, history: Path) -> None:
    words = ["pipeline", "restore", "billing", "--at", "2026-01-01T12:00:30"]
    ran = run(*words, "--source", str(history), "-b", broker.bootstrap)
    assert ran.code == 1
    assert "the history is of cluster one, but" in ran.err
    assert "--other-cluster" in ran.err


def test_restore_from_another_cluster_omits_leader_epochs(
    broker: Broker,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the leader epoch 37 of the other cluster, a consumer would wait forever for metadata
    with this epoch, because the partition has epoch 0."""
    monkeypatch.chdir(tmp_path)
    Cluster(broker.bootstrap).create_topic(name, 1)
    there = commit(name, name, [0], epochs=[37])
    write_segment(tmp_path / "history", 0, batch_of(0, there))
    words = [
        "pipeline",
        "restore",
        name,
        "--at",
        "2026-01-02",
        "--source",
        str(tmp_path / "history"),
    ]

    ran = run(*words, "--other-cluster", "--execute", "--json", "-b", broker.bootstrap)

    assert ran.code == 0, ran.err
    [change] = ran.json["changes"]
    left_out = "leader epoch 37 is left out: the log has a different epoch at this offset"
    assert change["note"] == left_out
    shown = run("offsets", "get", name, "--json", "-b", broker.bootstrap)
    assert [(row["offset"], row["leader_epoch"]) for row in shown.json] == [(0, None)]


def test_restore_runs_without_java_and_spark(broker: Broker, name: str, tmp_path: Path) -> None:
    Cluster(broker.bootstrap).create_topic(name, 1)
    write_segment(tmp_path / "history", 0, batch_of(0, commit(name, name, [0])))
    words = ["pipeline", "restore", name, "--at", "2026-01-02", "--source", "history"]
    command = [*words, "--dry-run", "-b", broker.bootstrap]
    without = "import sys; sys.modules['pyspark'] = None; from cli.main import main; main()"

    ran = subprocess.run(
        [sys.executable, "-c", without, *command], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={"PATH": "/nowhere", "PYTHONPATH": str(CHECKOUT)}, timeout=60,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert "Nothing is changed (--dry-run)" in ran.stdout
