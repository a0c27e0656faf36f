"""Tests that OffsetCommit version 0 stores offsets under the ZooKeeper path /consumers, in the
format of old consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.cluster.topics.consumer_paths import BadGroup, ZooKeeperOffsets
from broker.cluster.zookeeper.zookeeper import Closed, ensure_path
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper

Conduct = Callable[[MemoryZooKeeper, ZooKeeperOffsets], Coroutine[Any, Any, None]]


def run_in_scene(conduct: Conduct) -> None:
    async def play() -> None:
        zookeeper = MemoryZooKeeper(Ensemble())
        loop = asyncio.get_running_loop()
        offsets = ZooKeeperOffsets(zookeeper, lambda work, name: loop.create_task(work, name=name))
        async with asyncio.timeout(120):
            await conduct(zookeeper, offsets)

    asyncio.run(play())


@pytest.mark.proves("clusters 28")
def test_offset_nodes_in_consumer_paths_are_plain_text() -> None:
    """The node contains the committed offset as plain text, not as JSON."""

    async def conduct(zookeeper: MemoryZooKeeper, offsets: ZooKeeperOffsets) -> None:
        assert await offsets.keep([("g", "t", 0, 7), ("g", "t", 10, 2**40)]) is None
        assert await zookeeper.get("/consumers/g/offsets/t/0") == (
            b"7",
            await zookeeper.exists("/consumers/g/offsets/t/0"),
        )
        await zookeeper.set("/consumers/g/offsets/t/0", b"8")  # An old consumer writes this node.
        assert await offsets.fetch("g", [("t", 0), ("t", 10), ("t", 1)]) == {
            ("t", 0): 8,
            ("t", 10): 2**40,
        }
        assert await offsets.keep([("g", "t", 0, 9)]) is None
        assert await offsets.fetch("g", [("t", 0)]) == {("t", 0): 9}

    run_in_scene(conduct)


def test_last_of_concurrent_commits_to_zookeeper_wins() -> None:
    async def conduct(zookeeper: MemoryZooKeeper, offsets: ZooKeeperOffsets) -> None:
        commits = [offsets.keep([("g", "t", 0, offset)]) for offset in range(50)]
        assert await asyncio.gather(*commits) == [None] * 50
        assert await offsets.fetch("g", [("t", 0)]) == {("t", 0): 49}

    run_in_scene(conduct)


@pytest.mark.parametrize("group", ["", ".", "..", "a/b", "a\x00b", "\ufff0"])
def test_commit_of_a_group_whose_id_cannot_be_a_znode_name_is_refused(group: str) -> None:
    async def conduct(zookeeper: MemoryZooKeeper, offsets: ZooKeeperOffsets) -> None:
        assert isinstance(await offsets.keep([(group, "t", 0, 7)]), BadGroup)
        assert await offsets.fetch(group, [("t", 0)]) == {}
        assert list(zookeeper.ensemble.nodes) == ["/"]

    run_in_scene(conduct)


def test_empty_offset_node_is_read_as_a_missing_offset() -> None:
    async def conduct(zookeeper: MemoryZooKeeper, offsets: ZooKeeperOffsets) -> None:
        await ensure_path(zookeeper, "/consumers/g/offsets/t/0")
        assert await offsets.fetch("g", [("t", 0)]) == {}

    run_in_scene(conduct)


def test_offsets_in_zookeeper_cannot_be_stored_or_read_when_the_session_is_closed() -> None:
    async def conduct(zookeeper: MemoryZooKeeper, offsets: ZooKeeperOffsets) -> None:
        await zookeeper.close()
        assert isinstance(await offsets.keep([("g", "t", 0, 7)]), Closed)
        with pytest.raises(Closed):
            await offsets.fetch("g", [("t", 0)])

    run_in_scene(conduct)
