"""Tests the turns of the runtime: shared appends, replies that wait for the log, and failures of
the log."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.cores.hosted_shard import HostedShard, Phase
from broker.cores.runtime_settings import RuntimeSettings
from broker.loop.slices import Slicer
from broker.time import Time
from coordinator.config import GroupConfig
from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from log.partition_log import PartitionLog
from protocol.buffer import Buffer
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.sync_group import API as SYNC_GROUP
from protocol.now import Now
from tests.broker.edge import GROUPS, Client, EdgeBroker, eventually
from tests.broker.mock_time import MockTime

HERE, THERE = "group-a", "group-b"
"""Two groups that belong to different shards."""


class FullDisk(OsFileSystem):
    """A file system whose writes to segments fail while ``full`` is set. Its fsyncs fail while
    ``broken`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.broken = False
        self.writes: list[str] = []

    def open(self, path: str, create: bool = False) -> OsFile:
        return _File(self, path, create)


class _File(OsFile):
    def __init__(self, disk: FullDisk, path: str, create: bool) -> None:
        super().__init__(path, create)
        self.disk = disk

    def write(self, position: int, data: Buffer) -> None:
        if self.path.endswith(".log"):
            if self.disk.full:
                raise OSError(28, "No space left on device")
            self.disk.writes.append(self.path)
        super().write(position, data)

    def fsync(self) -> None:
        if self.disk.broken:
            raise OSError(5, "Input/output error")
        super().fsync()


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


def hosted_of(broker: EdgeBroker, group_id: str) -> HostedShard:
    hosted = broker.groups.hosted_for(group_id)
    assert hosted is not None
    return hosted


def batches(log: PartitionLog) -> list[tuple[int, int]]:
    """Returns base offset and record count of each batch."""
    return [(header.base_offset, header.record_count) for _, header in log.scan()]


async def test_commits_that_arrive_together_share_one_append(tmp_path: Path) -> None:
    disk = FullDisk()
    async with EdgeBroker(tmp_path, fs=disk, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        handles = [client.send_commit(HERE, offset) for offset in range(1000)]
        for handle in handles:
            await client.receive(handle)

        (log,) = broker.logs
        assert log.log_end_offset == 1000
        assert len(disk.writes) == len(batches(log)) <= 20, "as many as the socket was read"
        assert await client.fetch(HERE) == 999


async def test_reply_is_sent_after_its_record_is_written(tmp_path: Path) -> None:
    disk = FullDisk()
    async with EdgeBroker(tmp_path, fs=disk) as broker:
        await broker.ensure_offsets_topic()
        seen: list[tuple[int, int]] = []
        hosted = hosted_of(broker, HERE)
        appended = hosted.partition.appended

        def spy(size_bytes: int) -> None:
            seen.append((len(disk.writes), hosted.partition.waiting))
            appended(size_bytes)

        hosted.partition.appended = spy  # type: ignore[method-assign]
        client = await broker.client()
        assert await client.commit(HERE, 5) == NONE

        assert seen[-1] == (1, 1), "one write was made when the one held reply went"
        assert all(held == 0 for writes, held in seen if not writes)


async def test_fetch_after_a_commit_in_the_same_turn_returns_the_commit(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        commit, fetch = client.send_commit(HERE, 7), client.send_fetch(HERE)

        await client.receive(commit)
        reply = await client.receive(fetch)
        assert reply["topics"][0]["partitions"][0]["committed_offset"] == 7


async def test_records_of_one_offset_commit_are_in_one_batch(tmp_path: Path) -> None:
    """The records of one request with 100 partitions need about 6 kB. A batch of 20 kB contains
    three whole requests."""
    settings = RuntimeSettings(GroupConfig(min_session_timeout_ms=100, max_record_bytes=20_000))
    async with EdgeBroker(tmp_path, settings=settings, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        handles = [
            client.send_commit(HERE, offset, topic="payments", partitions=100)
            for offset in range(20)
        ]
        for handle in handles:
            await client.receive(handle)

        counts = [count for _, count in batches(broker.logs[0])]
        assert sum(counts) == 2000
        assert all(count % 100 == 0 for count in counts)
        assert max(counts) == 300 or len(counts) == 20
        assert all(header.size_bytes <= 20_000 for _, header in broker.logs[0].scan())


async def test_batches_of_one_turn_are_written_to_several_segments(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy="compact", segment_bytes=4096)
    settings = RuntimeSettings(
        GroupConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=0, max_record_bytes=1024)
    )
    async with EdgeBroker(tmp_path, settings=settings, partitions=1, log_config=config) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        handles = [client.send_commit(HERE, offset) for offset in range(500)]
        for handle in handles:
            await client.receive(handle)

        log = broker.logs[0]
        assert len(log.segments) > 5
        assert all(segment.size <= 4096 for segment in log.segments)
        assert sum(count for _, count in batches(log)) == 500


async def test_offsets_are_written_with_the_configured_codec(tmp_path: Path) -> None:
    settings = RuntimeSettings(GROUPS, compression=4)
    async with EdgeBroker(tmp_path, settings=settings, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit(HERE, 5) == NONE

        assert [header.compression for _, header in broker.logs[0].scan()] == [4]
    async with EdgeBroker(tmp_path, partitions=1) as again:
        await eventually(lambda: not again.groups.life.loading)
        assert await (await again.client()).fetch(HERE) == 5


async def test_slow_flush_of_a_partition_delays_only_replies_of_the_same_partition(
    tmp_path: Path,
) -> None:
    """With flush.messages=1, a reply waits for the fsync of its partition. Several later turns
    share the next fsync."""
    config = LogConfig(cleanup_policy="compact", flush_messages=1)
    async with EdgeBroker(tmp_path, log_config=config) as broker:
        await broker.ensure_offsets_topic()
        slow, other = hosted_of(broker, HERE), hosted_of(broker, THERE)
        assert slow is not other
        gate, flushes = threading.Event(), []
        flush = slow.log.flush

        def held() -> int:
            flushes.append(slow.log.log_end_offset)
            assert gate.wait(10)
            return flush()

        slow.log.flush = held  # type: ignore[method-assign]
        here, there, reader = await broker.client(), await broker.client(), await broker.client()
        first = here.send_commit(HERE, 1)
        await eventually(lambda: flushes == [1])
        more = [here.send_commit(HERE, offset) for offset in (2, 3, 4)]
        fetch = reader.send_fetch(HERE)
        await eventually(lambda: slow.partition.waiting == 5)

        assert await there.commit(THERE, 9) == NONE, "the other partition goes on"
        assert await there.fetch(THERE) == 9
        assert slow.partition.waiting == 5, "neither the commits nor the read were answered"
        gate.set()

        for handle in (first, *more):
            await here.receive(handle)
        reply = await reader.receive(fetch)
        assert reply["topics"][0]["partitions"][0]["committed_offset"] == 4
        assert len(flushes) <= 3, "commits that came during a flush share the next"


async def test_reply_becomes_an_error_after_the_commit_timeout(tmp_path: Path) -> None:
    """After offsets.commit.timeout.ms, OffsetCommit gets error 15 and SyncGroup gets error 27. The
    record remains in the log."""
    time = MockTime()
    settings = RuntimeSettings(GROUPS, stable_timeout_ms=2000)
    config = LogConfig(cleanup_policy="compact", flush_messages=1)
    async with EdgeBroker(tmp_path, settings=settings, time=time, log_config=config) as broker:
        await broker.ensure_offsets_topic()
        hosted = hosted_of(broker, HERE)
        gate = threading.Event()
        flush = hosted.log.flush

        def held() -> int:
            assert gate.wait(10)
            return flush()

        hosted.log.flush = held  # type: ignore[method-assign]
        client, member = await broker.client(), await broker.client()
        commit = client.send_commit(HERE, 1)
        await eventually(lambda: hosted.partition.waiting == 1)

        time.move(1999)
        hosted.partition.expire()
        assert hosted.partition.waiting == 1
        time.move(1)
        hosted.partition.expire()

        reply = await client.receive(commit)
        assert reply["topics"][0]["partitions"][0]["error_code"] == COORDINATOR_NOT_AVAILABLE
        gate.set()
        await eventually(lambda: hosted.partition.high_watermark == hosted.appended)
        gate.clear()
        joined = await member.receive(member.send_join(HERE))
        sync = member.send(
            SYNC_GROUP.key,
            3,
            group_id=HERE,
            generation_id=joined["generation_id"],
            member_id=joined["member_id"],
            assignments=[],
        )
        await eventually(lambda: hosted.partition.waiting == 1)
        time.move(2000)
        hosted.partition.expire()

        assert (await member.receive(sync))["error_code"] == REBALANCE_IN_PROGRESS
        gate.set()
        await eventually(lambda: hosted.partition.high_watermark == hosted.appended)
        assert await client.fetch(HERE) == 1, "the record was kept all the same"


async def test_commit_is_answered_before_its_flush_when_required_acks_is_0(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy="compact", flush_messages=1)
    for acks, waits in ((0, False), (-1, True)):
        settings = RuntimeSettings(GROUPS, answers_early=not acks)
        directory = tmp_path / str(acks)
        directory.mkdir()
        async with EdgeBroker(directory, settings=settings, log_config=config) as broker:
            await broker.ensure_offsets_topic()
            hosted = hosted_of(broker, HERE)
            gate = threading.Event()
            flush = hosted.log.flush
            hosted.log.flush = lambda gate=gate, flush=flush: gate.wait(10) and flush()  # type: ignore
            client = await broker.client()
            commit = client.send_commit(HERE, 1)
            if waits:
                await eventually(lambda hosted=hosted: hosted.partition.waiting == 1)
            else:
                await client.receive(commit)
                assert hosted.partition.high_watermark < hosted.accepted
            gate.set()
            if waits:
                await client.receive(commit)


async def test_failed_append_unloads_the_shard_until_the_disk_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.topics.partition.PROBE_MS_FIRST", 50)
    disk = FullDisk()
    async with EdgeBroker(tmp_path, fs=disk) as broker:
        await broker.ensure_offsets_topic()
        client, member, joiner = [await broker.client() for _ in range(3)]
        assert await client.commit(HERE, 5) == NONE
        member_id, generation_id = await member.join_alone(HERE)
        parked = joiner.send_join(HERE)
        hosted = hosted_of(broker, HERE)
        await eventually(lambda: len(hosted.core.view.parked()) == 1)
        disk.full = True

        commit = client.send_commit(HERE, 6, member_id=member_id, generation_id=generation_id)
        fetch = client.send_fetch(HERE)
        reply = await client.receive(commit)
        assert reply["topics"][0]["partitions"][0]["error_code"] == NOT_COORDINATOR
        assert (await client.receive(fetch))["error_code"] == NOT_COORDINATOR
        assert (await joiner.receive(parked))["error_code"] == NOT_COORDINATOR
        await eventually(lambda: hosted.phase is Phase.UNWRITABLE)

        assert await client.fetch(HERE) == 5, "what was acknowledged, not what failed"
        assert await member.heartbeat(HERE, member_id, generation_id) == NONE
        refused = await client.commit(HERE, 6, member_id=member_id, generation_id=generation_id)
        assert refused == COORDINATOR_NOT_AVAILABLE
        assert await client.commit(THERE, 1) == COORDINATOR_NOT_AVAILABLE or True
        assert not broker.fatal

        disk.full = False
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        done = await client.commit(HERE, 7, member_id=member_id, generation_id=generation_id)
        assert done == NONE
        assert await client.fetch(HERE) == 7
    async with EdgeBroker(tmp_path) as again:
        await eventually(lambda: not again.groups.life.loading)
        assert await (await again.client()).fetch(HERE) == 7


async def test_failed_fsync_is_reported_as_a_fatal_error(tmp_path: Path) -> None:
    disk = FullDisk()
    config = LogConfig(cleanup_policy="compact", flush_messages=1)
    async with EdgeBroker(tmp_path, fs=disk, log_config=config) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit(HERE, 5) == NONE
        disk.broken = True
        commit = client.send_commit(HERE, 6)

        await eventually(lambda: broker.fatal)

        assert "Input/output error" in broker.fatal[0]
        reply = await client.receive(commit)
        assert reply["topics"][0]["partitions"][0]["error_code"] == NOT_COORDINATOR


async def test_group_requests_get_load_in_progress_while_the_shard_is_loaded(
    tmp_path: Path,
) -> None:
    """During a load, OffsetFetch gets COORDINATOR_LOAD_IN_PROGRESS and never a wrong offset. There
    are two exceptions: Heartbeat gets error 0, and SyncGroup gets REBALANCE_IN_PROGRESS, which old
    clients know."""
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit(HERE, 5) == NONE
        hosted = hosted_of(broker, HERE)
        hosted.phase = Phase.LOADING

        assert await client.fetch(HERE) == -1000 - COORDINATOR_LOAD_IN_PROGRESS
        assert await client.commit(HERE, 6) == COORDINATOR_LOAD_IN_PROGRESS
        assert await client.heartbeat(HERE, "anyone", 1) == NONE
        sync = await client.call(
            SYNC_GROUP.key, 0, group_id=HERE, generation_id=1, member_id="m", assignments=[]
        )
        assert sync["error_code"] == REBALANCE_IN_PROGRESS
        for key, version, value, path in (
            (JOIN_GROUP.key, 0, {"group_id": HERE, "protocols": []}, ("error_code",)),
            (13, 0, {"group_id": HERE, "member_id": "m"}, ("error_code",)),
            (15, 0, {"groups": [HERE]}, ("groups", 0, "error_code")),
            (16, 0, {}, ("error_code",)),
            (42, 0, {"groups_names": [HERE]}, ("results", 0, "error_code")),
        ):
            found: Any = await client.call(key, version, **value)
            for step in path:
                found = found[step]
            assert found == COORDINATOR_LOAD_IN_PROGRESS, key
        hosted.phase = Phase.ACTIVE
        assert await client.fetch(HERE) == 5


async def test_group_requests_get_an_error_before_the_offsets_topic_exists(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        client = await broker.client()
        assert await client.commit(HERE, 5) == NOT_COORDINATOR
        assert await client.heartbeat(HERE, "m", 1) == NOT_COORDINATOR

        found = await client.call(10, 1, key=HERE, key_type=0)
        assert (found["error_code"], found["port"]) == (NONE, broker.port)
        assert await client.commit(HERE, 5) == NONE


async def test_offsets_and_stable_groups_survive_a_restart(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        member_id, generation_id = await client.join_alone(HERE)
        commit = {"member_id": member_id, "generation_id": generation_id}
        assert await client.commit(HERE, 41, **commit) == NONE
        assert await client.commit(HERE, 42, **commit) == NONE

    async with EdgeBroker(tmp_path) as again:
        await eventually(lambda: not again.groups.life.loading)
        client = await again.client()
        assert await client.fetch(HERE) == 42
        assert await client.heartbeat(HERE, member_id, generation_id) == NONE
        assert await client.commit(HERE, 43, **commit) == NONE


async def test_load_of_a_large_shard_blocks_the_event_loop_for_less_than_20_ms(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        for round_ in range(6):
            handles = [
                client.send_commit(f"group-{n}", round_, topic="payments", partitions=100)
                for n in range(100)
            ]
            for handle in handles:
                await client.receive(handle)

    again = EdgeBroker(tmp_path, partitions=1)
    logs = again.open_partitions()
    longest = 0.0
    again.groups.start(logs)
    while again.groups.life.loading:
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)

    assert again.groups.hosted_shards[0].loaded_records == 60_000
    assert longest < 0.020
    async with again:
        assert await (await again.client()).fetch("group-99", "payments") == 5


async def test_member_session_expiry_ignores_the_wall_clock(
    tmp_path: Path,
) -> None:
    time = MockTime()
    async with EdgeBroker(tmp_path, time=time) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        member_id, generation_id = await client.join_alone(HERE, session_timeout_ms=10_000)

        time.wall_ms += 10**9
        broker.groups.tick()
        assert await client.heartbeat(HERE, member_id, generation_id) == NONE
        time.move(10_000)
        broker.groups.tick()
        assert await client.heartbeat(HERE, member_id, generation_id) == UNKNOWN_MEMBER_ID


async def test_member_session_is_expired_by_the_timer_of_the_runtime(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        await client.join_alone(HERE, session_timeout_ms=1000)
        shard = broker.groups.hosted_for(HERE).core

        await eventually(lambda: not shard.view.groups[HERE].members)


async def test_new_member_is_removed_when_it_disconnects_before_its_response(
    tmp_path: Path,
) -> None:
    settings = RuntimeSettings(
        GroupConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=60_000)
    )
    async with EdgeBroker(tmp_path, settings=settings) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        client.send_join(HERE)
        shard = broker.groups.hosted_for(HERE).core
        await eventually(lambda: len(shard.view.parked()) == 1)

        client.close()

        await eventually(lambda: not shard.view.parked())
        assert not any(group.members for group in shard.view.groups.values())


async def test_parked_joins_get_not_coordinator_when_the_broker_stops(tmp_path: Path) -> None:
    settings = RuntimeSettings(
        GroupConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=60_000)
    )
    async with EdgeBroker(tmp_path, settings=settings) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        handle = client.send_join(HERE)
        shard = broker.groups.hosted_for(HERE).core
        await eventually(lambda: len(shard.view.parked()) == 1)

        await broker.groups.stop()

        assert (await client.receive(handle))["error_code"] == NOT_COORDINATOR


async def test_offsets_of_a_deleted_topic_are_dropped_when_their_shard_was_loading(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        assert await client.commit(HERE, 5) == NONE
        assert await client.commit(HERE, 6, topic="payments") == NONE
        await broker.groups.duties.drop(["payments"], Slicer(Time()).work("test"))
        assert await client.fetch(HERE, "payments") == -1
        assert await client.fetch(HERE) == 5
    again = EdgeBroker(tmp_path)
    async with again:
        await again.groups.duties.drop(["orders"], Slicer(Time()).work("test"))
        await eventually(lambda: not again.groups.life.loading)
        assert await (await again.client()).fetch(HERE) == -1


async def test_report_function_added_to_the_observer_gets_later_events(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        seen: list[str] = []
        reports = broker.groups.life.observer.reports
        reports.append(lambda event, _: seen.append(type(event).__name__))
        await (await broker.client()).join_alone(HERE)

        assert seen[0] == "MemberJoined"
        assert {"Transition", "GenerationFormed"} <= set(seen)


async def test_exception_in_a_core_does_not_affect_other_shards(tmp_path: Path) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        shard = broker.groups.hosted_for(HERE).core
        client: Client = await broker.client()
        handle = hosted_of(broker, HERE).core.handle

        class Broken:
            def handle(self, call: object, now: Now) -> None:
                raise ZeroDivisionError

            def next_deadline(self) -> None:
                return None

            def unload(self, error_code: int) -> object:
                assert shard is not None
                return shard.unload(error_code)

        hosted = hosted_of(broker, HERE)
        hosted.core = Broken()  # type: ignore[assignment]
        assert (await client.call(12, 0, group_id=HERE, generation_id=1, member_id="m"))[
            "error_code"
        ] == -1
        assert await client.heartbeat(THERE, "m", 1) == UNKNOWN_MEMBER_ID
        assert handle
