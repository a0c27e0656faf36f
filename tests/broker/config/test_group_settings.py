"""Tests that each group setting changes the responses to members."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.config.config import BadConfig
from broker.config.group_rules import (
    serves_consumer_groups,
    serves_share_groups,
    serves_streams_groups,
)
from broker.cores import loading
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from protocol.errors import GROUP_MAX_SIZE_REACHED, INVALID_SESSION_TIMEOUT, NONE
from tests.broker.config.served import GROUP, config, serving, shows
from tests.broker.edge import eventually
from tests.broker.mock_time import MockTime

NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


@shows("group.min.session.timeout.ms")
async def test_session_timeout_below_the_minimum_is_refused(tmp_path: Path) -> None:
    settings = {**NO_DELAY, "group.min.session.timeout.ms": 7_000}
    async with serving(tmp_path, settings) as served:
        assert await served.join(session_timeout_ms=6_999) == INVALID_SESSION_TIMEOUT
        assert await served.join(session_timeout_ms=7_000) == NONE


@shows("group.min.session.timeout.ms")
async def test_minimum_session_timeout_can_be_set_below_the_default_of_kafka(
    tmp_path: Path,
) -> None:
    settings = {**NO_DELAY, "group.min.session.timeout.ms": 100}
    async with serving(tmp_path, settings) as served:
        assert await served.join(session_timeout_ms=100) == NONE


@shows("group.max.session.timeout.ms")
async def test_session_timeout_above_the_maximum_is_refused(tmp_path: Path) -> None:
    settings = {**NO_DELAY, "group.max.session.timeout.ms": 8_000}
    async with serving(tmp_path, settings) as served:
        assert await served.join(session_timeout_ms=8_001) == INVALID_SESSION_TIMEOUT
        assert await served.join(session_timeout_ms=8_000) == NONE


@shows("group.initial.rebalance.delay.ms")
async def test_first_join_of_a_group_waits_for_the_initial_rebalance_delay(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": 20_000}
    async with serving(tmp_path, settings) as served:
        join = served.send_join()
        await eventually(served.hosted.core.view.parked)

        served.pass_ms(19_999)
        assert served.hosted.core.view.parked(), "it still waits"
        served.pass_ms(1)
        assert (await served.client.receive(join))["error_code"] == NONE


@shows("group.initial.rebalance.delay.ms")
async def test_first_join_is_answered_immediately_when_initial_rebalance_delay_is_0(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, NO_DELAY) as served:
        assert await served.join() == NONE


@shows("group.max.size")
async def test_join_is_refused_when_the_group_has_its_maximum_number_of_members(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, {**NO_DELAY, "group.max.size": 1}) as served:
        assert await served.join() == NONE
        assert await served.join() == GROUP_MAX_SIZE_REACHED
        assert await served.join(group_id="another") == NONE


@shows("group.coordinator.append.linger.ms")
async def test_append_linger_collects_commits_into_one_batch(tmp_path: Path) -> None:
    settings = {"group.coordinator.append.linger.ms": 1_000}
    async with serving(tmp_path, settings) as served:
        first = served.client.send_commit(GROUP, 1)
        await eventually(lambda: served.hosted.accepted == 1)
        second = served.client.send_commit(GROUP, 2)
        await eventually(lambda: served.hosted.accepted == 2)
        assert served.hosted.appended == 0, "nothing is written yet"

        await served.client.receive(first)
        await served.client.receive(second)
        assert [header.record_count for _, header in served.hosted.log.scan()] == [2]


@shows("group.coordinator.append.linger.ms")
async def test_commits_are_appended_separately_when_append_linger_is_0(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for offset in (1, 2):
            assert await served.client.commit(GROUP, offset) == NONE
        assert [header.record_count for _, header in served.hosted.log.scan()] == [1, 1]


class ReadingOrder(OsFileSystem):
    """A file system that records the order of reads from the partitions of the offsets topic."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def open(self, path: str, create: bool = False) -> OsFile:
        return _NotedFile(self, path, create)


