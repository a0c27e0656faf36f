"""Tests the log cleaner and the snapshots of a complete broker, during commits and group deletions.

After each cleaning and each snapshot, the test copies the partition's directory, as if the broker
had crashed. It loads the copy twice: from the snapshot and the later log, and from the log alone.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.cores import snapshots
from broker.cores.groups.kind import GROUPS as KIND
from broker.cores.groups.kind import IMAGE
from broker.cores.hosted_shard import HostedShard
from broker.cores.loading import load
from broker.cores.shard_lifecycle import SETTLING_MS
from broker.cores.snapshots import Snapshots
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.cleaner import cleaning
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.shard import GroupShard
from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.errors import NONE
from protocol.messages.create_topics import API as CREATE_TOPICS
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from tests.broker.edge import GROUPS, Client, eventually
from tests.broker.mock_time import MockTime
from tests.broker.partitions import partition_for
from tests.broker.serving import serving
from tests.log.cleaning_tools import clean_log

SETTINGS = {"offsets.topic.num.partitions": "1", "log.cleaner.backoff.ms": "50"}
CLEANINGS = 4
WITHIN_S = 40
Content = tuple[dict[str, Any], dict[str, Any]]


def content(shard: GroupShard) -> Content:
    """Returns all state of a shard that comes from its log."""
    cache = shard.view.offsets
    entries = {g: sorted(cache.entries(g), key=lambda e: e[:2]) for g in cache.groups()}
    return entries, dict(shard.view.recorded)


def open_copy(directory: Path) -> PartitionLog:
    config = LogConfig(cleanup_policy="compact")
    return PartitionLog.open(OsFileSystem(), str(directory), OFFSETS_TOPIC, 0, config)


async def content_loaded_from(directory: Path, topic_id: bytes | None) -> tuple[Content, int]:
    """Returns the loaded content and the begin offset of the loaded snapshot. Without a topic id,
    no snapshot is loaded and the offset is -1."""
    hosted = HostedShard(KIND, GroupShard(GROUPS), partition_for(open_copy(directory)), 1)
    found = None
    if topic_id is not None:
        found = Snapshots(KIND, topic_id, lambda _: 0, Slicer(Time()))
    await load(hosted, 1 << 20, Slicer(Time()), found, lambda: GroupShard(GROUPS))
    return content(hosted.core), hosted.loaded_from


class Copies:
    """Copies of the directory of a partition of the offsets topic. Each copy is made between two
    turns, and is stored together with the state that the shard had at this time."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.made: list[tuple[Path, Content | None]] = []

    def make(self) -> None:
        hosted = self.broker.groups.hosted_shards[0]
        settled = hosted.accepted == hosted.appended
        there = self.directory / str(len(self.made))
        # Threads and the cleaner write or remove these files. A start would delete them too.
        not_yet_or_no_more = shutil.ignore_patterns("*.cleaned", "*.swap", "*.deleted", "*.tmp")
        shutil.copytree(hosted.log.directory, there, ignore=not_yet_or_no_more)
        self.made.append((there, content(hosted.core) if settled else None))

    def make_after(self, patch: pytest.MonkeyPatch) -> None:
        """Patches the broker so that it calls `make` after each cleaning and each snapshot."""
        cleaner, images = self.broker.cleaning, self.broker.groups.life.snapshots
        assert images is not None
        succeeded, write = cleaner._succeeded, images.write

        def cleaned(*args: Any) -> None:
            succeeded(*args)
            self.make()

        async def written(hosted: HostedShard) -> bool:
            done = await write(hosted)
            if done:
                self.make()
            return done

        patch.setattr(cleaner, "_succeeded", cleaned)
        patch.setattr(images, "write", written)


async def ready(broker: Broker) -> Client:
    """Returns a client of a broker that has the topic `orders` and a loaded coordinator."""
    client = await Client.connect(broker.sockets.addresses()[0][1])
    topic = {"name": "orders", "num_partitions": 20, "replication_factor": 1}
    made = await client.call(CREATE_TOPICS.key, 4, topics=[topic], timeout_ms=10_000)
    assert made["topics"][0]["error_code"] == NONE
    await client.call(FIND_COORDINATOR.key, 2, key="any", key_type=0)
    await eventually(lambda: broker.groups.hosted_shards and not broker.groups.life.loading)
    return client


async def churn(client: Client, number: int) -> None:
    """Commits offsets of 8 groups, and creates and deletes one more group."""
    handles = [client.send_commit(f"group-{n}", number, partitions=20) for n in range(8)]
    handles.append(client.send_commit(f"brief-{number}", number, partitions=3))
    for handle in handles:
        await client.receive(handle)
    gone = await client.call(DELETE_GROUPS.key, 2, groups_names=[f"brief-{number}"])
    assert gone["results"][0]["error_code"] == NONE
    if not number % 10:
        await client.join_alone(f"members-{number}")


