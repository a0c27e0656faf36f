"""`muster backup restore` restores deleted offsets, settings and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Broker, KafkaBroker
from tests.cli.running import Ran, run
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.waiting import until

pytestmark = pytest.mark.interop

Muster = Callable[..., Ran]


@pytest.fixture(scope="module", params=["muster", "kafka"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Yields a broker that only this module uses, after its group coordinator has become
    available."""
    make = Broker if request.param == "muster" else KafkaBroker
    broker = make(tmp_path_factory.mktemp(request.param) / "data").start()
    try:
        until("groups are served", lambda: serves_groups(broker))
        yield broker
    finally:
        broker.kill()


def serves_groups(broker: Broker) -> bool:
    """Returns True if the group coordinator is available. A new Kafka broker returns
    NOT_COORDINATOR at first."""
    return "GROUP_ID_NOT_FOUND" in run("offsets", "get", "nobody", "-b", broker.bootstrap).err


@pytest.fixture
def muster(cluster: Broker) -> Muster:
    """Returns a function that runs a command on the broker and checks its exit code."""

    def ran(*words: str, code: int = 0) -> Ran:
        done = run(*words, "--bootstrap", cluster.bootstrap)
        assert done.code == code, done
        return done

    return ran


def state(muster: Muster, group: str, topic: str) -> tuple[Any, ...]:
    """Returns the state that a restore must recover: offsets of the group, retention.ms and number
    of partitions of the topic."""
    offsets = muster("offsets", "get", group, "--json").json
    [described] = muster("topics", "describe", topic, "--json").json
    kept = [(row["partition"], row["offset"], row["metadata"]) for row in offsets]
    return kept, described["configs"].get("retention.ms"), len(described["partitions"])


def test_backup_restore_recovers_deleted_offsets_and_settings(
    cluster: Broker, muster: Muster, name: str, tmp_path: Path
) -> None:
    group, file = f"{name}-group", str(tmp_path / "backup.json")
    muster("topics", "create", name, "-p", "2", "-c", "retention.ms=86400000")
    Feed(cluster.bootstrap, name, 2).send(20)
    muster("offsets", "set", group, f"{name}:0=4", f"{name}:1=7", "--metadata", "m", "--execute")
    before = state(muster, group, name)

    assert "Wrote " in muster("backup", "create", file).out
    assert "already exists: choose another FILE" in muster("backup", "create", file, code=2).err

    muster("groups", "delete", group, "--execute")
    muster("configs", "set", "--topic", name, "--delete", "retention.ms")
    plan = muster("backup", "restore", file, code=2)
    assert "Nothing is restored yet" in plan.out
    assert "nothing was restored: add --execute" in plan.err
    assert "GROUP_ID_NOT_FOUND" in muster("offsets", "get", group, code=1).err

    done = muster("backup", "restore", file, "--execute")
    assert "Restored 0 topics, 1 setting, 2 offsets" in done.out
    assert state(muster, group, name) == before
    assert "Nothing to restore" in muster("backup", "restore", file, "--execute").out


def test_backup_restore_recreates_a_topic_and_reports_offsets_outside_its_log(
    cluster: Broker, muster: Muster, name: str, tmp_path: Path
) -> None:
    group, file = f"{name}-group", str(tmp_path / "backup.json")
    muster("topics", "create", name, "-p", "3", "-c", "retention.ms=86400000")
    Feed(cluster.bootstrap, name, 3).send(9)
    muster("offsets", "set", group, f"{name}:0=2", "--execute")
    muster("backup", "create", file)
    muster("topics", "delete", name, "--execute")
    assert name not in {row["topic"] for row in muster("topics", "list", "--json").json}

    done = muster("backup", "restore", file, "--execute", "--json")

    assert f"not restored: 1 offset of group {group} in {name}:0" in done.err
    assert done.json["executed"] is True
    [described] = muster("topics", "describe", name, "--json").json
    assert described["configs"]["retention.ms"] == "86400000"
    assert [each["end_offset"] for each in described["partitions"]] == [0, 0, 0]

    muster("backup", "restore", file, "--outside-logs", "--execute")
    [row] = muster("offsets", "get", group, "--json").json
    assert (row["partition"], row["offset"]) == (0, 2)


def test_backup_restore_rejects_a_group_with_members(
    cluster: Broker, muster: Muster, name: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "backup.json")
    asked = Cluster(cluster.bootstrap)
    asked.create_topic(name, 1)
    Feed(cluster.bootstrap, name, 1).send(5)
    muster("offsets", "set", name, f"{name}:0=2", "--execute")
    other = f"{name}-other"
    muster("offsets", "set", other, f"{name}:0=4", "--execute")
    muster("backup", "create", file)
    muster("offsets", "set", name, f"{name}:0=3", "--execute")
    muster("groups", "delete", other, "--execute")

    with Group("confluent", cluster.bootstrap, name, topics=[name]) as group:
        group.start("a")
        group.balanced(asked, 1)
        refused = muster("backup", "restore", file, "--execute", code=1)
        muster("backup", "restore", file, "--group", other, "--execute")
    assert "NON_EMPTY_GROUP" in refused.err
    offsets = {each: muster("offsets", "get", each, "--json").json for each in (name, other)}
    assert [[row["offset"] for row in rows] for rows in offsets.values()] == [[3], [4]]


def test_backup_show_reads_the_file_without_a_broker(
    muster: Muster, name: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "backup.json")
    muster("topics", "create", name, "-p", "2")
    muster("backup", "create", file)

    shown = run("backup", "show", file)

    assert shown.code == 0
    assert name in shown.out
    assert run("backup", "show", file, "--json").json["topics"] >= 1
    assert "can't be read" in run("backup", "show", f"{file}.gone").err
