"""At start, the broker reports files that are missing in the data directory, and does not treat
them as empty."""

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

pytestmark = pytest.mark.proves("faults 6")

TEN = {"offsets.topic.num.partitions": "10"}
GROUPS = [f"g{number}" for number in range(20)]
OURS = ["topics.json", "configs.json", "consumers.offsets", "meta.properties"]
CHECKPOINTS = [name for name in VOUCHED_FOR if name.endswith("checkpoint")]


def fill(wire: Wire) -> None:
    """Commits one offset for each of many groups, and one offset with OffsetCommit version 0.
    Creates a topic with records, and sets a dynamic broker setting."""
    for number, group in enumerate(GROUPS):
        assert commit(wire, group, 42 + number) == 0
    create_topic(wire, "orders", partitions=3)
    for partition in range(3):
        produce(wire, "orders", partition=partition)
    assert old_commit(wire, 0, "orders", 7) == 0
    assert replace(wire, "1", {"max.connections": "500"}, kind=BROKER) == (0, None)


def filled(folder: Path, stopped: bool) -> Path:
    """Returns the data directory of a broker that was stopped cleanly. If ``stopped`` is False, the
    broker was killed instead, after it had written checkpoints."""

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
    """Starts a broker, checks that the start fails, and returns the error message."""

    async def start() -> None:
        async with serving(data, settings):
            raise AssertionError("it started")

    with pytest.raises((BadDirectory, CorruptLog)) as caught:
        asyncio.run(start())
    return str(caught.value)


def answers(data: Path, settings: dict[str, str], *groups: str) -> list[int]:
    """Returns the committed offsets of the groups from a broker that runs with ``settings``. Then
    asserts that a second broker, which runs without ``settings``, returns the same offsets."""

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
    """Returns the directory of the offsets partition that stores the group. The offsets topic has
    ten partitions."""
    from offsets.partitioner import partition_for

    return data / f"__consumer_offsets-{partition_for(group, 10)}"


def test_start_fails_with_the_name_of_a_missing_partition_directory(data: Path) -> None:
    gone = partition_of(data, "g3")
    shutil.rmtree(gone)

    said = refusal(data)

    assert said.startswith(f"{gone.name} is missing in {data}: recovery-point-offset-checkpoint")
    assert f"log.recovery.missing={gone.name}" in said
    assert answers(data, {"log.recovery.missing": gone.name}, "g3") == [-1]


def test_offsets_are_complete_after_a_missing_partition_directory_is_restored(data: Path) -> None:
    gone = partition_of(data, "g3")
    shutil.move(gone, data.parent / "aside")
    refusal(data)
    shutil.move(data.parent / "aside", gone)

    assert answers(data, {}, *GROUPS) == [42 + number for number in range(20)]


def test_start_fails_with_the_names_of_missing_segments(data: Path) -> None:
    folder = partition_of(data, "g3")
    for file in folder.glob("0*"):
        file.unlink()

    said = refusal(data)

    assert said.startswith(f"{folder}/*.log is missing: the checkpoints say that offsets up to")
    assert f"log.recovery.missing={folder.name}" in said
    assert answers(data, {"log.recovery.missing": "__consumer_offsets-*"}, "g3") == [-1]


def test_recreated_log_of_a_missing_partition_starts_at_its_checkpointed_offset(data: Path) -> None:
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
def test_start_fails_on_a_missing_file_unless_a_setting_accepts_it(data: Path, name: str) -> None:
    (data / name).unlink()

    said = refusal(data)

    assert said.startswith((f"{data / name} is missing: ", f"{data / name} is missing, but "))
    assert f"log.recovery.missing={name}" in said
    assert answers(data, {"log.recovery.missing": name}, "g3") == [45]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_empty_checkpoint_is_refused(data: Path, name: str) -> None:
    (data / name).write_bytes(b"")

    assert "is empty: topics.json lists" in refusal(data)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_error_about_a_damaged_checkpoint_gives_the_remedy(data: Path, name: str) -> None:
    (data / name).write_bytes(b"0\n2\norders 0 1\n")

    said = refusal(data)

    assert f"{name} is damaged" in said
    assert f"remove it and start once with log.recovery.missing={name}" in said