@pytest.mark.campaign
@pytest.mark.parametrize("delete_retention_ms", [0, 86_400_000])
async def test_load_from_snapshot_and_later_records_equals_full_replay_after_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delete_retention_ms: int
) -> None:
    monkeypatch.setattr(cleaning, "OWNED_DEAD_BYTES_MIN", 60_000)
    monkeypatch.setattr(cleaning, "OWNED_DIRTY_BYTES_AT_ONCE", 60_000)
    monkeypatch.setattr(cleaning, "OWNED_CHECK_MS", 20)
    monkeypatch.setattr(snapshots, "BYTES_DUE", 30_000)
    monkeypatch.setattr(snapshots, "POLL_S", 0.01)
    async with serving(tmp_path / "data", SETTINGS) as broker:
        client = await ready(broker)
        [hosted], [entry] = broker.groups.hosted_shards, [broker.logs.topics[OFFSETS_TOPIC]]
        hosted.log.config = replace(hosted.log.config, delete_retention_ms=delete_retention_ms)
        copies = Copies(broker, tmp_path)
        copies.make_after(monkeypatch)
        async with asyncio.timeout(WITHIN_S):
            number = 0
            while broker.cleaning.runs < CLEANINGS:
                number += 1
                await churn(client, number)
        topic_id = entry.topic.topic_id
        assert broker.cleaning.failures == 0
        alive = content(hosted.core)

    begins = []
    compared = 0
    for directory, live in copies.made:
        full, _ = await content_loaded_from(directory, None)
        quick, begin = await content_loaded_from(directory, topic_id)
        assert quick == full, directory
        assert live is None or full == live, directory
        begins.append(begin)
        compared += live is not None
    assert len(begins) > CLEANINGS
    assert max(begins) >= 0, "some snapshot was of use"
    assert compared

    quick, begin = await content_loaded_from(Path(hosted.log.directory), topic_id)
    assert quick == (await content_loaded_from(Path(hosted.log.directory), None))[0] == alive, (
        "after the stop"
    )
    assert begin >= 0


async def test_snapshot_covers_the_cleaned_part_of_the_log_after_a_successful_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start immediately after the segments were replaced need not read the whole log."""
    monkeypatch.setattr(cleaning, "OWNED_DEAD_BYTES_MIN", 20_000)
    monkeypatch.setattr(cleaning, "OWNED_DIRTY_BYTES_AT_ONCE", 20_000)
    monkeypatch.setattr(cleaning, "OWNED_CHECK_MS", 20)
    monkeypatch.setattr(snapshots, "BYTES_DUE", 1 << 40)  # Only requested snapshots are written.
    async with serving(tmp_path / "data", SETTINGS) as broker:
        client = await ready(broker)
        [hosted], images = broker.groups.hosted_shards, broker.groups.life.snapshots
        assert images is not None
        await client.commit("a", 1)
        assert await images.write(hosted)
        copies = Copies(broker, tmp_path)
        succeeded = broker.cleaning._succeeded

        def cleaned(*args: Any) -> None:
            succeeded(*args)
            copies.make()

        monkeypatch.setattr(broker.cleaning, "_succeeded", cleaned)
        async with asyncio.timeout(WITHIN_S):
            number = 0
            while not copies.made:
                number += 1
                await churn(client, number)
        topic_id = broker.logs.topics[OFFSETS_TOPIC].topic.topic_id

    directory, _ = copies.made[0]
    quick, begin = await content_loaded_from(directory, topic_id)
    assert begin > 1
    assert quick == (await content_loaded_from(directory, None))[0]


async def test_snapshot_is_deleted_when_kafka_cleaned_beyond_its_begin_offset(
    tmp_path: Path,
) -> None:
    """Kafka's cleaner ignores the snapshot and removes old tombstones."""
    async with serving(tmp_path / "data", SETTINGS) as broker:
        client = await ready(broker)
        await client.commit("a", 1, partitions=3)
        await client.commit("b", 1, partitions=3)
        await client.commit("d", 4)  # The batch before the begin offset stays.
        [hosted], images = broker.groups.hosted_shards, broker.groups.life.snapshots
        assert images is not None
        assert await images.write(hosted)
        image = (Path(hosted.log.directory) / IMAGE).read_bytes()
        topic_id = broker.logs.topics[OFFSETS_TOPIC].topic.topic_id
        await client.call(DELETE_GROUPS.key, 2, groups_names=["a"])
        await client.commit("b", 2, partitions=3)
        await client.commit("c", 3, partitions=3)

    directory = Path(hosted.log.directory)
    (directory / IMAGE).write_bytes(image)
    assert (await content_loaded_from(directory, topic_id))[1] >= 0, "so far it is good"
    log = open_copy(directory)
    log.roll()
    # The first cleaning marks tombstones; the second cleaning removes the tombstones.
    for now_ms in (2**42, 2**42 + 86_400_001):
        clean_log(log, 0, now_ms)
    log.close()

    entries, _ = (await content_loaded_from(directory, None))[0]
    assert sorted(entries) == ["b", "c", "d"]
    assert await content_loaded_from(directory, topic_id) == ((entries, {}), -1)
    assert not (directory / IMAGE).exists()


async def test_snapshots_and_cleanings_wait_for_some_time_after_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, SETTINGS | {"log.cleaner.enable": "false"}) as broker:
        client = await ready(broker)
        for number in range(100):
            await churn(client, number)
    image = Path(broker.groups.hosted_shards[0].log.directory) / IMAGE
    image.unlink(missing_ok=True)

    monkeypatch.setattr(cleaning, "OWNED_DEAD_BYTES_MIN", 2000)
    monkeypatch.setattr(cleaning, "OWNED_DIRTY_BYTES_AT_ONCE", 2000)
    monkeypatch.setattr(snapshots, "BYTES_DUE", 2000)
    monkeypatch.setattr(snapshots, "POLL_S", 0.001)
    time = MockTime()
    async with serving(tmp_path, SETTINGS, time=time) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert broker.groups.life.settling
        time.move(SETTLING_MS - 1)
        assert not await broker.cleaning.clean_owned()
        assert not image.exists()
        time.move(1)
        await eventually(lambda: image.exists() and broker.cleaning.runs)
