"""`pipeline replicate` between Muster and Kafka, and `pipeline restore` of groups that have
members."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.brokers import Broker, KafkaBroker, running
from tests.cli.running import Ran, run
from tests.interop.cluster import Cluster
from tests.waiting import Watch, until

pytestmark = pytest.mark.interop

RECORDS = 100


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    folder = tmp_path_factory.mktemp("pair")
    settings = {"offsets.topic.num.partitions": "4"}
    muster = Broker(folder / "muster" / "data", settings)
    kafka = KafkaBroker(folder / "kafka" / "data", settings)
    with running(muster, kafka):
        for group in range(16):  # groups of all partitions of the offsets topic
            until("groups are served", lambda group=group: _serves(kafka, f"warm-{group}"))
        yield {"muster": muster, "kafka": kafka}


def _serves(broker: Broker, group: str) -> bool:
    answer = Cluster(broker.bootstrap).call(
        "OffsetFetch", 5, group_id=group, topics=None, require_stable=False
    )
    if answer["error_code"]:
        Cluster(broker.bootstrap).call("FindCoordinator", 2, key=group, key_type=0)
    return bool(answer["error_code"] == 0)


@pytest.fixture(autouse=True)
def run_in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def produce(broker: Broker, topic: str, times_ms: list[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, time_ms in enumerate(times_ms):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=time_ms)
    assert producer.flush(20) == 0


def commit(broker: Broker, group: str, *offsets: str) -> None:
    ran = run("offsets", "set", group, *offsets, "--metadata", "mine", "--force", "--execute",
              "-b", broker.bootstrap)  # fmt: skip
    assert ran.code == 0, ran.err


def committed(broker: Broker, group: str) -> dict[str, int]:
    ran = run("offsets", "get", group, "--json", "-b", broker.bootstrap)
    return {row["topic"]: row["offset"] for row in ran.json} if ran.code == 0 else {}


# ----------------------------------------------------------------------------- replicate


class Copied:
    """Two topics that exist on source and target. In the target, one topic lacks its first 30
    records."""

    def __init__(self, source: Broker, target: Broker, name: str) -> None:
        self.source, self.target = source, target
        self.shifted, self.in_step = f"{name}-shifted", f"{name}-in-step"
        began = int(time.time() * 1000) - 200_000
        self.times = [began + 1000 * number for number in range(RECORDS)]
        for topic, missing in ((self.shifted, 30), (self.in_step, 0)):
            for broker, times in ((source, self.times), (target, self.times[missing:])):
                Cluster(broker.bootstrap).create_topic(topic, 1)
                produce(broker, topic, times)

    def replicate(self, group: str, *words: str) -> Ran:
        return run("pipeline", "replicate", group, "--source", self.source.bootstrap,
                   "-b", self.target.bootstrap, *words)  # fmt: skip


@pytest.mark.parametrize("source", ["muster", "kafka"])
def test_replicate_translates_offsets_by_timestamp(
    pair: dict[str, Broker], source: str, name: str
) -> None:
    [target] = set(pair) - {source}
    copied = Copied(pair[source], pair[target], name)
    there = copied.target
    commit(copied.source, name, f"{copied.shifted}:0=50", f"{copied.in_step}:0=50")

    first = copied.replicate(name, "--execute", "--plan", "plan.json", "--json")
    assert first.code == 0, first.err
    assert committed(there, name) == {copied.shifted: 20, copied.in_step: 50}
    assert {c["note"] for c in first.json["changes"]} == {"50 at the source"}
    plan = json.loads(Path("plan.json").read_text())
    assert plan["about"]["source"] == copied.source.bootstrap
    assert {step["after"]["metadata"] for step in plan["steps"]} == {"mine"}

    again = copied.replicate(name, "--execute")
    assert again.code == 0
    assert "2 offsets already correct in the target cluster" in again.err
    assert again.out == "Nothing to change\n"

    commit(copied.source, name, f"{copied.shifted}:0={RECORDS}", f"{copied.in_step}:0=10")
    moved = copied.replicate(name, "--execute", "--json")
    assert {
        c["topic"]: (c["before"], c["after"], c["reread"], c["skipped"])
        for c in moved.json["changes"]
    } == {copied.shifted: (20, 70, 0, 50), copied.in_step: (50, 10, 40, 0)}
    assert committed(there, name) == {copied.shifted: 70, copied.in_step: 10}

    commit(copied.source, name, f"{copied.shifted}:0=10")  # the target does not have this record
    assert copied.replicate(name, "--execute").code == 0
    assert committed(there, name)[copied.shifted] == 0


def test_replicate_never_skips_records_with_equal_timestamps(
    pair: dict[str, Broker], name: str
) -> None:
    """A lookup by timestamp returns the first of several records with the same timestamp."""
    source, target = pair["muster"], pair["kafka"]
    began = int(time.time() * 1000) - 200_000
    times = [began, *[began + 1] * 5, began + 2]
    for broker, of in ((source, times), (target, times[1:])):
        Cluster(broker.bootstrap).create_topic(name, 1)
        produce(broker, name, of)
    commit(source, name, f"{name}:0=4")  # the fourth of the five records with equal timestamps

    words = ["--source", source.bootstrap, "-b", target.bootstrap, "--execute"]
    ran = run("pipeline", "replicate", name, *words)

    assert ran.code == 0, ran.err
    assert committed(target, name) == {name: 0}, "three records are read again"


def test_replicate_reports_a_partition_that_is_missing_at_the_target(
    pair: dict[str, Broker], name: str
) -> None:
    source, target = pair["muster"], pair["kafka"]
    Cluster(source.bootstrap).create_topic(name, 1)
    commit(source, name, f"{name}:0=0")
    ran = run("pipeline", "replicate", name, "--source", source.bootstrap, "-b", target.bootstrap)
    assert ran.code == 0
    assert (
        f"{name}, {name}:0: left out, because the partition does not exist in the target" in ran.err
    )
    assert ran.out == "Nothing to change\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--source", "MUSTER", "-b", "KAFKA"], 2, "name the groups"),
        (["g", "-b", "KAFKA"], 2, "name a broker of the source"),
        (["g", "--source", "MUSTER", "-b", "MUSTER"], 1, "are the same cluster"),
        (["nobody", "--source", "MUSTER", "-b", "KAFKA"], 1, "group nobody: GROUP_ID_NOT_FOUND"),
        (["g", "--source", "127.0.0.1:1", "-b", "KAFKA"], 3, "no broker answers at 127.0.0.1:1"),
        (["g", "--source", "MUSTER", "-b", "127.0.0.1:1"], 3, "no broker answers at 127.0.0.1:1"),
    ],
)
def test_replicate_rejects_invalid_options_with_one_error_line(
    pair: dict[str, Broker], words: list[str], code: int, says: str
) -> None:
    at = {"MUSTER": pair["muster"].bootstrap, "KAFKA": pair["kafka"].bootstrap}
    ran = run("pipeline", "replicate", *(at.get(word, word) for word in words))
    assert ran.code == code
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


# ----------------------------------------------------------- restore of groups with members


class Member:
    """A consumer that polls in a thread. `commit_all` commits the positions after all consumed
    records."""

    def __init__(self, broker: Broker, group: str, topic: str, **config: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )
        self.consumer.subscribe([topic])
        self.read: list[int] = []
        self.watch = Watch()
        self._to_commit = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._ended.is_set():
            message = self.consumer.poll(0.1)
            if message is not None and not message.error():
                self.read.append(message.offset())
                self.watch.changed()
            if self._to_commit.is_set():
                self.consumer.commit(asynchronous=False)
                self._to_commit.clear()
                self.watch.changed()
        self.consumer.close()

    def commit_all(self, count: int) -> None:
        self.watch.until("everything is read", lambda: len(self.read) >= count)
        self._to_commit.set()
        self.watch.until("the commit", lambda: not self._to_commit.is_set())

    def close(self) -> None:
        self._ended.set()
        self._thread.join(20)


CLASSIC = {"session_timeout_ms": "6000", "heartbeat_interval_ms": "300"}
MEMBERS = {
    "muster": ("muster", CLASSIC),
    "muster, static": ("muster", {**CLASSIC, "group_instance_id": "one"}),
    "kafka": ("kafka", CLASSIC),
    "kafka, static": ("kafka", {**CLASSIC, "group_instance_id": "one"}),
    "kafka, new protocol": ("kafka", {"group_protocol": "consumer"}),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_members_removed_by_a_forced_restore_continue_at_the_restored_offsets(
    pair: dict[str, Broker], kind: str, name: str
) -> None:
    where, config = MEMBERS[kind]
    broker = pair[where]
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 1)
    produce(broker, name, [int(time.time() * 1000)] * 20)
    plan = plan_to(broker, name, before=20, after=5)
    member = Member(broker, name, name, **config)
    try:
        member.commit_all(20)
        assert committed(broker, name) == {name: 20}

        refused = run("pipeline", "restore", "--apply", str(plan), "--execute")
        assert refused.code == 1
        assert f"group {name} is Stable: NON_EMPTY_GROUP; stop the members first" in refused.err
        assert committed(broker, name) == {name: 20}

        forced = run("pipeline", "restore", "--apply", str(plan), "--execute", "--force")
        assert forced.code == 0, forced.err
        assert f"removed 1 member of group {name}" in forced.err
        member.watch.until(
            "the member reads again what was restored",
            lambda: member.read[20:] == list(range(5, 20)),
            40,
            lambda: str(member.read[20:]),
        )
        assert committed(broker, name) == {name: 5}
        undone = run("pipeline", "restore", "--undo", str(plan), "--execute", "--force")
        assert undone.code == 0, undone.err
        assert committed(broker, name) == {name: 20}
    finally:
        member.close()


def plan_to(broker: Broker, name: str, before: int, after: int) -> Path:
    cluster_id = Cluster(broker.bootstrap).call(
        "Metadata", 5, topics=[], allow_auto_topic_creation=False
    )["cluster_id"]
    step = {
        "group": name,
        "topic": name,
        "partition": 0,
        "before": {"offset": before},
        "after": {"offset": after},
    }
    plan = {
        "version": 1,
        "kind": "restore",
        "target": "kafka",
        "where": broker.bootstrap,
        "cluster_id": cluster_id,
        "made_at": "2026-01-01T00:00:00Z",
        "about": {},
        "steps": [step],
    }
    path = Path(f"{name}.json")
    path.write_text(json.dumps(plan))
    return path


def test_restore_rejects_a_plan_of_another_cluster(pair: dict[str, Broker], name: str) -> None:
    plan = plan_to(pair["muster"], name, before=20, after=5)
    ran = run("pipeline", "restore", "--apply", str(plan), "-b", pair["kafka"].bootstrap)
    assert ran.code == 1
    assert "is a plan for cluster" in ran.err
