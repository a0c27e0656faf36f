"""Tests how long share partitions stay in memory, and that a principal can't use the share session
of another principal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.share.partitions import IDLE_MS
from protocol.errors import NONE, SHARE_SESSION_NOT_FOUND
from security.principal import Principal
from tests.broker.mock_time import MockTime
from tests.broker.share_calls import ACCEPT, acquired
from tests.broker.share_scene import Scene, on_scene


def sweep(scene: Scene) -> int:
    """Searches for unused share partitions. Returns the number of those that remain in memory."""
    partitions = scene.broker.share_partitions
    asyncio.run_coroutine_threadsafe(partitions.sweep(), scene.loop).result(20)
    return scene.in_loop(lambda: len(partitions))


async def test_unused_share_partition_without_locks_is_removed_from_memory(tmp_path: Path) -> None:
    time = MockTime()

    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b")
        member = scene.member("m")
        assert acquired(member.open(max_records=1, share_acquire_mode=1)) == [(0, 0, 1)]
        assert sweep(scene) == 1
        scene.in_loop(lambda: time.move(IDLE_MS + 1))
        assert sweep(scene) == 1  # the record is locked
        scene.move(time, 0)
        member.fetch(max_records=0)  # its lock has ended, and the release is stored
        scene.in_loop(lambda: time.move(IDLE_MS + 1))
        assert sweep(scene) == 0
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 0, 2), (1, 1, 1)]

    await on_scene(tmp_path, work, time=time)


async def test_share_partition_of_a_deleted_topic_is_removed_from_memory(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        assert acquired(scene.member("m").open()) == [(0, 0, 1)]
        topics = [{"name": "t", "topic_id": bytes(16)}]
        scene.wire.call("DeleteTopics", 6, {"topics": topics, "timeout_ms": 5_000})
        assert sweep(scene) == 0

    await on_scene(tmp_path, work)


@pytest.mark.proves("share 13")
async def test_share_session_is_not_found_by_another_principal(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        owner, thief = scene.member("m"), scene.member("m")
        assert acquired(owner.open()) == [(0, 0, 1)]
        scene.in_loop(lambda: scene.log_in_newest(Principal("User", "thief")))
        for epoch in (0, 1, -1):
            request = thief.request((0,), epoch=epoch)
            reply = thief.wire.call("ShareFetch", 2, request)
            assert reply["error_code"] == SHARE_SESSION_NOT_FOUND
        reply = thief.send_acknowledge((0, 0, [ACCEPT]), epoch=1)
        assert reply["error_code"] == SHARE_SESSION_NOT_FOUND
        assert owner.acknowledge((0, 0, [ACCEPT])) == NONE

    await on_scene(tmp_path, work)
