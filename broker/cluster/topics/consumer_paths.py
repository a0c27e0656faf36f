"""The offsets of OffsetCommit and OffsetFetch v0 in a cluster, which are in ZooKeeper's consumer
paths.

The node ``/consumers/GROUP/offsets/TOPIC/PARTITION`` has the next offset as plain text. All brokers
and old consumers read and write it. Source: Kafka 3.9 ``KafkaApis``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from broker.cluster.zookeeper.zookeeper import (
    NodeExists,
    NoNode,
    ZooKeeper,
    ZooKeeperError,
    ensure_path,
)
from broker.topics.directory.shared_writes import SharedWrites
from broker.topics.registry import OldOffset, Place
from protocol.znodes import consumers
from protocol.znodes.fields import BadNode

logger = structlog.get_logger(__name__)

_NO_NODE_NAME = re.compile(
    r"\.{0,2}|.*[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff].*", re.DOTALL
)


class BadGroup(ValueError):
    """The group id can't be the name of a ZooKeeper node. The exception's text has the reason."""


class ZooKeeperOffsets:
    """Implements `OldOffsets` with ZooKeeper's consumer paths."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self._zookeeper = zookeeper
        self._spawn = spawn
        self._writes = SharedWrites(self._write_all, lambda writing: spawn(writing, "old offsets"))

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        refused = [group for group, *_ in entries if _NO_NODE_NAME.fullmatch(group)]
        if not refused:
            return self._writes.keep(entries)
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        done.set_result(BadGroup(f"group id {refused[0]!r} can't be the name of a ZooKeeper node"))
        return done

    def fetch(self, group_id: str, places: Sequence[Place]) -> asyncio.Future[Mapping[Place, int]]:
        done: asyncio.Future[Mapping[Place, int]] = asyncio.get_running_loop().create_future()
        if _NO_NODE_NAME.fullmatch(group_id):
            done.set_result({})
        else:
            self._spawn(self._fetch_all(group_id, places, done), "old offsets")
        return done

    async def _write_all(self, entries: list[OldOffset]) -> None:
        last = {entry[:3]: entry[3] for entry in entries}
        await asyncio.gather(*[self._write(*key, offset) for key, offset in last.items()])

    async def _write(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        zookeeper = self._zookeeper
        path = consumers.offset_path(group_id, topic, partition)
        data = consumers.encode_offset(offset)
        try:
            await zookeeper.set(path, data)
        except NoNode:
            await ensure_path(zookeeper, path.rpartition("/")[0])
            try:
                await zookeeper.create(path, data)
            except NodeExists:
                await zookeeper.set(path, data)

    async def _fetch_all(
        self, group_id: str, places: Sequence[Place], done: asyncio.Future[Mapping[Place, int]]
    ) -> None:
        try:
            found = await asyncio.gather(*[self._fetch(group_id, *place) for place in places])
            offsets = zip(places, found, strict=True)
            kept = {place: offset for place, offset in offsets if offset is not None}
            if not done.done():
                done.set_result(kept)
        except ZooKeeperError as error:
            logger.error("offsets of OffsetFetch v0 can't be read from ZooKeeper", error=str(error))
            if not done.done():
                done.set_exception(error)
        finally:
            done.cancel()

    async def _fetch(self, group_id: str, topic: str, partition: int) -> int | None:
        path = consumers.offset_path(group_id, topic, partition)
        try:
            data, _ = await self._zookeeper.get(path)
            return consumers.decode_offset(path, data)
        except NoNode:
            return None
        except BadNode as error:
            logger.error("offset of OffsetFetch v0 can't be read from ZooKeeper", reason=str(error))
            return None
