"""Tests snapshots on real logs: shorter loads, and each kind of invalid snapshot."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.cores import snapshots
from broker.cores.groups.kind import GROUPS as KIND
from broker.cores.groups.kind import IMAGE
from broker.cores.snapshots import NEEDED_BY_NONE, Snapshots
from broker.loop.slices import Slicer
from broker.time import Time
from coordinator.shard import GroupShard
from log.files.filesystem import File, OsFileSystem
from log.partition_log import PartitionLog
from offsets.record_codec import run_records
from offsets.runs import OffsetRun
from offsets.snapshot_image import read_image
from protocol.errors import NONE
from protocol.messages.delete_groups import API as DELETE_GROUPS
from protocol.records import message_set
from protocol.records.batch import assemble_batch, encode_batch, iter_batches
from protocol.records.convert import down_convert
from tests.broker.edge import GROUPS, EdgeBroker, eventually
from tests.uncollected import uncollected

TOPIC_ID = bytes([9]) * 16
GONE = -1


class Broker(EdgeBroker):
    """A broker whose offsets topic has a topic id, and which therefore writes snapshots."""

    topic_id = TOPIC_ID

    async def ensure_offsets_topic(self) -> bool:
        if not self.groups.hosted_shards:
            self.groups.start(self.open_partitions(), self.topic_id)
        return True

    @property
    def snapshots(self) -> Snapshots:
        assert self.groups.life.snapshots is not None
        return self.groups.life.snapshots

    async def write(self, partition: int = 0) -> bool:
        return await self.snapshots.write(self.groups.hosted_shards[partition])


def partition_folder(directory: Path, partition: int = 0) -> Path:
    return directory / f"__consumer_offsets-{partition}"


def image_file(directory: Path) -> Path:
    return partition_folder(directory) / IMAGE


def batches(directory: Path) -> list[bytes]:
    data = (partition_folder(directory) / f"{0:020}.log").read_bytes()
    return [data[header.position : header.end] for header, _ in iter_batches(data)]


def rewrite(directory: Path, kept: list[bytes]) -> None:
    """Replaces the batches of the log, as a cleaner or a copy would. Removes the indexes of the
    log."""
    folder = partition_folder(directory)
    for path in folder.glob(f"{0:020}.*"):
        path.unlink()
    (folder / f"{0:020}.log").write_bytes(b"".join(kept))


def commit_batch(group_id: str, offset: int, base_offset: int) -> bytes:
    run = OffsetRun(group_id, "orders", [0], [offset], [-1], None, 1_700_000_000_000)
    return assemble_batch(run_records(run, 0), 1, base_offset, 0, 0)


async def make_history(directory: Path) -> None:
    """Writes five records in one batch each: commits of the groups a, b and c, the deletion of
    group a, and a commit of group d. Writes a snapshot after the commit of group b."""
    async with Broker(directory, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit("a", 1) == NONE
        assert await client.commit("b", 2) == NONE
        assert await broker.write()
        assert await client.commit("c", 3) == NONE
        deleted = await client.call(DELETE_GROUPS.key, 1, groups_names=["a"])
        assert deleted["results"][0]["error_code"] == NONE
        assert await client.commit("d", 4) == NONE
    assert len(batches(directory)) == 5


async def content_after_start(
    directory: Path, topic_id: bytes = TOPIC_ID
) -> tuple[dict[str, int], int]:
    """Starts a broker. Returns the offsets of the groups a to d, and the begin offset of the loaded
    snapshot, or -1 if no snapshot was loaded."""
    broker = Broker(directory, partitions=1)
    broker.topic_id = topic_id
    async with broker:
        await eventually(lambda: not broker.groups.life.loading)
        client = await broker.client()
        found = {group_id: await client.fetch(group_id) for group_id in "abcd"}
        return found, broker.groups.hosted_shards[0].loaded_from


async def test_start_loads_the_snapshot_and_the_log_after_the_snapshot(tmp_path: Path) -> None:
    await make_history(tmp_path)

    assert await content_after_start(tmp_path) == ({"a": GONE, "b": 2, "c": 3, "d": 4}, 2)
    assert image_file(tmp_path).exists()


async def test_members_are_restored_from_a_snapshot(tmp_path: Path) -> None:
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        member_id, generation_id = await client.join_alone("solo")
        assert await broker.write()

    async with Broker(tmp_path, partitions=1) as again:
        await eventually(lambda: not again.groups.life.loading)
        hosted = again.groups.hosted_shards[0]
        assert (hosted.loaded_from, hosted.loaded_records) == (hosted.log.log_end_offset, 0)
        client = await again.client()
        assert await client.heartbeat("solo", member_id, generation_id) == NONE
        commit = {"member_id": member_id, "generation_id": generation_id}
        assert await client.commit("solo", 7, **commit) == NONE
        assert hosted.core.view.groups["solo"].record_offset == 0


# ------------------------------------------------------ snapshots that would restore deleted state


def a_tombstone_was_cleaned_away(directory: Path) -> None:
    _a, b, c, _tombstone, d = batches(directory)
    rewrite(directory, [b, c, d])


def a_tombstone_was_cleaned_away_and_its_batch_stayed(directory: Path) -> None:
    a, b, c, _tombstone, d = batches(directory)
    rewrite(directory, [a, b, c, encode_batch([], base_offset=3, last_offset=3), d])


def the_log_lost_its_end(directory: Path) -> None:
    rewrite(directory, batches(directory)[:1])


def the_log_lost_its_end_and_grew_again(directory: Path) -> None:
    others = [commit_batch("d", 40 + offset, offset) for offset in range(1, 5)]
    rewrite(directory, [*batches(directory)[:1], *others])


def the_log_is_another_one(directory: Path) -> None:
    rewrite(directory, [commit_batch("d", offset, offset) for offset in range(9)])


def the_log_is_empty(directory: Path) -> None:
    rewrite(directory, [])


def a_byte_has_changed(directory: Path) -> None:
    data = bytearray(image_file(directory).read_bytes())
    data[len(data) // 2] ^= 1
    image_file(directory).write_bytes(data)


def it_is_torn(directory: Path) -> None:
    data = image_file(directory).read_bytes()
    image_file(directory).write_bytes(data[:-50])


def it_has_no_bytes(directory: Path) -> None:
    image_file(directory).write_bytes(b"")


def it_is_zeros(directory: Path) -> None:
    image_file(directory).write_bytes(bytes(len(image_file(directory).read_bytes())))


WHOLE = {"a": GONE, "b": 2, "c": 3, "d": 4}
LIES: list[tuple[Callable[[Path], None], dict[str, int], str]] = [
    (a_tombstone_was_cleaned_away, WHOLE, "the log was compacted"),
    (
        a_tombstone_was_cleaned_away_and_its_batch_stayed,
        {**WHOLE, "a": 1},
        "the log was compacted",
    ),
    (the_log_lost_its_end, {"a": 1, "b": GONE, "c": GONE, "d": GONE}, "after the log end offset"),
    (the_log_lost_its_end_and_grew_again, {"a": 1, "b": GONE, "c": GONE, "d": 44}, "has changed"),
    (the_log_is_another_one, {"a": GONE, "b": GONE, "c": GONE, "d": 8}, "has changed"),
    (the_log_is_empty, {"a": GONE, "b": GONE, "c": GONE, "d": GONE}, "after the log end offset"),
    (a_byte_has_changed, WHOLE, "checksum"),
    (it_is_torn, WHOLE, "block"),
    (it_has_no_bytes, WHOLE, "incomplete"),
    (it_is_zeros, WHOLE, "checksum"),
]


@pytest.mark.parametrize(("lie", "truth", "reason"), LIES, ids=lambda x: getattr(x, "__name__", ""))
async def test_snapshot_that_does_not_match_the_log_is_logged_and_deleted(
    tmp_path: Path,
    lie: Callable[[Path], None],
    truth: dict[str, int],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await make_history(tmp_path)
    lie(tmp_path)
    capsys.readouterr()

    assert await content_after_start(tmp_path) == (truth, -1)
    assert not image_file(tmp_path).exists()
    told = capsys.readouterr().out
    assert "snapshot of groups not valid" in told
    assert reason in told


async def test_start_deletes_a_snapshot_if_the_offsets_topic_was_recreated(
    tmp_path: Path,
) -> None:
    await make_history(tmp_path)

    assert await content_after_start(tmp_path, topic_id=bytes([8]) * 16) == (WHOLE, -1)
    assert not image_file(tmp_path).exists()


async def test_snapshot_of_another_partition_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await make_history(tmp_path)
    (tmp_path / "other").mkdir()
    async with Broker(tmp_path / "other", partitions=2) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for number in range(9):
            assert await client.commit(f"stranger-{number}", number) == NONE
        assert await broker.write(1)
    image = partition_folder(tmp_path / "other", 1) / IMAGE
    shutil.copy(image, image_file(tmp_path))

    assert await content_after_start(tmp_path) == (WHOLE, -1)
    assert "the snapshot belongs to another partition, 1" in capsys.readouterr().out


async def test_snapshot_is_deleted_when_the_log_start_offset_has_advanced(
    tmp_path: Path,
) -> None:
    await make_history(tmp_path)
    log = Broker(tmp_path, partitions=1).open_partitions()[0].log
    assert Snapshots(KIND, TOPIC_ID, lambda _: 0, Slicer(Time())).read(log) is not None
    log.log_start_offset = 1

    assert Snapshots(KIND, TOPIC_ID, lambda _: 0, Slicer(Time())).read(log) is None
    assert not image_file(tmp_path).exists()


# ------------------------------------------------------------------- written during commits


async def commit_during_snapshot(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes a snapshot with one group per slice, and commits between the slices."""
    monkeypatch.setattr(snapshots, "SLICE_NS", -1)
    client = await broker.client()
    for number in range(300):
        assert await client.commit(f"g-{number}", 1) == NONE
    writing = asyncio.create_task(broker.write())
    handles = [client.send_commit(f"g-{number}", 2) for number in range(0, 300, 7)]
    handles.append(client.send_commit("late", 3))
    for handle in handles:
        await client.receive(handle)
    assert await writing


