"""`pipeline migrate` copies offsets from ZooKeeper or from a file to Kafka, and from Kafka back to
ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests import java
from tests.brokers import Broker
from tests.cli.running import Ran, run
from tests.interop.cluster import Cluster
from tests.zookeeper import zookeeper

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def paths(ensemble: str, name: str) -> Iterator[KazooClient]:
    """Yields a ZooKeeper client with a chroot that only this test uses."""
    with_root = KazooClient(ensemble)
    with_root.start()
    with_root.create(f"/{name}")
    with_root.stop()
    client = KazooClient(f"{ensemble}/{name}")
    client.start()
    yield client
    client.stop()
    client.close()


class Scene:
    """A group, and an empty topic with two partitions. ``name`` is the name of both the group and
    the topic."""

    def __init__(self, broker: Broker, ensemble: str, name: str, paths: KazooClient) -> None:
        self.name, self.paths, self.bootstrap = name, paths, broker.bootstrap
        self.zookeeper = f"{ensemble}/{name}"
        self.cluster = Cluster(broker.bootstrap)
        self.cluster.create_topic(name, 2)

    def path(self, partition: int, group: str = "") -> str:
        return f"/consumers/{group or self.name}/offsets/{self.name}/{partition}"

    def commit_old(self, partition: int, offset: int | str, group: str = "") -> None:
        path, data = self.path(partition, group), str(offset).encode()
        self.paths.ensure_path(path)
        self.paths.set(path, data)

    def old(self) -> dict[int, int]:
        below = self.path(0).rpartition("/")[0]
        return {
            int(p): int(self.paths.get(f"{below}/{p}")[0]) for p in self.paths.get_children(below)
        }

    def commit_new(self, partition: int, offset: int) -> None:
        assert run("offsets", "set", self.name, f"{self.name}:{partition}={offset}",
                   "--force", "--execute", "-b", self.bootstrap).code == 0  # fmt: skip

    def new(self) -> dict[int, int]:
        ran = run("offsets", "get", self.name, "--json", "-b", self.bootstrap)
        return {row["partition"]: row["offset"] for row in ran.json} if ran.code == 0 else {}

    def migrate(self, *words: str) -> Ran:
        return run("pipeline", "migrate", "-b", self.bootstrap, *words)


@pytest.fixture
def scene(
    broker: Broker,
    ensemble: str,
    name: str,
    paths: KazooClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.chdir(tmp_path)  # migrate writes plans to the working directory
    return Scene(broker, ensemble, name, paths)


def test_migrate_copies_zookeeper_offsets_and_a_repeat_changes_no_offset(
    scene: Scene,
) -> None:
    scene.commit_old(0, 41)
    scene.commit_old(1, 7)
    scene.commit_new(1, 3)
    source = ["--zookeeper", scene.zookeeper]

    ran = scene.migrate(*source, "--execute", "--report", "report.json")
    assert ran.code == 0, ran.err
    assert f"from ZooKeeper at {scene.zookeeper} to Kafka" in ran.err
    assert "1 missing, 1 behind" in ran.err
    assert scene.new() == {0: 41, 1: 7}
    report = json.loads(Path("report.json").read_text())["offsets"]
    assert [(o["partition"], o["source"], o["target"], o["outcome"]) for o in report] == [
        (0, 41, None, "missing"),
        (1, 7, 3, "behind"),
    ]

    again = scene.migrate(*source, "--execute")
    assert again.code == 0
    assert "2 equal" in again.err
    assert again.out == "Nothing to change\n"
    assert len(list(Path().glob("migrate-*.json"))) == 1


def test_migrate_moves_offsets_backward_only_with_the_option_backwards(scene: Scene) -> None:
    scene.commit_old(0, 41)
    scene.commit_old(1, 7)
    scene.commit_new(0, 90)
    source = ["--zookeeper", scene.zookeeper]

    left = scene.migrate(*source, scene.name, "--execute", "--plan", "first.json")
    assert left.code == 0
    assert f"{scene.name}:0: stays at offset 90, ahead of offset 41 of the source" in left.err
    assert scene.new() == {0: 90, 1: 7}

    told = scene.migrate(*source, "--backwards", "--execute", "--plan", "back.json", "--json")
    assert told.code == 0
    assert told.json["executed"] is True
    assert [(c["before"], c["after"], c["note"]) for c in told.json["changes"]] == [
        (90, 41, f"goes backwards; offset 41 is outside {scene.name}:0, which has offsets 0 to 0")
    ]
    assert scene.new() == {0: 41, 1: 7}

    assert scene.migrate("--undo", "back.json", "--execute").code == 0
    assert scene.migrate("--undo", "first.json", "--execute").code == 0
    assert scene.new() == {0: 90}
    assert json.loads(Path("first.json").read_text())["undone_at"]


def test_migrate_back_writes_offsets_to_zookeeper_and_can_be_undone(scene: Scene) -> None:
    scene.commit_old(1, 7)
    scene.commit_new(0, 60)
    scene.commit_new(1, 30)
    words = ["--zookeeper", scene.zookeeper, "--back", "--execute"]

    assert scene.migrate(*words, "--plan", "plan.json").code == 0
    assert scene.old() == {0: 60, 1: 30}
    assert "2 equal" in scene.migrate(*words).err

    assert scene.migrate("--undo", "plan.json", "--execute").code == 0
    assert scene.old() == {1: 7}


def test_migrate_undo_rejects_a_zookeeper_offset_that_changed_after_the_plan_was_executed(
    scene: Scene,
) -> None:
    scene.commit_old(1, 7)
    scene.commit_new(1, 30)
    words = ["--zookeeper", scene.zookeeper, "--back", "--execute", "--plan", "plan.json"]
    assert scene.migrate(*words).code == 0
    scene.commit_old(1, 31)

    refused = scene.migrate("--undo", "plan.json", "--execute")
    assert refused.code == 1
    assert "changed after the plan was executed" in refused.err
    assert "31 instead of 30" in refused.err
    assert scene.old() == {1: 31}
    assert scene.migrate("--undo", "plan.json", "--execute", "--force").code == 0
    assert scene.old() == {1: 7}


def test_migrate_back_rejects_a_group_with_running_zookeeper_consumers(
    scene: Scene,
) -> None:
    scene.commit_old(0, 41)
    scene.commit_new(0, 60)
    scene.paths.create(
        f"/consumers/{scene.name}/ids/{scene.name}_host-1", b"{}", ephemeral=True, makepath=True
    )
    ran = scene.migrate("--zookeeper", scene.zookeeper)
    assert "still commits to ZooKeeper with 1 consumer" in ran.err
    back = scene.migrate("--zookeeper", scene.zookeeper, "--back", "--execute")
    assert back.code == 1
    assert "stop the consumers first" in back.err
    assert scene.old() == {0: 41}


def test_migrate_stops_at_an_invalid_path_unless_skip_unreadable_is_given(scene: Scene) -> None:
    scene.commit_old(0, 41)
    scene.commit_old(1, "later")
    ran = scene.migrate("--zookeeper", scene.zookeeper, "--execute")
    assert ran.code == 1
    assert f"{scene.path(1)} does not contain an offset: 'later'" in ran.err
    assert "nothing was changed, because 1 path can't be read" in ran.err
    assert scene.new() == {}
    ran = scene.migrate("--zookeeper", scene.zookeeper, "--execute", "--skip-unreadable")
    assert ran.code == 0
    assert scene.new() == {0: 41}


def test_migrate_reads_a_file_of_export_zk_offsets(scene: Scene, tmp_path: Path) -> None:
    scene.commit_old(0, 41)
    scene.commit_old(1, 7)
    exported = tmp_path / "offsets.txt"
    java.run(
        java.KAFKA_OLD,
        "kafka.tools.ExportZkOffsets",
        "--zkconnect",
        scene.zookeeper,
        "--group",
        scene.name,
        "--output-file",
        str(exported),
    ).check_returncode()
    assert scene.migrate("--from", str(exported), "--execute").code == 0
    assert scene.new() == {0: 41, 1: 7}


def test_migrate_reads_an_export_file_but_rejects_option_back_for_a_file(scene: Scene) -> None:
    exported = Path("offsets.json")
    exported.write_text(
        json.dumps({"version": 1, "groups": [{"group": scene.name, "offsets": [
            {"topic": scene.name, "partition": 1, "offset": 12, "metadata": "kept"}]}]})
    )  # fmt: skip
    back = scene.migrate("--from", str(exported), "--back")
    assert back.code == 2
    assert "muster offsets export" in back.err
    assert scene.migrate("--from", str(exported), "--execute").code == 0
    assert scene.new() == {1: 12}


def test_migrate_copies_offsets_of_version_0_commits_to_kafka_and_back(scene: Scene) -> None:
    entry = {"partition_index": 0, "committed_offset": 41, "committed_metadata": None}
    topics = [{"name": scene.name, "partitions": [entry]}]
    scene.cluster.call("OffsetCommit", 0, group_id=scene.name, topics=topics)
    assert scene.migrate(scene.name, "--old-way", "--execute").code == 0
    assert scene.new() == {0: 41}
    scene.commit_new(0, 77)
    assert scene.migrate(scene.name, "--old-way", "--back", "--execute").code == 0
    asked = [{"name": scene.name, "partition_indexes": [0]}]
    answer = scene.cluster.call("OffsetFetch", 0, group_id=scene.name, topics=asked)
    assert answer["topics"][0]["partitions"][0]["committed_offset"] == 77


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "name one source: --zookeeper, --from or --old-way"),
        (["--old-way"], 2, "--old-way needs GROUP"),
        (["--old-way", "nobody"], 1, "has no offsets of group nobody"),
        (["--zookeeper", "127.0.0.1:1", "--timeout", "1"], 3, "can't connect to ZooKeeper"),
        (["--from", "nowhere.json"], 2, "nowhere.json can't be read"),
        (["--from", "bad.txt"], 1, "bad.txt, line 2 is invalid: write it as /consumers/"),
        (["--undo", "bad.txt"], 1, "bad.txt is not JSON"),
        (["--undo", "bad.txt", "--old-way"], 2, "read everything from the plan"),
        (["--undo", "a", "--apply", "b"], 2, "read everything from the plan"),
        (["--old-way", "g", "-b", "127.0.0.1:1"], 3, "no broker answers"),
    ],
)
def test_migrate_rejects_invalid_options_with_one_error_line(
    scene: Scene, words: list[str], code: int, says: str
) -> None:
    Path("bad.txt").write_text("/consumers/g/offsets/t/0:1\n/consumers/g/offsets/t/0\n")
    ran = scene.migrate(*words)
    assert ran.code == code
    assert ran.err.startswith("muster: ")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


def test_migrate_does_not_overwrite_an_existing_plan_file(scene: Scene) -> None:
    scene.commit_old(0, 41)
    Path("plan.json").write_text("mine")
    ran = scene.migrate("--zookeeper", scene.zookeeper, "--execute", "--plan", "plan.json")
    assert ran.code == 2
    assert "plan.json already exists: choose another --plan" in ran.err
    assert Path("plan.json").read_text() == "mine"
    assert scene.new() == {}


def test_migrate_in_a_pipe_without_option_execute_changes_no_offset(scene: Scene) -> None:
    scene.commit_old(0, 41)
    ran = scene.migrate("--zookeeper", scene.zookeeper, "--plan", "plan.json")
    assert ran.code == 2
    assert "nothing was changed: add --execute" in ran.err
    assert scene.new() == {}
    assert scene.migrate("--apply", "plan.json", "--execute").code == 0
    assert scene.new() == {0: 41}
    assert json.loads(Path("plan.json").read_text())["executed_at"]