def test_cluster_id_is_kept_when_missing_meta_properties_are_accepted(data: Path) -> None:
    path = data / "meta.properties"
    before = path.read_text()
    path.unlink()

    answers(data, {"log.recovery.missing": "meta.properties"})

    assert path.read_text() == before


def test_topic_list_of_another_cluster_is_refused(data: Path) -> None:
    path = data / "topics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "cluster_id": "x" * 22}))

    assert f"has cluster id {'x' * 22}" in refusal(data)


def test_topic_creation_interrupted_by_a_kill_is_completed(data: Path) -> None:
    """The kill comes after the topic was added to the topic list, and before its directories and
    checkpoints were written."""
    path = data / "topics.json"
    image: dict[str, Any] = json.loads(path.read_text())
    topic_id = uuid_text(b"n" * 16)
    image["topics"] += [{"name": "new", "topic_id": topic_id, "partitions": 2, "configs": {}}]
    path.write_text(json.dumps(image))

    assert answers(data, {}, "g3") == [45]
    assert (data / "new-1").is_dir()


def test_missing_log_is_noticed_before_the_first_periodic_checkpoint(tmp_path: Path) -> None:
    """Checkpoints are written every minute. If a topic was created after the last checkpoint and
    its log was missing, an earlier version of Muster created an empty log."""

    async def story() -> None:
        async with serving(tmp_path / "first", TEN) as broker:
            await asked(broker, lambda wire: commit(wire, "g3", 42))
            shutil.copytree(tmp_path / "first", tmp_path / "killed")

    asyncio.run(story())
    gone = partition_of(tmp_path / "killed", "g3")
    for file in gone.glob("0*"):
        file.unlink()
    assert "the checkpoint files have entries of this log" in refusal(tmp_path / "killed")
    shutil.rmtree(gone)
    assert refusal(tmp_path / "killed").startswith(f"{gone.name} is missing")


# -- a directory without a topic list, which is built from the partitions


def foreign(data: Path) -> Path:
    """Removes the files that only Muster writes, so that Apache Kafka seems to have written the
    directory. Returns ``data``."""
    for name in ("topics.json", "configs.json", "topics.json.spare", "consumers.offsets"):
        (data / name).unlink(missing_ok=True)
    for image in data.glob("*/groups.image"):
        image.unlink()
    return data


def test_complete_directory_of_another_broker_is_adopted(data: Path) -> None:
    assert answers(foreign(data), {}, *GROUPS) == [42 + number for number in range(20)]


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        (
            "__consumer_offsets-9",
            "recovery-point-offset-checkpoint lists __consumer_offsets-9",
        ),
        ("__consumer_offsets-4", "__consumer_offsets-9 exists"),
        ("orders-*", "recovery-point-offset-checkpoint lists orders-0"),
    ],
)
def test_start_fails_when_an_adopted_directory_lacks_a_partition(
    data: Path, gone: str, why: str
) -> None:
    """An earlier version of Muster counted the directories to get the number of partitions. With
    nine of ten directories of __consumer_offsets, it computed a wrong partition for most groups,
    and did not find their offsets."""
    for folder in foreign(data).glob(gone):
        shutil.rmtree(folder)

    said = refusal(data)

    assert refusal(data) == said, "nothing was written down of what was found"
    assert f"{gone.replace('*', '0')}" in said
    assert why in said
    assert f"log.recovery.missing={gone.replace('*', '0')}" in said


@pytest.mark.parametrize("with_snapshots", [False, True])
def test_groups_do_not_load_when_a_partition_of_the_offsets_topic_is_missing(
    data: Path, with_snapshots: bool
) -> None:
    """The partition of a group depends on its id and on the number of partitions. Partition 9 of
    the ten partitions is missing, and so are the checkpoints. The broker detects this from group
    ids that would be in another partition if the topic had nine partitions."""
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
    assert any("belongs to partition" in str(line) for line in lines)
