"""Schedules compaction: chooses the partitions to clean, and replaces their segments by cleaned
segments. A `Cleaner`, usually a separate process (cleaner_worker.py), writes the cleaned segments.
Replacing segments takes a few renames in the event loop's thread.

The partitions of the coordinators' topics are *owned*. They have their own schedule and cleaner
process, since their coordinator knows which records are live. An owned partition is rolled and
cleaned when its dead records outweigh its live records, so that disk use is proportional to live
data.

A partition that can't be cleaned is reported in the log, in the metrics and in /healthz. Its
cleaning is retried at growing intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import structlog

from broker.config.config import Config
from broker.loop.background import Background
from broker.time import Time
from broker.topics.cleaner.cleaner_checkpoint import CleanerCheckpoint, segment_facts
from broker.topics.cleaner.cleaner_worker import CleaningFailed
from broker.topics.cleaner.dirty_logs import DirtyLogs
from broker.topics.cleaner.segment_swaps import Abandoned, SegmentSwaps
from broker.topics.logs import LogManager
from broker.topics.partition import Partition
from broker.topics.registry import Topic
from log.checkpoint import TopicPartition
from log.cleaner.clean_job import CleanDone, CleanedGroup, CleanJob
from log.cleaner.clean_plan import Cleanable, weighs_too_much
from log.config import LONG_MAX
from log.errors import LogPoisoned
from log.partition_log import PartitionLog
from protocol.slotted import slotted

logger = structlog.get_logger(__name__)

OWNED_CHECK_MS = 100
"""The interval in milliseconds at which the sizes of the logs of internal topics are checked."""
OWNED_DEAD_BYTES_MIN = 1024 * 1024
OWNED_WAIT_MS = 10_000
OWNED_DIRTY_BYTES_AT_ONCE = 8 * 1024 * 1024
"""The number of dirty bytes with which a coordinator's partition with more superseded than live
records is cleaned immediately. With fewer dirty bytes it is cleaned after `OWNED_WAIT_MS`. At
thousands of commits per second, a cleaning after each MiB used a sixth of the CPU time."""
OWNED_RETRY_MS = 1000
OWNED_RETRY_MS_MAX = 60_000
"""The longest time in ms between two attempts to clean a partition of a coordinator's topic. It is
short, since the log of a busy partition grows by megabytes per second."""
RETRY_MS_MAX = 600_000
_THROTTLE_MAX = 1e300


class Owner(Protocol):
    """The coordinator that owns a topic. The topic's records are the state of the coordinator."""

    @property
    def settling(self) -> bool:
        """True while cleaning must wait, because partitions are loading or were just loaded."""

    def hosts(self, partition: int) -> bool: ...

    def live_records(self, partition: int) -> int | None:
        """Returns the approximate number of live records of a partition; None if this coordinator
        does not host it."""

    def oldest_needed(self, log: PartitionLog) -> int:
        """Returns the log offset of the newest snapshot. A load needs all tombstones after it."""

    async def before_exchange(self, log: PartitionLog) -> None:
        """Called before the cleaner replaces inactive segments of the log by cleaned segments.
        Returns when the cleaner may do this."""


class Cleaner(Protocol):
    """Cleans one partition at a time, outside the event loop."""

    @property
    def busy(self) -> bool: ...

    async def clean(
        self,
        job: CleanJob,
        on_group: Callable[[CleanedGroup], Awaitable[None]],
        producers: Iterable[Mapping[int, tuple[int, int]]] = (),
    ) -> CleanDone:
        """Runs ``job``. Calls ``on_group`` for each cleaned group of segments; the next group is
        already being cleaned during this call.

        Passes the elements of ``producers`` to the job one by one, so that the event loop can do
        other work in between. Raises CleaningFailed. An exception of ``on_group`` ends the job, and
        is raised too.
        """

    async def stop(self) -> None: ...


@slotted
class Trouble:
    """A partition that could not be cleaned: the reason, the number of consecutive failures, and
    the time of the next attempt (monotonic ms)."""

    reason: str
    failures: int
    retry_ms: int


