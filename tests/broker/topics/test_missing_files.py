"""What a data directory has lost is missed by name at the start, and never read as empty."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cores.hosted_shard import Phase
from broker.topics.directory.missing import VOUCHED_FOR
from broker.topics.registry import BadDirectory, uuid_text
from log.errors import CorruptLog
from tests.broker.apis.test_old_offsets import commit as old_commit
from tests.broker.config.test_offsets_topic_settings import commit, committed
from tests.broker.config_calls import BROKER, replace
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic, list_offset, produce
from tests.wire import Wire

TEN = {"offsets.topic.num.partitions": "10"}
GROUPS = [f"g{number}" for number in range(20)]
OURS = ["topics.json", "configs.json", "consumers.offsets", "meta.properties"]
CHECKPOINTS = [name for name in VOUCHED_FOR if name.endswith("checkpoint")]


def fill(wire: Wire) -> None:
    """Commits of many groups, two topics, a setting of the broker."""
    for number, group in enumerate(GROUPS):
        assert commit(wire, group, 42 + number) == 0
    create_topic(wire, "orders", partitions=3)
    for partition in range(3):
        produce(wire, "orders", partition=partition)
    assert old_commit(wire, 0, "orders", 7) == 0
    assert replace(wire, "1", {"max.connections": "500"}, kind=BROKER) == (0, None)


def filled(folder: Path, stopped: bool) -> Path:
    """A directory of a broker that was stopped, or killed after its checkpoints were written."""

    async def story() -> None:
        async with serving(folder / "first", TEN) as broker:
            await asked(broker, fill)
            await broker.maintenance.write_checkpoints()
            shutil.copytree(folder / "first", folder / "killed")

    asyncio.run(story())
    return folder / ("first" if stopped else "killed")


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("data"), request.param == "stopped")


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def refusal(data: Path, settings: dict[str, str] | None = None) -> str:
    """The sentence with which a broker does not start."""

    async def start() -> None:
        async with serving(data, settings):
            raise AssertionError("it started")

    with pytest.raises((BadDirectory, CorruptLog)) as caught:
        asyncio.run(start())
    return str(caught.value)


def answers(data: Path, settings: dict[str, str], *groups: str) -> list[int]:
    """What a broker that starts answers these groups; twice, the second time without settings."""

    async def story() -> list[int]:
        async with serving(data, settings) as broker:
            first = await asked(broker, lambda wire: [committed(wire, each) for each in groups])
        async with serving(data) as broker:
            assert first == await asked(
                broker, lambda wire: [committed(wire, each) for each in groups]
            )
        return first

    return asyncio.run(story())


def partition_of(data: Path, group: str) -> Path:
    """Where a group's commits are, among ten partitions."""
    from offsets.partitioner import partition_for

    return data / f"__consumer_offsets-{partition_for(group, 10)}"


def test_a_directory_that_is_gone_is_named(data: Path) -> None:
    gone = partition_of(data, "g3")
    shutil.rmtree(gone)

    said = refusal(data)

    assert said.startswith(f"{gone.name} is missing in {data}: recovery-point-offset-checkpoint")
    assert f"log.recovery.missing={gone.name}" in said
    assert answers(data, {"log.recovery.missing": gone.name}, "g3") == [-1]


def test_a_directory_that_came_back_has_its_offsets(data: Path) -> None:
    gone = partition_of(data, "g3")
    shutil.move(gone, data.parent / "aside")
    refusal(data)
    shutil.move(data.parent / "aside", gone)

    assert answers(data, {}, *GROUPS) == [42 + number for number in range(20)]


def test_files_that_are_gone_from_a_directory_are_named(data: Path) -> None:
    folder = partition_of(data, "g3")
    for file in folder.glob("0*"):
        file.unlink()

    said = refusal(data)

    assert said.startswith(f"{folder}/*.log is missing: the checkpoints say that offsets up to")
    assert f"log.recovery.missing={folder.name}" in said
    assert answers(data, {"log.recovery.missing": "__consumer_offsets-*"}, "g3") == [-1]


def test_a_new_log_in_the_place_of_a_lost_one_gives_no_offset_twice(data: Path) -> None:
    shutil.rmtree(data / "orders-1")

    async def story() -> tuple[int, int]:
        async with serving(data, {"log.recovery.missing": "orders-1"}) as broker:

            def ends(wire: Wire) -> tuple[int, int]:
                return tuple(  # type: ignore[return-value]
                    list_offset(wire, "orders", time, partition=1)["offset"] for time in (-2, -1)
                )

            return await asked(broker, ends)

    assert asyncio.run(story()) == (1, 1)