async def test_commits_are_answered_while_a_snapshot_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        await commit_during_snapshot(broker, monkeypatch)
        live = {g: list(broker.groups.hosted_shards[0].core.view.offsets.entries(g))
                for g in broker.groups.hosted_shards[0].core.view.offsets.groups()}  # fmt: skip
    image = read_image(image_file(tmp_path).read_bytes())
    assert image.head.begin_offset == 300
    assert image.end.end_offset > 300, "no commit came in between"

    async with Broker(tmp_path, partitions=1) as again:
        await eventually(lambda: not again.groups.life.loading)
        hosted = again.groups.hosted_shards[0]
        assert hosted.loaded_from == 300
        cache = hosted.core.view.offsets
        assert {g: list(cache.entries(g)) for g in cache.groups()} == live


async def test_snapshot_is_refused_when_power_loss_removed_its_last_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        await commit_during_snapshot(broker, monkeypatch)
    end = read_image(image_file(tmp_path).read_bytes()).end.end_offset
    below = [data for data in batches(tmp_path) if int.from_bytes(data[:8], "big") < 300]
    grown = [commit_batch("a", number, number) for number in range(300, end + 5)]
    rewrite(tmp_path, below + grown)

    found, loaded_from = await content_after_start(tmp_path)
    assert loaded_from == -1
    assert found["a"] == end + 4
    assert f"the batch before offset {end} has changed" in capsys.readouterr().out