class Cleaning:
    """Schedules the compaction of one broker's logs. Only the event loop's thread may use this
    class."""

    def __init__(
        self,
        config: Config,
        logs: LogManager,
        checkpoint: CleanerCheckpoint,
        owners: Mapping[str, Owner],
        time: Time,
        background: Background,
        new_worker: Callable[[], Cleaner],
    ) -> None:
        """``owners`` contains the coordinator of each owned topic."""
        self._config = config
        self._logs = logs
        self.checkpoint = checkpoint
        self._owners = owners
        self._time = time
        self._background = background
        self.runs = self.failures = self.bytes_read = self.bytes_written = 0
        self.troubles: dict[TopicPartition, Trouble] = {}
        self._paused: dict[TopicPartition, int] = {}
        """The monotonic time in ms before which a log is not cleaned again. A log is paused if an
        open transaction or too recent records stopped its last cleaning."""
        self._dirty = DirtyLogs(logs, checkpoint, owners, self._waits_ms)
        self._heavy_since: dict[TopicPartition, int] = {}
        """By partition with more bytes of superseded records than of live records: the monotonic
        time in ms since which this is so."""
        self.workers = (new_worker(), new_worker())
        self._tasks: list[asyncio.Task[None]] = []
        self.swaps = SegmentSwaps(logs, time, self._before_exchange)

    # -- start and stop

    def start(self) -> None:
        self.checkpoint.read()
        config = self._config
        if config["log.cleaner.enable"]:
            self._tasks = [
                self._every(lambda: OWNED_CHECK_MS / 1000, self.clean_owned),
                self._every(
                    lambda: config["log.cleaner.backoff.ms"] / 1000,
                    self.clean_dirtiest,
                    lambda: self._dirty.idle_ms(self._time.now()),
                ),
            ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.swaps.settled()
        for worker in self.workers:
            await worker.stop()
        if self._tasks:  # also waits for a write of the checkpoint in a thread
            await self._time.in_thread(self.checkpoint.write)

    def _every(
        self,
        pause_s: Callable[[], float],
        clean: Callable[[], Awaitable[bool]],
        idle_ms: Callable[[], int | None] | None = None,
    ) -> asyncio.Task[None]:
        """Starts a task that repeats two steps: it pauses for the number of seconds that
        ``pause_s`` returns, and then calls ``clean`` until ``clean`` returns False."""

        async def clean_all() -> None:
            while await clean():
                await self._time.sleep(0)

        return self._background.every("cleaning", pause_s, clean_all, self._round_failed, idle_ms)

    def _round_failed(self, error: Exception) -> None:
        logger.error("cleaning round failed: internal error", exc_info=error)
        self.failures += 1

    def topic_deleted(self, topic: Topic) -> None:
        self.checkpoint.forget(topic.name)
        for of_partition in (self.troubles, self._paused):
            for key in [key for key in of_partition if key[0] == topic.name]:
                del of_partition[key]
        self._background.spawn(self._time.in_thread(self.checkpoint.write))

    # -- the choice

    async def clean_owned(self) -> bool:
        due = []
        for topic, owner in self._owners.items():
            entry = self._logs.topics.get(topic)
            if entry is not None and not owner.settling:
                due += [each for each in entry.partitions if self._is_due(each, owner)]
        if not due:
            return False
        heaviest = max(due, key=lambda each: each.log.size_bytes)
        self._heavy_since.pop((heaviest.topic, heaviest.index), None)
        return await self._clean(heaviest, self.workers[0], roll=True)

    async def _before_exchange(self, log: PartitionLog) -> None:
        owner = self._owners.get(log.topic)
        if owner is not None:
            await owner.before_exchange(log)

    def _is_due(self, partition: Partition, owner: Owner) -> bool:
        log = partition.log
        live = owner.live_records(partition.index)
        if live is None or not self._may_try(log):
            return False
        key = (partition.topic, partition.index)
        if not self._is_heavy(log, live):
            self._heavy_since.pop(key, None)
            return False
        now_ms = self._time.now().mono_ms
        since_ms = self._heavy_since.setdefault(key, now_ms)
        return (
            now_ms - since_ms >= OWNED_WAIT_MS
            or self.checkpoint.dirty_bytes(log) >= OWNED_DIRTY_BYTES_AT_ONCE
        )

    def _is_heavy(self, log: PartitionLog, live: int) -> bool:
        """Returns True if the log has so many dead records that it must be cleaned now, as
        `weighs_too_much` defines it. ``live`` is the number of live records; their size is
        estimated from the mean size of the records since the last cleaning."""
        size = log.size_bytes
        if size < OWNED_DEAD_BYTES_MIN:
            return False
        dirty_bytes = self.checkpoint.dirty_bytes(log)
        records = log.log_end_offset - self.checkpoint.first_dirty(log)
        if dirty_bytes < OWNED_DEAD_BYTES_MIN or records <= 0:
            return False
        return weighs_too_much(
            size, dirty_bytes, live * dirty_bytes // records, OWNED_DEAD_BYTES_MIN
        )

    async def clean_dirtiest(self) -> bool:
        """Cleans the dirtiest log that needs cleaning. Returns False if no log needs cleaning."""
        dirtiest = self._dirty.dirtiest(self._time.now(), self._roll)
        if dirtiest is None:
            return False
        return await self._clean(dirtiest, self.workers[1], roll=False)

    def _roll(self, log: PartitionLog) -> bool:
        try:
            log.roll()
        except OSError as error:
            self._failed(log, f"the active segment can't be rolled: {error}")
            return False
        return True

    def _may_try(self, log: PartitionLog) -> bool:
        if log.poisoned is not None:
            return False
        until_ms = self._waits_ms(log)
        return until_ms <= 0 or until_ms <= self._time.now().mono_ms

    def _waits_ms(self, log: PartitionLog) -> int:
        """Returns the monotonic time in ms before which a log must not be cleaned; 0 if it may be
        cleaned now."""
        key = (log.topic, log.partition)
        trouble = self.troubles.get(key)
        return self._paused.get(key, 0) if trouble is None else trouble.retry_ms

    def uncleanable(self) -> dict[str, str]:
        """Returns, for /healthz, the partitions whose last cleaning failed, with the reasons."""
        return {
            f"{topic}-{partition}": trouble.reason
            for (topic, partition), trouble in self.troubles.items()
        }

    # -- the work

    async def _clean(self, partition: Partition, worker: Cleaner, roll: bool) -> bool:
        """Cleans one log. Returns True if the caller should clean the next log without a pause."""
        log = partition.log
        if roll and not self._roll(log):
            return False
        first_offset = log.segments[0].base_offset
        try:
            return await self._clean_rolled(partition, worker)
        except Abandoned as reason:
            logger.info("cleaning abandoned", partition=_name(log), reason=str(reason))
        except LogPoisoned as error:
            partition.poisoned(error)
        except Exception as error:
            if not self.swaps.is_ours(partition):
                return False
            if first_offset < log.segments[0].base_offset:
                logger.info(
                    "cleaning abandoned: retention deleted segments of the log",
                    partition=_name(log),
                    reason=str(error),
                )
                return False
            if not isinstance(error, CleaningFailed | OSError):
                logger.exception("cleaning failed: internal error", partition=_name(log))
            self._failed(log, str(error) or type(error).__name__)
        return False

    async def _clean_rolled(self, partition: Partition, worker: Cleaner) -> bool:
        """Cleans the segments before the active segment. Raises the error of a failed cleaning."""
        log = partition.log
        found = self.checkpoint.judge(log, self._time.now().wall_ms)
        job = self._job(log, found)
        if log.recovery_point < found.end_offset:
            # Without the flush, a power loss after the cleaning could lose both the newer record
            # and the older record that the newer one superseded.
            await partition.flush()
        truncations = log.truncations
        done = await worker.clean(
            job,
            lambda group: self.swaps.replace(partition, group, truncations),
            log.producers.last_batches(),
        )
        self._succeeded(log, found, done)
        await self._time.in_thread(self.checkpoint.write)
        return (log.topic, log.partition) not in self._paused

    def _job(self, log: PartitionLog, found: Cleanable) -> CleanJob:
        config, log_config = self._config, log.config
        owner = self._owners.get(log.topic)
        rate: float = config["log.cleaner.io.max.bytes.per.second"]
        memory = config["log.cleaner.dedupe.buffer.size"]
        return CleanJob(
            directory=log.directory,
            segments=[list(facts) for facts in segment_facts(log.segments)],
            first_dirty_offset=found.first_dirty_offset,
            end_offset=found.end_offset,
            now_ms=self._time.now().wall_ms,
            delete_retention_ms=log_config.delete_retention_ms,
            stable_offset=log.first_uncleanable_offset,
            keep_tombstones_from=LONG_MAX if owner is None else owner.oldest_needed(log),
            late_go=owner is not None,
            segment_bytes=log_config.segment_bytes,
            segment_index_bytes=log_config.segment_index_bytes,
            index_interval_bytes=log_config.index_interval_bytes,
            map_bytes=int(memory * config["log.cleaner.io.buffer.load.factor"]),
            bytes_per_second=rate if rate < _THROTTLE_MAX else 0.0,
        )

    def _succeeded(self, log: PartitionLog, found: Cleanable, done: CleanDone) -> None:
        key = (log.topic, log.partition)
        self.runs += 1
        self.bytes_read += done.bytes_read
        self.bytes_written += done.bytes_written
        if self.troubles.pop(key, None) is not None:
            logger.info("log can be cleaned again", partition=_name(log))
        self._paused.pop(key, None)
        if done.end_offset <= found.first_dirty_offset:
            backoff_ms: int = max(self._config["log.cleaner.backoff.ms"], 1000)
            self._paused[key] = self._time.now().mono_ms + backoff_ms
            return
        self.checkpoint.note(log, done.end_offset)
        often = log.topic in self._owners  # cleaned as often as every second
        (logger.debug if often else logger.info)(
            "log cleaned",
            partition=_name(log),
            bytes_before=done.bytes_read,
            bytes_after=done.bytes_written,
            records_before=done.records_read,
            records_after=done.records_kept,
            up_to_offset=done.end_offset,
            ms=done.milliseconds,
        )

    def _failed(self, log: PartitionLog, reason: str) -> None:
        key = (log.topic, log.partition)
        known = self.troubles.get(key)
        failures = 1 if known is None else known.failures + 1
        first_ms, most_ms = OWNED_RETRY_MS, OWNED_RETRY_MS_MAX
        if log.topic not in self._owners:
            first_ms = max(self._config["log.cleaner.backoff.ms"], 1000)
            most_ms = RETRY_MS_MAX
        wait_ms = min(first_ms * 2 ** min(failures - 1, 20), most_ms)
        now_ms = self._time.now().mono_ms
        self.troubles[key] = Trouble(reason, failures, now_ms + wait_ms)
        self.failures += 1
        logger.error(
            "log can't be cleaned, retrying",
            partition=_name(log),
            reason=reason,
            failures=failures,
            next_try_ms=wait_ms,
        )


def _name(log: PartitionLog) -> str:
    return f"{log.topic}-{log.partition}"
