"""The periodic work on logs: retention, expiry of producers, checkpoints, overdue flushes.
Retention runs in the event loop's thread, as appends do, and lets requests run between two logs.
Work that waits for the disk runs in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

import structlog

from broker.config.config import Config
from broker.loop.background import Background
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from log.config import LONG_MAX
from log.errors import LogPoisoned

logger = structlog.get_logger(__name__)

_CROWDS_S = 1.0
_ROOM = 20
"""A broker with more producers than the limit removes the surplus. It also removes 1/_ROOM of the
limit, so that the next check need not remove producers again."""


class Maintenance:
    """The recurring work on the logs of one broker."""

    def __init__(
        self, config: Config, logs: LogManager, time: Time, slicer: Slicer, background: Background
    ) -> None:
        self._config = config
        self._logs = logs
        self._time = time
        self._slicer = slicer
        self._background = background
        self.retention_runs = 0
        self.checkpoints_written = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._unflushed_ms: dict[Partition, int] = {}
        """For each partition with unflushed records: the monotonic time in ms at which
        `Maintenance` first noticed that the partition has unflushed records."""

    def start(self) -> None:
        config = self._config
        checkpoint_ms = min(
            config["log.flush.offset.checkpoint.interval.ms"],
            config["log.flush.start.offset.checkpoint.interval.ms"],
        )
        retention_ms = config["log.retention.check.interval.ms"]
        producers_ms = config["producer.id.expiration.check.interval.ms"]
        every = self._background.every
        checkpoints_s = max(checkpoint_ms, 1000) / 1000
        self._tasks = [
            every(
                "retention",
                lambda: retention_ms / 1000,
                self.run_retention,
                _failed,
                self._retention_idle_ms,
            ),
            every(
                "producers",
                lambda: producers_ms / 1000,
                self.expire_producers,
                _failed,
                self._producers_idle_ms,
            ),
            every("crowds", lambda: _CROWDS_S, self.tend_crowds, _failed),
            every("checkpoints", lambda: checkpoints_s, self.write_checkpoints, _failed),
            every("flush", lambda: self._flush_period_ms() / 1000, self.flush_overdue, _failed),
        ]

    def stop(self) -> None:
        """Stops the periodic work on the logs. Afterwards only the code that closes the logs may
        write to them."""
        for task in self._tasks:
            task.cancel()
        for partition in self._logs.all():
            partition.stop()

    # -- retention and checkpoints

    async def run_retention(self) -> None:
        """Deletes segments according to retention, and removes the files of segments that were
        deleted earlier."""
        slices = self._slicer.work("retention")
        for partition in list(self._logs.all()):
            if slices.over:
                await slices.pause()
            log = partition.log
            if log.failed_for_good or log.unreadable or not self._logs.serves(partition):
                continue
            try:
                now_ms = self._time.now().wall_ms
                deleted = log.apply_retention(now_ms, partition.high_watermark)
            except LogPoisoned as error:
                partition.poisoned(error)
                continue
            except OSError as error:
                logger.error("retention failed", partition=partition.name, error=str(error))
                continue
            if log.segments.undeleted is not None:
                logger.error(
                    "files of deleted segments can't be removed, retrying",
                    partition=partition.name,
                    error=str(log.segments.undeleted),
                )
            if deleted:
                logger.info(
                    "segments deleted",
                    partition=partition.name,
                    segments=len(deleted),
                    log_start_offset=log.log_start_offset,
                )
        self.retention_runs += 1

    def _retention_idle_ms(self) -> int | None:
        """Returns the number of milliseconds until retention can delete a segment; None if it can't
        delete any. `Background.every` uses this number."""
        now_ms = self._time.now().wall_ms
        times = []
        for partition in self._logs.all():
            log = partition.log
            if log.failed_for_good or log.unreadable or not self._logs.serves(partition):
                continue
            try:
                idle_ms = log.retention_idle_ms(now_ms, partition.high_watermark)
            except OSError:
                return 0  # the run logs the reason
            if idle_ms is not None:
                times.append(idle_ms)
        return min(times, default=None)

    def _producers_idle_ms(self) -> int | None:
        """Returns 0 if a log has a producer that can expire, so that the check for expired
        producers must run. Returns None if the check can be skipped. `Background.every` describes
        the use of this result."""
        return (
            0 if any(each.log.producers.without_transaction for each in self._logs.all()) else None
        )

    async def expire_producers(self) -> None:
        """Removes producers that have been idle for longer than producer.id.expiration.ms."""
        slices = self._slicer.work("producers")
        for partition in list(self._logs.all()):
            for _ in partition.log.expire_producers(self._time.now().wall_ms):
                if slices.over:
                    await slices.pause()
                if not self._logs.serves(partition):
                    break
        slices.end()

    async def tend_crowds(self) -> None:
        """Writes the producer images of logs that wait to be written, and removes producers if
        there are more than the maximum number."""
        slices = self._slicer.work("producers")
        unwritten: list[Partition] = []
        counts: dict[Partition, int] = {}
        for partition in list(self._logs.all()):
            if slices.over:
                await slices.pause()
            log = partition.log
            if log.image is not None:
                unwritten.append(partition)
            if count := log.producers.without_transaction:
                counts[partition] = count
        slices.end()
        for partition in unwritten:
            await self._write_image(partition)
        limit: int = self._config["producer.ids.remembered.max"]
        if sum(counts.values()) > limit:
            await self._forget_surplus(counts, limit)

    async def _write_image(self, partition: Partition) -> None:
        log = partition.log
        image = log.image
        if image is None:
            return
        slices = self._slicer.work("snapshot of producers")
        await slices.through(image.pack())
        slices.end()
        try:
            await self._time.in_thread(partial(log.write_image, image))
        except OSError as error:  # the snapshot only shortens the next start
            logger.warning(
                "snapshot of producers can't be written",
                partition=partition.name,
                error=str(error),
            )
        finally:
            log.image_written(image)

    async def _forget_surplus(self, counts: Mapping[Partition, int], limit: int) -> None:
        """Removes producers from the partitions with the most producers. Removes the longest idle
        producers first."""
        slices = self._slicer.work("producers")
        keep = level(counts.values(), limit - limit // _ROOM)
        fullest = max(counts, key=lambda partition: counts[partition])
        forgotten = 0
        for partition in [each for each, count in counts.items() if count > keep]:
            for count in partition.log.producers.forget_idlest(keep):
                forgotten += count
                if slices.over:
                    await slices.pause()
                if not self._logs.serves(partition):
                    break
        slices.end()
        logger.warning(
            "too many producer ids, the ids that were idle for longest are removed",
            producers=sum(counts.values()),
            limit=limit,
            forgotten=forgotten,
            fullest=fullest.name,
        )

    async def write_checkpoints(self) -> None:
        await self._time.in_thread(self._logs.write_checkpoints)
        self.checkpoints_written += 1

    # -- flushes

    def _flush_period_ms(self) -> int:
        """Returns the interval in ms between two checks of flush.ms: half of the shortest flush.ms,
        but between 10 and 1000. Kafka uses log.flush.scheduler.interval.ms instead; with the
        default of this setting, Kafka never checks flush.ms."""
        topics = self._logs.topics.values()
        shortest: int = min((topic.settings["flush.ms"] for topic in topics), default=LONG_MAX)
        return max(10, min(shortest // 2, 1000))

    async def flush_overdue(self) -> None:
        """Flushes logs with records that have been unflushed for longer than flush.ms."""
        now_ms = self._time.real.now().mono_ms
        before, self._unflushed_ms = self._unflushed_ms, {}
        for partition in list(self._logs.all()):
            log = partition.log
            if (
                log.config.flush_ms == LONG_MAX
                or log.recovery_point >= log.log_end_offset
                or log.failed_for_good
                or partition.is_flushing
            ):
                continue
            since_ms = before.get(partition, now_ms)
            if now_ms - since_ms >= log.config.flush_ms:
                partition.flush_soon()
            else:
                self._unflushed_ms[partition] = since_ms


def level(counts: Iterable[int], limit: int) -> int:
    """Returns the highest cap for which the sum of the counts is at most ``limit`` after each count
    above the cap is lowered to the cap."""
    ascending = sorted(counts)
    for index, count in enumerate(ascending):
        share = limit // (len(ascending) - index)
        if count > share:
            return share
        limit -= count
    return max(ascending, default=0)


def _failed(error: Exception) -> None:
    logger.error("maintenance failed: internal error", exc_info=error)
