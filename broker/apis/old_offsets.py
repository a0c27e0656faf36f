"""OffsetCommit and OffsetFetch version 0: offsets by ZooKeeper's consumer paths, not of the log.

No generation, no member, no retention: a partition that exists takes any offset. The metadata is
checked for its length and then dropped, since the paths hold a number alone. A partition without
an offset is answered UNKNOWN_TOPIC_OR_PARTITION, unlike later versions. Source: Kafka 1.0 and 3.9,
KafkaApis.handleOffsetCommitRequest and handleOffsetFetchRequest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import structlog

from broker.net.request import Request, Steps
from broker.topics.registry import ConsumerPaths, OldOffset
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

if TYPE_CHECKING:
    from broker.broker import Broker

logger = structlog.get_logger(__name__)


class OldCommits:
    """Commits on their way into the file: what comes while one write runs shares the next."""

    def __init__(
        self,
        paths: ConsumerPaths,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        flush_messages: Callable[[], int],
        kept: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """``flush_messages`` is asked for the setting of the offsets topic before each write,
        ``kept`` runs once when there is a file that must be missed if it is gone."""
        self._paths = paths
        self._spawn = spawn
        self._flush_messages = flush_messages
        self._kept: Callable[[], Coroutine[Any, Any, None]] | None = kept
        self._waiting: list[tuple[list[OldOffset], asyncio.Future[Exception | None]]] = []
        self._writing = False

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        """Done when the offsets are kept, with None, or why they are not."""
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entries, done))
        if not self._writing:
            self._writing = True
            self._spawn(self._write_all())
        return done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                entries = [entry for each, _ in together for entry in each]
                failed: Exception | None = None
                try:
                    await asyncio.to_thread(self._paths.write, entries, self._flush_messages())
                    self._paths.take(entries)
                    if self._kept is not None:
                        await self._kept()
                        self._kept = None
                except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it was
                    failed = error
                    logger.error("offsets of the old way could not be kept", error=repr(error))
                for _, done in together:
                    if not done.done():
                        done.set_result(failed)
                if failed is None and self._paths.outgrown:
                    await self._rewrite()
        finally:
            self._writing = False
            left, self._waiting = self._waiting, []
            for _, done in left:  # the broker stops
                done.cancel()

    async def _rewrite(self) -> None:
        try:
            await asyncio.to_thread(self._paths.rewrite)
        except OSError as error:
            logger.warning("offsets of the old way keep their long file", error=str(error))

    async def stop(self) -> None:
        """Brings to the disk what was written."""
        try:
            await asyncio.to_thread(self._paths.flush)
        except OSError as error:
            logger.error("offsets of the old way may not be on the disk", error=str(error))


def commit(broker: Broker, request: Request) -> Steps:
    """Keeps all offsets of a request with one write before it is acknowledged."""
    value = request.value
    group_id = value["group_id"]
    kept: list[OldOffset] = []
    codes: list[int] = []
    for topic in value["topics"]:
        name = topic["name"]
        for entry in topic["partitions"]:
            partition = entry["partition_index"]
            codes.append(_refusal(broker, name, partition, entry["committed_metadata"]))
            if not codes[-1]:
                kept.append((group_id, name, partition, entry["committed_offset"]))
            yield None
    stored = NONE
    if kept:
        done = broker.old_commits.keep(kept)
        yield done
        stored = KAFKA_STORAGE_ERROR if done.cancelled() or done.result() is not None else NONE
    answers = iter(codes)
    topics = []
    for topic in value["topics"]:
        partitions = [
            {
                "partition_index": entry["partition_index"],
                "error_code": next(answers) or stored,
            }
            for entry in topic["partitions"]
        ]
        topics.append({"name": topic["name"], "partitions": partitions})
        yield None
    request.respond({"topics": topics}, max([*codes, stored]))


def _refusal(broker: Broker, topic: str, partition: int, metadata: str | None) -> int:
    if not _exists(broker, topic, partition):
        return UNKNOWN_TOPIC_OR_PARTITION
    if metadata is not None and len(metadata) > broker.config["offset.metadata.max.bytes"]:
        return OFFSET_METADATA_TOO_LARGE
    return NONE


def fetch(broker: Broker, request: Request) -> Steps:
    """Answers what `commit` kept."""
    value = request.value
    paths = broker.registry.consumer_paths
    topics = []
    for topic in value["topics"]:
        partitions = []
        for partition in topic["partition_indexes"]:
            offset = None
            if _exists(broker, topic["name"], partition):
                offset = paths.fetch(value["group_id"], topic["name"], partition)
            partitions.append(
                {
                    "partition_index": partition,
                    "committed_offset": -1 if offset is None else offset,
                    "metadata": "",
                    "error_code": UNKNOWN_TOPIC_OR_PARTITION if offset is None else NONE,
                }
            )
            yield None
        topics.append({"name": topic["name"], "partitions": partitions})
    request.respond({"topics": topics}, NONE)


def _exists(broker: Broker, topic: str, partition: int) -> bool:
    found = broker.registry.topic(topic)
    return found is not None and 0 <= partition < found.partitions