async def test_unfinished_snapshot_is_removed_when_the_shard_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SLICE_NS", -1)
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for number in range(20):
            await client.commit(f"g-{number}", number)
        writing = asyncio.create_task(broker.write())
        await asyncio.sleep(0)
        broker.groups.hosted_shards[0].core = GroupShard(GROUPS)

        assert not await writing
        assert not image_file(tmp_path).exists()
        assert broker.snapshots.oldest_needed(0) == NEEDED_BY_NONE


class FailingFiles(OsFileSystem):
    """A file system on which the n-th and all later operations on a snapshot file fail."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_at = 1 << 30
        self.steps = 0

    def _step(self, path: str) -> None:
        if IMAGE in path:
            self.steps += 1
            if self.steps >= self.fails_at:
                raise OSError(28, "No space left on device", path)

    def open(self, path: str, create: bool = False) -> File:  # type: ignore[override]
        self._step(path)
        return super().open(path, create)

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        self._step(old)
        super().rename(old, new, file)

    def remove(self, path: str) -> None:
        self._step(path)
        super().remove(path)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
async def test_previous_snapshot_is_kept_when_a_snapshot_write_fails(
    tmp_path: Path, fails_at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fs = FailingFiles()
    async with Broker(tmp_path, partitions=1, fs=fs) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        await client.commit("a", 1)
        assert await broker.write()
        await client.commit("a", 2)
        fs.fails_at = fs.steps + fails_at
        assert not await broker.write()
        assert "can't be written" in capsys.readouterr().out
        assert broker.snapshots.oldest_needed(0) == 1
        assert await client.commit("b", 3) == NONE

    found, loaded_from = await content_after_start(tmp_path)
    assert (found["a"], found["b"], loaded_from) == (2, 3, 1)
    assert sorted(p.name for p in partition_folder(tmp_path).glob("groups*")) == [IMAGE]


async def test_snapshot_is_not_started_while_another_snapshot_is_written(tmp_path: Path) -> None:
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit("a", 1) == NONE
        assert await asyncio.gather(broker.write(), broker.write()) == [True, False]

    found, loaded_from = await content_after_start(tmp_path)
    assert (found["a"], loaded_from) == (1, 1)


# ---------------------------------------------------------------------- when a snapshot is written


async def test_snapshot_is_written_after_many_appends_and_after_a_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "POLL_S", 0.001)
    monkeypatch.setattr(snapshots, "BYTES_DUE", 5000)
    cleaned: dict[int, int] = {}
    broker = Broker(tmp_path, partitions=1, cleaned_to=lambda partition: cleaned.get(partition, 0))
    async with broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for number in range(60):
            await client.commit("a", number, partitions=3)
        await eventually(lambda: broker.snapshots.written >= 1)
        begin = broker.snapshots.oldest_needed(0)
        assert 0 < begin <= 180
        await client.commit("a", 99)
        end = broker.groups.hosted_shards[0].log.log_end_offset
        cleaned[0] = end
        await eventually(lambda: broker.snapshots.oldest_needed(0) == end)


async def test_clean_stop_writes_a_snapshot_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "BYTES_DUE_AT_STOP", 100)
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit("a", 1, partitions=3) == NONE
        await broker.groups.life.save()

    found, loaded_from = await content_after_start(tmp_path)
    assert (found["a"], loaded_from) == (1, 3)


async def test_write_and_load_of_a_large_snapshot_block_the_loop_less_than_20_ms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "BYTES_DUE", 1 << 40)  # Only the requested snapshot is written.
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for start in range(0, 3000, 100):
            handles = [
                client.send_commit(f"group-{n}", n, topic="payments", partitions=20)
                for n in range(start, start + 100)
            ]
            for handle in handles:
                await client.receive(handle)
        writing = asyncio.create_task(broker.write())
        longest_write = await longest_turn(writing.done)
        assert await writing

    again = Broker(tmp_path, partitions=1)
    await again.ensure_offsets_topic()
    longest_load = await longest_turn(lambda: not again.groups.life.loading)
    assert again.groups.hosted_shards[0].loaded_from == 60_000
    assert again.groups.hosted_shards[0].core.view.offsets.count() == 60_000
    assert longest_write < 0.020
    assert longest_load < 0.020
    async with again:
        assert await (await again.client()).fetch("group-2999", "payments") == 2999


async def longest_turn(over: Callable[[], bool]) -> float:
    """Returns the maximum CPU time in seconds of this thread in one iteration of the event loop,
    until ``over`` returns true."""
    longest = 0.0
    with uncollected():
        while not over():
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
    return longest


def test_function_mark_below_describes_the_batch_that_ends_at_the_given_offset(
    tmp_path: Path,
) -> None:
    log: PartitionLog
    log = Broker(tmp_path, partitions=1).open_partitions()[0].log
    log.append_encoded(commit_batch("a", 1, 0), 0, 0, 0)
    assert snapshots.mark_below(log, 0) is None
    assert snapshots.mark_below(log, 2) is None
    mark = snapshots.mark_below(log, 1)
    assert mark is not None
    assert mark.base_offset == 0
    assert mark.crc == int.from_bytes(commit_batch("a", 1, 0)[17:21], "big")


@pytest.mark.parametrize("codec", [0, 1])
async def test_snapshot_can_begin_after_messages_of_an_old_format(
    tmp_path: Path, codec: int
) -> None:
    async with Broker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for offset, group_id in enumerate("ab"):
            assert await client.commit(group_id, offset + 1) == NONE
    records = message_set.decode(down_convert(b"".join(batches(tmp_path)), 1).data)
    assert [record.offset for record in records] == [0, 1]
    rewrite(tmp_path, [message_set.encode(records, 1, codec)])
    image_file(tmp_path).unlink(missing_ok=True)

    async with Broker(tmp_path, partitions=1) as broker:
        await eventually(lambda: not broker.groups.life.loading)
        assert broker.groups.hosted_shards[0].loaded_records == 2
        assert await broker.write()
        client = await broker.client()
        assert await client.commit("c", 3) == NONE
        assert await client.commit("d", 4) == NONE

    assert await content_after_start(tmp_path) == ({"a": 1, "b": 2, "c": 3, "d": 4}, 2)
