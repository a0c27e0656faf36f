"""Tests that settings of committed offsets and of the offsets topic change responses and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.config.config import BadConfig
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from log.segment import LOCATE_CHUNK_BYTES
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NONE, OFFSET_METADATA_TOO_LARGE
from protocol.messages.metadata import API as METADATA
from protocol.messages.offset_commit import API as OFFSET_COMMIT
from tests.broker.config.served import GROUP, MINUTE_MS, Served, config, serving, shows
from tests.broker.edge import eventually

FLUSHED = {"log.flush.interval.messages": 1}
GONE = -1


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as written:
        yield written


async def commit_metadata(served: Served, metadata: str) -> int:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": metadata}
    reply = await served.client.call(
        OFFSET_COMMIT.key,
        8,
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "orders", "partitions": [partition]}],
    )
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


@shows("offset.metadata.max.bytes")
async def test_offset_metadata_above_the_maximum_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, {"offset.metadata.max.bytes": 10}) as served:
        assert await commit_metadata(served, "0123456789") == NONE
        assert await commit_metadata(served, "0123456789a") == OFFSET_METADATA_TOO_LARGE


@shows("offset.metadata.max.bytes")
async def test_maximum_size_of_commit_metadata_can_be_set_above_the_default_of_kafka(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, {"offset.metadata.max.bytes": 5000}) as served:
        assert await commit_metadata(served, "m" * 5000) == NONE


@shows("offsets.retention.minutes")
async def test_offsets_expire_after_the_retention_minutes(tmp_path: Path) -> None:
    settings = {
        "offsets.retention.minutes": 30,
        "offsets.retention.check.interval.ms": MINUTE_MS,
    }
    async with serving(tmp_path, settings) as served:
        assert await served.client.commit(GROUP, 5) == NONE

        served.pass_ms(29 * MINUTE_MS)
        assert await served.client.fetch(GROUP) == 5
        served.pass_ms(2 * MINUTE_MS)
        assert await served.client.fetch(GROUP) == GONE


@shows("offsets.retention.check.interval.ms")
async def test_expired_offsets_are_removed_at_the_check_interval(tmp_path: Path) -> None:
    settings = {
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 30 * MINUTE_MS,
    }
    async with serving(tmp_path, settings) as served:
        assert await served.client.commit(GROUP, 5) == NONE

        served.pass_ms(29 * MINUTE_MS)
        assert await served.client.fetch(GROUP) == 5, "expired long ago, and nobody has looked"
        served.pass_ms(MINUTE_MS)
        assert await served.client.fetch(GROUP) == GONE


@shows("offsets.topic.num.partitions")
async def test_offsets_topic_is_created_with_the_configured_partitions(tmp_path: Path) -> None:
    async with serving(tmp_path, {"offsets.topic.num.partitions": 7}) as served:
        reply = await served.client.call(METADATA.key, 1, topics=[{"name": "__consumer_offsets"}])

        assert len(reply["topics"][0]["partitions"]) == 7
        assert len(served.broker.groups.hosted_shards) == 7, "groups are spread over all of them"
        assert len(list(tmp_path.glob("__consumer_offsets-*"))) == 7


@shows("offsets.topic.num.partitions")
async def test_changed_offsets_topic_num_partitions_is_ignored_with_a_warning(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with serving(tmp_path, {"offsets.topic.num.partitions": 2}) as served:
        assert await served.client.commit(GROUP, 5) == NONE
    lines.clear()
    async with serving(tmp_path, {"offsets.topic.num.partitions": 3}) as served:
        assert await served.client.fetch(GROUP) == 5

    (warning,) = [line for line in lines if "offsets.topic.num.partitions" in line["event"]]
    assert (warning["log_level"], warning["wanted"], warning["partitions"]) == ("warning", 3, 2)


@shows("offsets.topic.segment.bytes")
async def test_segment_of_the_offsets_topic_rolls_at_segment_bytes(tmp_path: Path) -> None:
    async with serving(tmp_path, {"offsets.topic.segment.bytes": 1000}) as served:
        for offset in range(30):
            assert await served.client.commit(GROUP, offset) == NONE

        sizes = [segment.size for segment in served.hosted.log.segments]
        assert len(sizes) > 2
        assert max(sizes) <= 1000
        assert await served.client.fetch(GROUP) == 29


@shows("offsets.topic.replication.factor")
async def test_lowered_offsets_replication_factor_is_logged(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with serving(tmp_path, {"offsets.topic.replication.factor": 3}) as served:
        reply = await served.client.call(METADATA.key, 1, topics=[{"name": "__consumer_offsets"}])
        replicas = {len(entry["replica_nodes"]) for entry in reply["topics"][0]["partitions"]}
    assert replicas == {1}

    (lowered,) = [line for line in lines if "replication.factor" in line["event"]]
    assert "lowered to 1" in lowered["event"]
    assert lowered["wanted"] == 3


@shows("offsets.topic.replication.factor")
async def test_start_logs_nothing_about_an_offsets_replication_factor_of_1(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with serving(tmp_path, {"offsets.topic.replication.factor": 1}):
        pass
    assert not [line for line in lines if "replication.factor" in line["event"]]


@pytest.mark.parametrize("codec", range(5))
@shows("offsets.topic.compression.codec")
async def test_batches_of_the_offsets_topic_have_the_configured_codec(
    codec: int, tmp_path: Path
) -> None:
    async with serving(tmp_path, {"offsets.topic.compression.codec": codec}) as served:
        assert await served.client.commit(GROUP, 5) == NONE
        ((_, header),) = served.hosted.log.scan()
        assert header.compression == codec
    async with serving(tmp_path) as served:
        assert await served.client.fetch(GROUP) == 5, "whatever the codec, it is read back"


@shows("offsets.topic.compression.codec")
def test_unknown_codec_of_the_offsets_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"offsets.topic.compression.codec=5: it must be 0 \(none"):
        config(tmp_path, **{"offsets.topic.compression.codec": 5})


@shows("offsets.commit.timeout.ms")
async def test_commit_fails_when_its_flush_exceeds_the_commit_timeout(tmp_path: Path) -> None:
    settings = {**FLUSHED, "offsets.commit.timeout.ms": 700}
    async with serving(tmp_path, settings) as served:
        assert await served.client.commit(GROUP, 1) == NONE
        with served.held_flush():
            late = served.client.send_commit(GROUP, 2)
            await eventually(lambda: served.hosted.partition.waiting)

            served.pass_ms(699)
            assert served.hosted.partition.waiting, "it still waits"
            served.pass_ms(1)
            reply = await served.client.receive(late)
            assert reply["topics"][0]["partitions"][0]["error_code"] == COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("acks", [-1, 1])
@shows("offsets.commit.required.acks")
async def test_commit_is_answered_after_its_record_is_flushed(acks: int, tmp_path: Path) -> None:
    async with serving(tmp_path, {**FLUSHED, "offsets.commit.required.acks": acks}) as served:
        with served.held_flush():
            commit = served.client.send_commit(GROUP, 2)
            await eventually(lambda: served.hosted.appended == 1)
            assert served.hosted.partition.waiting, "written, not flushed, not answered"
        reply = await served.client.receive(commit)
        assert reply["topics"][0]["partitions"][0]["error_code"] == NONE


@shows("offsets.commit.required.acks")
async def test_commit_is_answered_before_the_flush_when_required_acks_is_0(tmp_path: Path) -> None:
    async with serving(tmp_path, {**FLUSHED, "offsets.commit.required.acks": 0}) as served:
        with served.held_flush():
            assert await served.client.commit(GROUP, 2) == NONE
            assert served.hosted.partition.high_watermark == 0
        assert await served.client.fetch(GROUP) == 2, "and it is kept all the same"


@shows("offsets.commit.required.acks")
@pytest.mark.parametrize("acks", [-2, 2])
def test_offsets_commit_required_acks_outside_the_bounds_is_refused(
    acks: int, tmp_path: Path
) -> None:
    with pytest.raises(BadConfig, match=f"required.acks={acks}: it must be -1, 0 or 1"):
        config(tmp_path, **{"offsets.commit.required.acks": acks})


class ReadSizes(OsFileSystem):
    """A file system that records the size of each read from a segment."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def open(self, path: str, create: bool = False) -> OsFile:
        return _MeasuredFile(self, path, create)


class _MeasuredFile(OsFile):
    def __init__(self, disk: ReadSizes, path: str, create: bool) -> None:
        super().__init__(path, create)
        self.disk = disk

    def read(self, position: int, length: int) -> bytes:
        data = super().read(position, length)
        if self.path.endswith(".log"):
            self.disk.sizes.append(len(data))
        return data


@shows("offsets.load.buffer.size")
async def test_offsets_load_buffer_size_limits_each_read_of_the_log(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for offset in range(50):
            assert await served.client.commit(GROUP, offset) == NONE
        size = served.hosted.log.size_bytes

    disk = ReadSizes()
    settings = {"offsets.load.buffer.size": 500}
    async with serving(tmp_path, settings, fs=disk, opened=disk.sizes.clear) as served:
        loads = [size for size in disk.sizes if size != LOCATE_CHUNK_BYTES]
        assert max(loads) <= 500
        assert sum(loads) >= size, "all of it was read in such pieces"
        assert await served.client.fetch(GROUP) == 49
