"""The work on logs beside requests: retention, checkpoints, flushes, probes after a failure.

Retention runs in the loop's thread, as appends do, and requests are served between two logs. Work
that waits for the disk runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import structlog

from broker.cores.loading import PROBE_MS_FIRST, PROBE_MS_MAX
from broker.topics.registry import OFFSETS_TOPIC
from log.config import LONG_MAX
from log.errors import LogPoisoned
from log.partition_log import PartitionLog

if TYPE_CHECKING:
    from broker.broker import Broker

logger = structlog.get_logger(__name__)

Flushed = Callable[[str | None], None]
"""Told None, or why nothing can be acknowledged."""


class Maintenance:
    """The recurring work of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.retention_runs = 0
        self.checkpoints_written = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._flushes: dict[PartitionLog, list[tuple[int, Flushed]]] = {}
        """Logs being flushed, and who waits for which offset to be on the disk."""
        self._unflushed_ms: dict[PartitionLog, int] = {}
        """Since when a log was seen with unflushed records, monotonic."""
        self._probing: set[PartitionLog] = set()
        self._probes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins the recurring work."""
        config = self.broker.config
        checkpoint_ms = min(
            config["log.flush.offset.checkpoint.interval.ms"],
            config["log.flush.start.offset.checkpoint.interval.ms"],
        )
        retention_ms = config["log.retention.check.interval.ms"]
        every = self.broker.background.every
        checkpoints_s = max(checkpoint_ms, 1000) / 1000
        self._tasks = [
            every("retention", lambda: retention_ms / 1000, self.run_retention, _failed),
            every("checkpoints", lambda: checkpoints_s, self.write_checkpoints, _failed),
            every("flush", lambda: self._flush_period_ms() / 1000, self.flush_overdue, _failed),
        ]

    def stop(self) -> None:
        """Ends maintenance: from then on only the code that closes the logs writes to them."""
        for task in (*self._tasks, *self._probes):
            task.cancel()

    # -- retention and checkpoints

    async def run_retention(self) -> None:
        """Deletes the segments that are too old or too many; removes those deleted before."""
        slices = self.broker.slicer.work("retention")
        for log in list(self.broker.logs.all()):
            if slices.over:
                await slices.pause()
            if log.failed_for_good or log.unreadable or not self._is_ours(log):
                continue
            try:
                deleted = log.apply_retention(self.broker.time.now().wall_ms)
            except LogPoisoned as error:
                self.poisoned(log, error)
                continue
            except OSError as error:
                logger.error("retention failed", partition=_name(log), error=str(error))
                continue
            if log.segments.undeleted is not None:
                logger.error(
                    "files of deleted segments are still there; the next retention run tries again",
                    partition=_name(log),
                    error=str(log.segments.undeleted),
                )
            if deleted:
                logger.info(
                    "segments deleted",
                    partition=f"{log.topic}-{log.partition}",
                    segments=len(deleted),
                    log_start_offset=log.log_start_offset,
                )
        self.retention_runs += 1

    async def write_checkpoints(self) -> None:
        """Writes down recovery points, high watermarks and log starts."""
        await self.broker.time.in_thread(self.broker.logs.write_checkpoints)
        self.checkpoints_written += 1

    # -- flushes

    def _flush_period_ms(self) -> int:
        """How long until flush.ms is looked after again: half of the shortest, a second at most.

        Kafka looks at log.flush.scheduler.interval.ms, by default never, whatever flush.ms says.
        """
        topics = self.broker.logs.topics.values()
        shortest: int = min((topic.settings["flush.ms"] for topic in topics), default=LONG_MAX)
        return max(10, min(shortest // 2, 1000))

    async def flush_overdue(self) -> None:
        """Flushes the logs whose records have been unflushed for longer than flush.ms."""
        now_ms = self.broker.time.now().mono_ms
        before, self._unflushed_ms = self._unflushed_ms, {}
        for log in list(self.broker.logs.all()):
            if (
                log.config.flush_ms == LONG_MAX
                or log.recovery_point >= log.log_end_offset
                or log.failed_for_good
                or log in self._flushes
            ):
                continue
            since_ms = before.get(log, now_ms)
            if now_ms - since_ms >= log.config.flush_ms:
                self.when_flushed(log, log.log_end_offset, _ignore)
            else:
                self._unflushed_ms[log] = since_ms

    def when_flushed(self, log: PartitionLog, offset: int, done: Flushed) -> None:
        """Calls ``done`` once all below ``offset`` is on the disk.

        Appends that come while a flush runs share the next one.
        """
        waiting = self._flushes.get(log)
        if waiting is None:
            self._flushes[log] = [(offset, done)]
            self.broker.spawn(self._flush(log), "flush")
        else:
            waiting.append((offset, done))

    async def _flush(self, log: PartitionLog) -> None:
        """Flushes until nobody waits; everybody who waits is called once, whatever ends it."""
        waiting = self._flushes[log]
        reason: str | None = "the broker stops"
        try:
            while waiting:
                began_ns = self.broker.time.ticks_ns()
                reached = await self.flush(log)
                self.broker.metrics.writes.fsync.add(self.broker.time.ticks_ns() - began_ns)
                ready = [done for offset, done in waiting if offset <= reached]
                waiting[:] = [entry for entry in waiting if entry[0] > reached]
                _tell(ready, None)
        except LogPoisoned as error:
            reason = str(error)
            self.poisoned(log, error)
        except Exception as error:
            # No thread or no memory to be had: nothing was said about the disk, so the log goes on,
            # and what could not be flushed is not acknowledged.
            reason = f"it could not be flushed: {error!r}"
            logger.exception("a flush failed", partition=_name(log))
        finally:
            del self._flushes[log]
            _tell([done for _, done in waiting], reason)

    async def flush(self, log: PartitionLog) -> int:
        """Flushes a log in a thread, then lets readers have what is stable; the offset it reaches.

        Raises LogPoisoned.
        """
        reached = await self.broker.time.in_thread(log.flush)
        if log.advance_high_watermark():
            self.broker.long_polls.wake_partition(log.topic, log.partition)
        return reached

    # -- failures

    def _is_ours(self, log: PartitionLog) -> bool:
        """Whether the log is the one that is served: no other writes these files."""
        return self.broker.logs.get(log.topic, log.partition) is log

    def poisoned(self, log: PartitionLog, error: LogPoisoned) -> None:
        """A write or a flush has failed: the broker stops, or tries until writes succeed again."""
        name = f"{log.topic}-{log.partition}"
        if log.failed_for_good:
            if self._is_ours(log):
                self.broker.fail(f"{name} can't be written safely any more: {error}")
                logger.critical("the broker stops", partition=name, reason=str(error))
            return
        if log.topic == OFFSETS_TOPIC or log in self._probing:
            return
        self._probing.add(log)
        work = self.broker.watchdog.watched("probe", self._probe(log))
        probe = asyncio.get_running_loop().create_task(work)
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)
        logger.error("a log takes no writes", partition=name, reason=str(error))

    async def _probe(self, log: PartitionLog) -> None:
        wait_ms = PROBE_MS_FIRST
        while log.poisoned and not log.failed_for_good and not self.broker.stopped.is_set():
            await self.broker.time.sleep(wait_ms / 1000)
            wait_ms = min(2 * wait_ms, PROBE_MS_MAX)
            if not self._is_ours(log):
                break  # its topic was deleted; its files may be another log's
            try:
                log.probe()
            except OSError:
                continue
            except LogPoisoned as error:
                self._probing.discard(log)
                self.poisoned(log, error)
                return
        self._probing.discard(log)
        if log.poisoned is None:
            logger.info("a log takes writes again", partition=f"{log.topic}-{log.partition}")


def _failed(error: Exception) -> None:
    logger.error("maintenance failed", exc_info=error)


def _tell(waiting: Iterable[Flushed], reason: str | None) -> None:
    """Tells each; what is wrong with one keeps no other waiting."""
    for done in waiting:
        try:
            done(reason)
        except Exception:
            logger.exception("an acknowledgement failed")


def _name(log: PartitionLog) -> str:
    return f"{log.topic}-{log.partition}"


def _ignore(reason: str | None) -> None:
    """Nobody waits for this flush; a failure is logged where it happens."""
