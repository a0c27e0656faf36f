"""Commands that import offsets keep a leader epoch only if the log of the current leader confirms
it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cli.client.cluster import Cluster as Commands
from cli.offsets import leader_epochs
from cli.offsets.leader_epochs import OFFSET_FOR_LEADER_EPOCH, Claim, confirmed
from protocol.errors import NOT_LEADER_OR_FOLLOWER
from tests.brokers import Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster

ONE, TWO = ("orders", 0), ("orders", 1)
RECORDS = 10

# ------------------------------------------------------------ which leader epochs are confirmed


class Leader:
    """A fake leader. In the logs of the leader, epoch 2 ends at offset 100 and epoch 5 ends at
    offset 150."""

    def __init__(self, error_code: int = 0, api: int = OFFSET_FOR_LEADER_EPOCH) -> None:
        self.ranges = {api: (0, 4)}
        self.error_code = error_code
        self.asked: list[dict[tuple[str, int], int]] = []

    def metadata(self, topics: object) -> dict[str, Any]:
        return {"topics": [{"name": "orders"}]}

    def leaders(self, topics: list[str]) -> dict[tuple[str, int], Leader]:
        return {(topic, partition): self for topic in topics for partition in range(3)}

    def call(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        assert name == "OffsetForLeaderEpoch"
        asked = {
            (topic["topic"], entry["partition"]): entry["leader_epoch"]
            for topic in value["topics"]
            for entry in topic["partitions"]
        }
        assert len(asked) == sum(len(topic["partitions"]) for topic in value["topics"])
        self.asked.append(asked)
        return {
            "topics": [
                {
                    "topic": topic,
                    "partitions": [
                        {
                            "error_code": self.error_code,
                            "partition": partition,
                            "end_offset": self._end_offset(epoch),
                        }
                    ],
                }
                for (topic, partition), epoch in asked.items()
            ]
        }

    def _end_offset(self, epoch: int) -> int:
        return -1 if epoch > 5 else 150 if epoch == 5 else 100


@pytest.mark.parametrize(
    ("offset", "epoch", "true"),
    [
        (150, 5, True),
        (151, 5, False),  # after the log end: a consumer would report lost records
        (100, 2, True),
        (100, 4, True),  # an epoch between 2 and 5 without records
        (101, 4, False),
        (0, 37, False),  # an epoch after the latest: a consumer would wait for the epoch
    ],
)
def test_leader_epoch_is_confirmed_only_if_a_consumer_would_accept_it(
    offset: int, epoch: int, true: bool
) -> None:
    claim = Claim(ONE, offset, epoch)

    assert confirmed(Leader(), [claim]) == ({claim} if true else set())  # type: ignore[arg-type]


def test_two_leader_epochs_of_the_same_partition_are_checked_in_two_requests() -> None:
    leader = Leader()
    claims = [Claim(ONE, 9, 2), Claim(ONE, 9, 5), Claim(TWO, 9, 5), Claim(TWO, 120, 5)]

    found = confirmed(leader, [*claims, Claim(TWO, 9, -1)])  # type: ignore[arg-type]

    assert found == set(claims)
    assert leader.asked == [{ONE: 2, TWO: 5}, {ONE: 5}]


def test_leader_epochs_of_many_partitions_are_confirmed_in_several_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_epochs, "CHUNK", 2)
    leader = Leader()
    claims = {Claim(("orders", partition), 9, 5) for partition in range(3)}

    assert confirmed(leader, claims) == claims  # type: ignore[arg-type]
    assert [len(asked) for asked in leader.asked] == [2, 1]


@pytest.mark.parametrize(
    ("leader", "topic"),
    [(Leader(NOT_LEADER_OR_FOLLOWER), "orders"), (Leader(api=-1), "orders"), (Leader(), "gone")],
)
def test_leader_epoch_is_not_confirmed_when_the_lookup_fails(leader: Leader, topic: str) -> None:
    assert confirmed(leader, [Claim((topic, 0), 9, 5)]) == set()  # type: ignore[arg-type]


# ----------------------------------------------------------- the commands that write offsets

Committed = dict[int, tuple[int, int]]
"""The committed offset and its leader epoch, by partition."""


class Scene:
    """A topic with two partitions, and a group with the same name. Each partition has ten records
    of leader epoch 0."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name, self.bootstrap = name, broker.bootstrap
        self.cluster = Cluster(broker.bootstrap)
        Commands(broker.bootstrap).coordinator(name)  # the first lookup creates the offsets topic
        self.make_topic()

    def make_topic(self) -> None:
        # Retention is unlimited, because the records have timestamps of 1970.
        self.cluster.create_topic(self.name, 2, **{"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(2 * RECORDS):
            producer.produce(self.name, b"%d" % number, partition=number % 2, timestamp=1 + number)
        assert producer.flush(20) == 0

    def commit(self, **by_partition: tuple[int, int]) -> None:
        partitions = [
            {
                "partition_index": int(partition.removeprefix("p")),
                "committed_offset": offset,
                "committed_leader_epoch": epoch,
                "committed_metadata": "",
            }
            for partition, (offset, epoch) in by_partition.items()
        ]
        answer = self.cluster.call(
            "OffsetCommit",
            7,
            group_id=self.name,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": self.name, "partitions": partitions}],
        )
        assert {p["error_code"] for p in answer["topics"][0]["partitions"]} == {0}

    def committed(self) -> Committed:
        answer = self.cluster.call(
            "OffsetFetch", 5, group_id=self.name, topics=None, require_stable=False
        )
        return {
            p["partition_index"]: (p["committed_offset"], p["committed_leader_epoch"])
            for topic in answer["topics"]
            for p in topic["partitions"]
        }

    def file(self) -> str:
        """Writes an export of another cluster, with the leader epochs 37 and 0. Returns its
        path."""
        offsets = [
            {"topic": self.name, "partition": 0, "offset": 4, "leader_epoch": 37, "metadata": ""},
            {"topic": self.name, "partition": 1, "offset": 5, "leader_epoch": 0, "metadata": ""},
        ]
        value = {"version": 1, "groups": [{"group": self.name, "offsets": offsets}]}
        Path("offsets.json").write_text(json.dumps(value))
        return "offsets.json"

    def plan(self) -> str:
        """Writes a restore plan with the unconfirmed leader epoch 37. Returns its path."""
        step = {
            "group": self.name,
            "topic": self.name,
            "partition": 0,
            "before": None,
            "after": {"offset": 4, "metadata": "", "leader_epoch": 37},
        }
        value = {
            "version": 1,
            "kind": "restore",
            "target": "kafka",
            "where": self.bootstrap,
            "cluster_id": self.cluster.call("Metadata", 5, topics=[])["cluster_id"],
            "made_at": "2026-01-01T12:00:00Z",
            "about": {},
            "steps": [step],
        }
        Path("made.json").write_text(json.dumps(value))
        return "made.json"


LEFT_OUT = "leader epoch 37 is left out: the log has a different epoch at this offset"
NEW = "the commit creates the group"


@pytest.fixture
def scene(broker: Broker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.chdir(tmp_path)
    return Scene(broker, name)


@pytest.mark.interop
def test_offsets_import_omits_leader_epochs_of_another_cluster(scene: Scene) -> None:
    looked = run("offsets", "import", scene.file(), "--dry-run", "-b", scene.bootstrap)
    done = run("offsets", "import", scene.file(), "--execute", "--json", "-b", scene.bootstrap)

    assert looked.out.count(LEFT_OUT) == 1
    assert done.code == 0, done.err
    assert [change["note"] for change in done.json["changes"]] == [
        f"{NEW}; {LEFT_OUT}",
        NEW,
    ]
    assert scene.committed() == {0: (4, -1), 1: (5, 0)}


@pytest.mark.interop
def test_offsets_import_notes_an_offset_outside_its_log_and_an_omitted_leader_epoch(
    scene: Scene,
) -> None:
    file = Path("outside.csv")
    file.write_text(f"group,topic,partition,offset,leader_epoch\n{scene.name},{scene.name},0,99,37")

    done = run("offsets", "import", str(file), "--execute", "--json", "-b", scene.bootstrap)

    [change] = done.json["changes"]
    assert change["note"] == f"{NEW}; outside {scene.name}:0, which has offsets 0 to 10; {LEFT_OUT}"
    assert scene.committed() == {0: (99, -1)}


@pytest.mark.interop
def test_offsets_import_keeps_exported_epochs_unless_the_topic_is_recreated(scene: Scene) -> None:
    """In a recreated topic, leader epochs start at 0 again."""
    scene.commit(p0=(4, 0), p1=(5, -1))
    words = ["offsets", "export", scene.name, "-o", "was.json", "-b", scene.bootstrap]
    assert run(*words).code == 0
    again = ["offsets", "import", "was.json", "--execute", "-b", scene.bootstrap]
    scene.commit(p0=(9, 0), p1=(9, 0))
    assert run(*again).code == 0
    assert scene.committed() == {0: (4, 0), 1: (5, -1)}, "the log confirms the epoch"

    scene.cluster.call("DeleteTopics", 3, topic_names=[scene.name], timeout_ms=20_000)
    scene.cluster.until_partitions(scene.name, 0)
    scene.cluster.create_topic(scene.name, 2)
    assert run(*again).code == 0

    assert scene.committed() == {0: (4, -1), 1: (5, -1)}, "the recreated log is empty"


@pytest.mark.interop
def test_migrate_from_a_file_omits_leader_epochs_of_another_cluster(
    scene: Scene,
) -> None:
    words = ["pipeline", "migrate", "--from", scene.file(), "--plan", "plan.json", "--execute"]
    done = run(*words, "--json", "-b", scene.bootstrap)

    assert done.code == 0, done.err
    assert [change["note"] for change in done.json["changes"]] == [LEFT_OUT, None]
    steps = json.loads(Path("plan.json").read_text())["steps"]
    assert [step["after"]["leader_epoch"] for step in steps] == [-1, 0], (
        "the plan has the written epochs"
    )
    assert scene.committed() == {0: (4, -1), 1: (5, 0)}


@pytest.mark.interop
def test_restore_commits_no_unconfirmed_leader_epoch_when_it_applies_or_undoes_a_plan(
    scene: Scene,
) -> None:
    done = run("pipeline", "restore", "--apply", scene.plan(), "--execute", "-b", scene.bootstrap)
    assert done.code == 0, done.err
    assert LEFT_OUT in done.out
    assert scene.committed() == {0: (4, -1)}

    scene.commit(p0=(6, 37))
    words = ["pipeline", "migrate", "--from", scene.file(), "--backwards", "--plan", "plan.json"]
    assert run(*words, "--execute", "-b", scene.bootstrap).code == 0
    undone = run("pipeline", "restore", "--undo", "plan.json", "--execute", "-b", scene.bootstrap)
    assert undone.code == 0, undone.err
    assert LEFT_OUT in undone.out
    assert scene.committed() == {0: (6, -1)}


@pytest.mark.interop
def test_offsets_replicate_omits_leader_epochs(
    brokers: Callable[..., Broker], scene: Scene, name: str
) -> None:
    """Leader epochs differ between clusters, even where offsets are equal."""
    there = Scene(brokers(), name)
    scene.commit(p0=(4, 0), p1=(5, 37))

    words = ["pipeline", "replicate", name, "--source", scene.bootstrap, "--execute"]
    done = run(*words, "-b", there.bootstrap)

    assert done.code == 0, done.err
    assert there.committed() == {0: (4, -1), 1: (5, -1)}


@pytest.mark.interop
def test_groups_reset_to_current_removes_an_unconfirmed_leader_epoch(scene: Scene) -> None:
    scene.commit(p0=(4, 37))

    words = ["groups", "reset", scene.name, "--all-topics", "--to-current", "--execute"]

    assert run(*words, "-b", scene.bootstrap).code == 0
    assert scene.committed() == {0: (4, -1)}