@pytest.mark.parametrize("name", [*OURS, *CHECKPOINTS])
def test_a_file_that_is_gone_is_named_and_may_be_gone_knowingly(data: Path, name: str) -> None:
    (data / name).unlink()

    said = refusal(data)

    assert said.startswith(f"{data / name} is missing: ")
    assert f"log.recovery.missing={name}" in said
    assert answers(data, {"log.recovery.missing": name}, "g3") == [45]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_without_a_byte_is_no_checkpoint(data: Path, name: str) -> None:
    (data / name).write_bytes(b"")

    assert "the file is empty" in refusal(data)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_damaged_checkpoint_says_what_to_do(data: Path, name: str) -> None:
    (data / name).write_bytes(b"0\n2\norders 0 1\n")

    said = refusal(data)

    assert f"{name} is damaged" in said
    assert f"remove it and start once with log.recovery.missing={name}" in said


def test_the_cluster_keeps_its_id_when_its_file_is_known_to_be_gone(data: Path) -> None:
    path = data / "meta.properties"
    before = path.read_text()
    path.unlink()

    answers(data, {"log.recovery.missing": "meta.properties"})

    assert path.read_text() == before


def test_a_list_of_topics_of_another_cluster_is_refused(data: Path) -> None:
    path = data / "topics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "cluster_id": "x" * 22}))

    assert f"is of cluster {'x' * 22}" in refusal(data)


def test_a_topic_that_was_being_made_when_the_broker_was_killed_is_made(data: Path) -> None:
    """It stands in the list before its directories are there, and nothing vouches for them."""
    path = data / "topics.json"
    image: dict[str, Any] = json.loads(path.read_text())
    topic_id = uuid_text(b"n" * 16)
    image["topics"] += [{"name": "new", "topic_id": topic_id, "partitions": 2, "configs": {}}]
    path.write_text(json.dumps(image))

    assert answers(data, {}, "g3") == [45]
    assert (data / "new-1").is_dir()


def test_a_topic_is_missed_from_the_moment_it_could_be_used(tmp_path: Path) -> None:
    """The checkpoints are written each minute; what was made in that minute was made again."""

    async def story() -> None:
        async with serving(tmp_path / "first", TEN) as broker:
            await asked(broker, lambda wire: commit(wire, "g3", 42))
            shutil.copytree(tmp_path / "first", tmp_path / "killed")

    asyncio.run(story())
    gone = partition_of(tmp_path / "killed", "g3")
    for file in gone.glob("0*"):
        file.unlink()
    assert "the checkpoints name its log" in refusal(tmp_path / "killed")
    shutil.rmtree(gone)
    assert refusal(tmp_path / "killed").startswith(f"{gone.name} is missing")


# -- a directory whose list of topics is made from what is found


def foreign(data: Path) -> Path:
    """The same directory as another broker would leave it: without our own files."""
    for name in ("topics.json", "configs.json", "topics.json.spare", "consumers.offsets"):
        (data / name).unlink(missing_ok=True)
    for image in data.glob("*/groups.image"):
        image.unlink()
    return data


def test_a_foreign_directory_that_is_whole_is_taken_in(data: Path) -> None:
    assert answers(foreign(data), {}, *GROUPS) == [42 + number for number in range(20)]


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ("__consumer_offsets-9", "recovery-point-offset-checkpoint names their logs"),
        ("__consumer_offsets-4", "__consumer_offsets-9 exists"),
        ("orders-*", "recovery-point-offset-checkpoint names their logs"),
    ],
)
def test_what_is_gone_of_a_foreign_directory_is_named(data: Path, gone: str, why: str) -> None:
    """Partitions were counted by the directories found: nine of ten, and every group read -1."""
    for folder in foreign(data).glob(gone):
        shutil.rmtree(folder)

    said = refusal(data)

    assert refusal(data) == said, "nothing was written down of what was found"
    assert f"{gone.replace('*', '0')}" in said
    assert why in said
    assert f"log.recovery.missing={gone.replace('*', '0')}" in said


@pytest.mark.parametrize("with_snapshots", [False, True])
def test_where_nothing_says_how_many_there_were_no_group_is_shown_without_its_offsets(
    data: Path, with_snapshots: bool
) -> None:
    """Nine of ten partitions, and no checkpoint: their groups say that there were others."""
    images = {path: path.read_bytes() for path in data.glob("*/groups.image")}
    foreign(data)
    shutil.rmtree(data / "__consumer_offsets-9")
    for name in CHECKPOINTS:
        (data / name).unlink()
    if with_snapshots:
        for path, image in images.items():
            if path.parent.exists():
                path.write_bytes(image)

    async def story() -> list[int]:
        async with serving(data) as broker:
            hosted_shards = broker.groups.hosted_shards
            held = {hosted for hosted in hosted_shards if hosted.log.log_end_offset}
            await eventually(
                "the loads end", lambda: not broker.groups.life.loading or broker.fatal
            )
            return [hosted.index for hosted in held if hosted.phase is Phase.ACTIVE]

    with capture_logs() as lines:
        assert asyncio.run(story()) == []
    assert any("which belongs to partition" in str(line) for line in lines)
