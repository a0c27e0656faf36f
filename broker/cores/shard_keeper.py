"""The shards' lives: loading, failing, unloading.

Law 6 is here: an append that failed turns the replies that depend on it into errors, the shard is
unloaded and loaded again, and it refuses what needs a record until a probe succeeds; a failed fsync
or a failed cut stops the broker.
"""

from __future__ import annotations

import asyncio
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker.cores.dropped_offsets import DroppedOffsets, Superseded
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import LOADED, HostedShard, NotActive, Phase, deliver
from broker.cores.loading import give_up, load
from broker.cores.refusals import write_failed
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.snapshots import NEEDED_BY_NONE, Snapshots
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.partition import Partition
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import Ticket
from coordinator.events import Event
from coordinator.outcome import NOTHING, Outcome
from coordinator.shard import GroupShard
from log.partition_log import PartitionLog
from protocol.errors import NOT_COORDINATOR

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

logger = structlog.get_logger(__name__)

SETTLING_MS = 3000
RELOAD_MS_MAX = 60_000
"""How long a shard that a bug ends again and again waits at most before it is loaded."""


class ShardKeeper(ABC):
    """The shards of one broker and what may happen to each as a whole."""

    def __init__(
        self,
        settings: RuntimeSettings,
        time: Time,
        errors: InternalErrors | None = None,
        slicer: Slicer | None = None,
        hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
    ) -> None:
        self.settings = settings
        self.time = time
        self.ticks_ns = time.ticks_ns
        self.errors = errors or InternalErrors()
        self.slicer = slicer or Slicer(time)
        self.watchdog = self.slicer.watchdog
        self.hosted_shards: list[HostedShard] = []
        """By partition; empty while ``__consumer_offsets`` does not exist."""
        self.observers = list(hooks.observers)
        self._before_replies = hooks.before_replies
        self._after_replies = hooks.after_replies
        self._cleaned_to = hooks.cleaned_to
        self.fatal: str | None = None
        self.snapshots: Snapshots | None = None
        self.dropped_offsets = DroppedOffsets(
            self.hosted_shards, time, self._work, hooks.on_dropped
        )
        self._settled_ms = 0
        """When the first rush after the last load is over (monotonic)."""
        self._loads: dict[Task[None], None] = {}
        self._loop: AbstractEventLoop

    def start(
        self,
        partitions: Sequence[Partition],
        topic_id: bytes | None = None,
        deleted: Mapping[str, Mapping[int, int] | None] | None = None,
    ) -> None:
        """Makes a shard of each partition's log and begins to load those that hold anything.

        With the id of their topic there are snapshots too; ``deleted``: DroppedOffsets.resume.
        """
        assert not self.hosted_shards, "the offsets topic has its shards already"
        self._loop = asyncio.get_running_loop()
        for partition, home in enumerate(partitions):
            shard = GroupShard(self.settings.groups)
            hosted = HostedShard(partition, shard, home, len(partitions), self.errors)
            self.settings.write_as(hosted)
            hosted.told = self.settings.told(partition)
            self.hosted_shards.append(hosted)
            home.when_failed(partial(self._stop_for_good, hosted))
        if topic_id is not None:
            self.snapshots = Snapshots(topic_id, self._cleaned_to, self.slicer)
            self._spawn(
                "snapshot",
                self.snapshots.run(self.hosted_shards, lambda: self.settling),
                self._loads,
            )
        self.dropped_offsets.resume(deleted or {})
        waiting = []
        for hosted in self.hosted_shards:
            if hosted.log.log_start_offset == hosted.log.log_end_offset:
                if self.snapshots is not None:
                    self.snapshots.read(hosted.log)  # if there is one it is deleted
                hosted.load_ms = 0
                self._loaded(hosted)
            else:
                waiting.append(hosted)
        if waiting:
            self._spawn("load", self._load(waiting, writable=True), self._loads)

    def configure(self, settings: RuntimeSettings) -> None:
        """Other settings, from the next call on."""
        self.settings = settings
        for hosted in self.hosted_shards:
            hosted.core.configure(settings.groups)
            settings.write_as(hosted)

    def oldest_needed(self, log: PartitionLog) -> int:
        """The offset at and above which no tombstone of an offsets log may go."""
        if self.snapshots is None or log.topic != OFFSETS_TOPIC:
            return NEEDED_BY_NONE
        return self.snapshots.oldest_needed(log.partition)

    async def before_exchange(self, log: PartitionLog) -> None:
        """Sees to it that a cleaner's exchange below the active segment leaves a good snapshot."""
        if self.snapshots is not None and log.topic == OFFSETS_TOPIC:
            await self.snapshots.cover(self.hosted_shards[log.partition], log.active.base_offset)

    async def save(self) -> None:
        """Writes the snapshots that a restart would miss."""
        if self.snapshots is not None and self.fatal is None:
            await self.snapshots.write_all(self.hosted_shards)

    def unreadable(self) -> dict[str, str]:
        """Why the groups of a partition can't be served, by partition, for /healthz."""
        logs = [hosted.log for hosted in self.hosted_shards]
        return {f"{log.topic}-{log.partition}": log.unreadable for log in logs if log.unreadable}

    @property
    def loading(self) -> bool:
        """Whether any shard is still being loaded."""
        return any(hosted.phase is Phase.LOADING for hosted in self.hosted_shards)

    @property
    def settling(self) -> bool:
        """Whether shards are being loaded, or were a moment ago: all their clients come back then.

        What can wait, snapshots and cleanings, does.
        """
        return self.loading or self.time.now().mono_ms < self._settled_ms

    # -- what the turn does

    @abstractmethod
    def _take(self, hosted: HostedShard, outcome: Outcome) -> None:
        """Takes an outcome that no call is waiting for."""

    @abstractmethod
    def _arm(self, hosted: HostedShard) -> None:
        """Sets the timer for ``hosted``."""

    def _emit(self, events: Iterable[Event]) -> None:
        for event in events:
            for observe in self.observers:
                try:
                    observe(event)
                except Exception as error:  # noqa: BLE001 - counted and told by `caught`
                    self.errors.caught("observer", error, event=type(event).__name__)

    # -- failures

    def _append_failed(self, hosted: HostedShard, error: Exception) -> None:
        """Law 6: replies that depend on the write become errors, and the shard is loaded again."""
        hosted.drop_unwritten(error)
        hosted.home.append_failed(error)
        if hosted.log.failed_for_good:
            return  # `_stop_for_good`
        self._unload(hosted, Phase.LOADING)
        hosted.reset(GroupShard(self.settings.groups))
        self._spawn("load", self._load([hosted], writable=False), self._loads)
        logger.error(
            "an append failed; the shard loads again and refuses commits until a write succeeds",
            topic=OFFSETS_TOPIC,
            partition=hosted.partition,
            error=str(error),
        )

    def _work(self, hosted: HostedShard, work: Callable[[], Outcome]) -> None:
        """Takes the outcome of what a shard does by itself; a bug in it harms that shard alone."""
        outcome = NOTHING
        try:
            outcome = work()
            self._take(hosted, outcome)
        except Exception as error:  # noqa: BLE001 - a bug of ours, counted and told
            answered = self._break_down(hosted, error)
            for ticket, reply in outcome.replies:
                if ticket not in answered:
                    deliver(ticket, write_failed(reply), self.errors)

    def _break_down(
        self, hosted: HostedShard, error: Exception, write: bool = True
    ) -> list[Ticket]:
        """A bug of ours: what ``hosted`` has in memory may be half changed; it is loaded again.

        What it had accepted before is written. The first load is at once; when it happens again
        and again they come ever more seldom, so that no request can keep a shard loading. Returns
        the tickets that were answered.
        """
        writable = hosted.phase is Phase.ACTIVE
        failed: Exception | None = None
        if write and hosted.accepted > hosted.appended:
            try:
                size = hosted.append(self.time.now().wall_ms, self.settings.groups.max_record_bytes)
                hosted.home.appended(size)
            except Exception as why:  # noqa: BLE001 - the probe after the load sees to it
                writable, failed = False, why
        answered = self._unload(hosted, Phase.LOADING)
        if failed is not None:
            hosted.home.append_failed(failed)
            if hosted.log.failed_for_good:
                return answered
        now_ms = self.time.now().mono_ms
        again = hosted.breakdowns and now_ms - hosted.broke_down_ms < 2 * RELOAD_MS_MAX
        hosted.breakdowns = hosted.breakdowns + 1 if again else 1
        hosted.broke_down_ms = now_ms
        wait_ms = 0 if not again else min(1000 << min(hosted.breakdowns - 2, 6), RELOAD_MS_MAX)
        hosted.reset(GroupShard(self.settings.groups))
        self._spawn("load", self._reload(hosted, wait_ms, writable), self._loads)
        self.errors.caught("shard", error, partition=hosted.partition, loaded_again_in_ms=wait_ms)
        return answered

    async def _reload(self, hosted: HostedShard, wait_ms: int, writable: bool) -> None:
        if wait_ms:
            await self.time.sleep(wait_ms / 1000)
        await self._load([hosted], writable)

    def _stop_for_good(self, hosted: HostedShard, error: Exception) -> None:
        """A log has failed for good; its partition stops the broker."""
        if self.fatal is None:
            self.fatal = f"{hosted.home.name} can't be written safely any more: {error}"
        self._shut(hosted, Phase.UNLOADED)

    def _shut(self, hosted: HostedShard, phase: Phase) -> None:
        """Unloads a shard that does not come back."""
        self._before_replies()
        try:
            self._unload(hosted, phase)
        finally:
            self._after_replies()

    def _unload(self, hosted: HostedShard, phase: Phase) -> list[Ticket]:
        """Answers every parked request NOT_COORDINATOR, and what was held before them.

        Returns the tickets of the parked.
        """
        loaded = hosted.phase in LOADED
        hosted.phase = phase
        hosted.refuse_foreign()
        hosted.drop_unwritten(NotActive(phase.value))
        if not loaded:
            return []
        try:
            outcome = hosted.core.unload(NOT_COORDINATOR)
        except Exception as error:  # noqa: BLE001 - counted and told by `caught`
            self.errors.caught("shard", error, partition=hosted.partition)
            return []
        for ticket, reply in outcome.replies:
            deliver(ticket, reply, self.errors)
        self._emit(outcome.events)
        return [ticket for ticket, _ in outcome.replies]

    async def _load(self, hosted_shards: Sequence[HostedShard], writable: bool) -> None:
        """Loads shards, so many at a time; those that are not writable are probed afterwards."""
        gc.disable()  # what loads stays: looking through it would only make turns long
        waiting = iter(hosted_shards)
        at_once = min(self.settings.loads_at_once, len(hosted_shards))
        try:
            loaded = await asyncio.gather(
                *(self._load_in_turn(waiting, writable) for _ in range(at_once))
            )
        finally:
            gc.freeze()
            gc.enable()
        if not writable and all(loaded):
            for hosted in hosted_shards:
                if hosted.phase is Phase.UNWRITABLE:
                    await self._serve_when_writable(hosted)

    async def _load_in_turn(self, waiting: Iterator[HostedShard], writable: bool) -> bool:
        """Loads one shard after the other; False when the broker stops.

        A log that can't be read is never served as empty: its shard refuses all from then on.
        """
        for hosted in waiting:
            try:
                await load(
                    hosted,
                    self.settings.load_buffer_bytes,
                    self.slicer,
                    self.snapshots,
                    lambda: GroupShard(self.settings.groups),
                    self.dropped_offsets.before_serving if writable else None,
                )
                self._settled_ms = self.time.now().mono_ms + SETTLING_MS
                self._loaded(hosted, writable)
            except Superseded:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this shard's alone
                give_up(hosted, error)
                self._shut(hosted, Phase.FAILED)
                hosted.core = GroupShard(self.settings.groups)
            if self.fatal is not None:
                return False
        return True

    async def _serve_when_writable(self, hosted: HostedShard) -> None:
        """Makes ``hosted`` whole again once its log takes writes."""
        writable = await hosted.home.writable()
        # It may be loading again, and is waited for again then.
        if writable and hosted.phase is Phase.UNWRITABLE:
            hosted.phase = Phase.ACTIVE
            self.dropped_offsets.catch_up(hosted)
            self._arm(hosted)

    def _loaded(self, hosted: HostedShard, writable: bool = True) -> None:
        hosted.phase = Phase.ACTIVE if writable else Phase.UNWRITABLE
        if hosted.home.high_watermark < hosted.appended:
            hosted.home.appended(0)
        self._take(hosted, hosted.core.loaded(self.time.now()))
        self.dropped_offsets.catch_up(hosted)

    def _spawn(
        self, name: str, work: Coroutine[Any, Any, None], tasks: dict[Task[None], None]
    ) -> None:
        task = self._loop.create_task(self.watchdog.watched(name, work))
        tasks[task] = None
        task.add_done_callback(tasks.pop)
