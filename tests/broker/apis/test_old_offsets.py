"""Tests that OffsetCommit and OffsetFetch version 0 use the offsets under the ZooKeeper path
/consumers, not those of the offsets topic."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.topics.directory import consumer_paths
from broker.topics.directory.consumer_paths import FILE
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from protocol.buffer import Buffer
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.config_calls import SET, alter
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire


def commit(
    wire: Wire, version: int, topic: str, offset: int, partition: int = 0, metadata: str = ""
) -> int:
    entry = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": metadata,
    }
    topics = [{"name": topic, "partitions": [entry]}]
    answer = wire.call("OffsetCommit", version, {"group_id": topic, "topics": topics})
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def fetch(wire: Wire, version: int, topic: str, partition: int = 0) -> tuple[int, int]:
    topics = [{"name": topic, "partition_indexes": [partition]}]
    answer = wire.call("OffsetFetch", version, {"group_id": topic, "topics": topics})
    found = answer["topics"][0]["partitions"][0]
    return found["committed_offset"], found["error_code"]


def ready(wire: Wire, group_id: str) -> None:
    until(
        "the coordinator is found",
        lambda: wire.call("FindCoordinator", 0, {"key": group_id})["error_code"] == NONE,
    )


def test_version_0_offsets_are_separate_from_the_offsets_topic(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    ready(wire, name)

    assert fetch(wire, 0, name) == (-1, UNKNOWN_TOPIC_OR_PARTITION)
    assert commit(wire, 0, name, 7, metadata="goes") == NONE
    assert fetch(wire, 0, name) == (7, NONE)
    assert fetch(wire, 1, name) == (-1, NONE)
    assert commit(wire, 1, name, 9) == NONE
    assert (fetch(wire, 0, name), fetch(wire, 1, name)) == ((7, NONE), (9, NONE))


def test_version_0_and_1_commits_of_one_group_are_stored_independently(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, partitions=2)
    ready(wire, name)

    for offset in (3, 8):
        assert [commit(wire, version, name, offset, 1) for version in (0, 1)] == [NONE, NONE]

    assert [fetch(wire, version, name, 1) for version in (0, 1)] == [(8, NONE), (8, NONE)]


def test_version_0_commit_to_unknown_partition_or_with_long_metadata_fails(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)

    assert commit(wire, 0, f"no-{name}", 1) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, 0, name, 1, partition=5) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, 0, name, 1, metadata="x" * 4097) == OFFSET_METADATA_TOO_LARGE
    assert fetch(wire, 0, name) == (-1, UNKNOWN_TOPIC_OR_PARTITION)


def test_acknowledged_version_0_offset_survives_kill_9(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name)
        for offset in range(20):
            assert commit(wire, 0, name, offset) == NONE
    broker.kill()
    broker.start()

    with Wire(broker.port) as wire:
        assert fetch(wire, 0, name) == (19, NONE)


class RecordingFiles(OsFileSystem):
    """A file system that records writes and fsyncs of the file with the offsets of OffsetCommit
    version 0. Writes to this file fail while ``full`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.full = False

    def open(self, path: str, create: bool = False) -> OsFile:
        outer = self

        class Told(OsFile):
            def write(self, position: int, data: Buffer) -> None:
                if outer.full:
                    super().write(position, memoryview(data)[:5])
                    raise OSError(errno.ENOSPC, "no space left")
                super().write(position, data)
                outer.said.append("write")

            def fsync(self) -> None:
                super().fsync()
                outer.said.append("fsync")

        return (Told if path.endswith(FILE) else OsFile)(path, create)


@pytest.mark.parametrize("setting", ["log.flush.interval.messages", "flush.messages"])
async def test_version_0_commit_is_fsynced_before_its_response_with_flush_messages_1(
    tmp_path: Path, setting: str
) -> None:
    fs = RecordingFiles()
    whole = setting.startswith("log.")
    async with serving(tmp_path, {setting: "1"} if whole else {}, fs) as broker:

        def prepare(wire: Wire) -> None:
            create_topic(wire, "t")
            if not whole:
                ready(wire, "t")
                assert alter(wire, "__consumer_offsets", (setting, SET, "1")) == (NONE, None)

        await asked(broker, prepare)
        assert await asked(broker, lambda wire: commit(wire, 0, "t", 7)) == NONE
        assert fs.said == ["write", "fsync"]


async def test_version_0_commit_is_stored_after_a_failed_version_0_commit(
    tmp_path: Path,
) -> None:
    fs = RecordingFiles()
    async with serving(tmp_path, fs=fs) as broker:
        await asked(broker, lambda wire: (create_topic(wire, "t"), commit(wire, 0, "t", 1)))
        fs.full = True
        assert await asked(broker, lambda wire: commit(wire, 0, "t", 2)) == KAFKA_STORAGE_ERROR
        assert await asked(broker, lambda wire: fetch(wire, 0, "t")) == (1, NONE)
        fs.full = False
        assert await asked(broker, lambda wire: commit(wire, 0, "t", 3)) == NONE
    async with serving(tmp_path) as broker:
        assert await asked(broker, lambda wire: fetch(wire, 0, "t")) == (3, NONE)


async def test_file_of_version_0_offsets_is_rewritten_when_it_exceeds_its_maximum_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_paths, "_REWRITE_BYTES_MIN", 1_000)
    async with serving(tmp_path) as broker:

        def many(wire: Wire) -> None:
            create_topic(wire, "t")
            for offset in range(1000):
                assert commit(wire, 0, "t", offset) == NONE

        await asked(broker, many)
        await eventually("it is rewritten", lambda: (tmp_path / FILE).stat().st_size <= 1_100)
        assert await asked(broker, lambda wire: fetch(wire, 0, "t")) == (999, NONE)