class _NotedFile(OsFile):
    def __init__(self, disk: ReadingOrder, path: str, create: bool) -> None:
        super().__init__(path, create)
        self.disk = disk

    def read(self, position: int, length: int) -> bytes:
        folder = Path(self.path).parent.name
        if folder.startswith("__consumer_offsets-"):  # not the checkpoints of the data directory
            self.disk.read.append(folder)
        return super().read(position, length)


async def call_without_a_thread(_: MockTime, work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


@pytest.mark.parametrize(("threads", "one_by_one"), [(1, True), (2, False)])
@shows("group.coordinator.threads")
async def test_coordinator_threads_limit_concurrent_loads_of_partitions(
    threads: int, one_by_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread, the partitions are loaded one after the other. With two threads, the reads
    of two partitions alternate."""
    async with serving(tmp_path) as served:
        for group_id in ("group-a", "group-b"):
            for offset in range(20):
                assert await served.client.commit(group_id, offset) == NONE
        assert all(hosted.appended == 20 for hosted in served.broker.groups.hosted_shards)

    monkeypatch.setattr(loading, "SLICE_NS", 0)
    # Otherwise a slow check for a snapshot could let the other partition load first.
    monkeypatch.setattr(MockTime, "in_thread", call_without_a_thread)
    disk = ReadingOrder()
    settings = {"group.coordinator.threads": threads, "offsets.load.buffer.size": 100}
    async with serving(tmp_path, settings, fs=disk, opened=disk.read.clear) as served:
        turns = sum(a != b for a, b in zip(disk.read, disk.read[1:], strict=False))
        assert (turns == 1) == one_by_one, disk.read
        assert await served.client.fetch("group-a") == 19
        assert await served.client.fetch("group-b") == 19


@pytest.mark.parametrize(
    ("protocols", "sentence"),
    [
        (
            "share,consumer,classic,unknown",
            "Muster serves the classic, consumer, share and streams protocols, not unknown: set"
            " group.coordinator.rebalance.protocols=classic,consumer,share,streams",
        ),
        ("consumer", "the classic protocol can't be disabled"),
        ("classic,other", "it must be one of consumer, classic, share, streams, unknown"),
    ],
)
@shows("group.coordinator.rebalance.protocols")
def test_unsupported_rebalance_protocols_are_refused_at_start(
    protocols: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadConfig) as refused:
        config(tmp_path, **{"group.coordinator.rebalance.protocols": protocols})
    assert sentence in str(refused.value)
    assert str(refused.value).startswith("group.coordinator.rebalance.protocols=")


@shows("group.coordinator.rebalance.protocols")
@pytest.mark.parametrize(
    ("protocols", "serves_consumer", "serves_share", "serves_streams"),
    [
        ("classic", False, False, False),
        ("classic,consumer", True, False, False),
        ("consumer,classic", True, False, False),
        ("classic,share", False, True, False),
        ("classic,consumer,share", True, True, False),
        ("streams,classic", False, False, True),
        ("classic,consumer,share,streams", True, True, True),
    ],
)
def test_rebalance_protocols_that_muster_supports_are_accepted(
    protocols: str,
    serves_consumer: bool,
    serves_share: bool,
    serves_streams: bool,
    tmp_path: Path,
) -> None:
    name = "group.coordinator.rebalance.protocols"
    settings = config(tmp_path, **{name: protocols})
    assert settings[name] == protocols
    assert serves_consumer_groups(settings) == serves_consumer
    assert serves_share_groups(settings) == serves_share
    assert serves_streams_groups(settings) == serves_streams


async def test_journal_file_max_bytes_limits_journal_files_and_value_0_disables_them(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, {**NO_DELAY, "group.journal.file.max.bytes": 0}) as served:
        await served.join()
    assert not list(tmp_path.glob("groups.journal*"))
    async with serving(tmp_path, {**NO_DELAY, "group.journal.file.max.bytes": 1}) as served:
        for number in range(300):
            await served.join(group_id=f"group-{number}")
    sizes = [path.stat().st_size for path in tmp_path.glob("groups.journal*")]
    assert len(sizes) == 2
    assert max(sizes) <= 32 << 10, "two halves of the least there is"
