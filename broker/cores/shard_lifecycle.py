"""The life of shards: their loads, failures and unloads.

After a failed append, the replies that depend on it become errors (ARCHITECTURE.md, law 6). The
shard is unloaded and loaded again, and rejects calls that need a record until a probe write
succeeds. A failed fsync or a failed truncation stops the broker.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic

import structlog

from broker.cores.core import CoreT, Kind, Outcome
from broker.cores.duties import DutiesT, MakeDuties, Superseded
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import LOADED, HostedShard, NotActive, Phase
from broker.cores.loading import give_up, load
from broker.cores.observer import Observer
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.snapshots import NEEDED_BY_NONE, Snapshots
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.partition import Partition
from broker.topics.ticket import Ticket, deliver
from log.partition_log import PartitionLog
from protocol.errors import NOT_COORDINATOR

if TYPE_CHECKING:
    from asyncio import Future, Task

logger = structlog.get_logger(__name__)

SETTLING_MS = 3000
RELOAD_MS_MAX = 60_000
"""The maximum pause in ms before a shard is loaded again after repeated internal errors."""
_NOTHING: Outcome = ((), (), ())


class ShardLifecycle(Generic[CoreT, DutiesT]):
    """The shards of one kind, and the changes of whole shards, such as loads and unloads.

    ``take`` receives each outcome that was not caused by a call of a client, such as the outcome of
    a load. ``arm`` sets the timer for a shard. Both are methods of `Runtime`.
    """

    def __init__(
        self,
        kind: Kind[CoreT],
        make_duties: MakeDuties[DutiesT],
        settings: RuntimeSettings,
        time: Time,
        slicer: Slicer,
        errors: InternalErrors,
        hooks: Hooks,
        take: Callable[[HostedShard[CoreT], Outcome], None],
        arm: Callable[[HostedShard[CoreT]], None],
    ) -> None:
        self.hosted_shards: list[HostedShard[CoreT]] = []
        """The shards of the partitions that this broker leads, ordered by partition. Empty if the
        topic does not exist."""
        self.by_partition: dict[int, HostedShard[CoreT]] = {}
        """The same shards as in `hosted_shards`, by partition."""
        self.partitions = 0
        """The number of partitions of the internal topic. It determines to which partition a key
        belongs."""
        self.failed = False
        """True if a log has failed and accepts no records until the process restarts. The broker
        then stops, because it can't acknowledge records."""
        self.snapshots: Snapshots | None = None
        self._snapshots_task: Task[None] | None = None
        self.observer = hooks.observer or Observer(time, errors)
        self.emit = self.observer.observe
        """The function that reports the events of an outcome."""
        self.duties = make_duties(self.hosted_shards, time, self.work)
        self._kind = kind
        self._settings = settings
        self._time = time
        self._slicer = slicer
        self._errors = errors
        self._hooks = hooks
        self._take = take
        self._arm = arm
        self._settled_ms = 0
        """The monotonic time in ms from which the broker assumes that all clients have returned to
        the shard that was loaded last."""
        self._loads: dict[Task[None], None] = {}
        """The tasks that load shards, write snapshots, or prepare shards to serve, in the order of
        their start."""
        self._waiting: deque[HostedShard[CoreT]] = deque()
        """The shards that will be loaded next, in order."""
        self._loaders = 0
        """The number of tasks that load shards of `_waiting`."""
        self._without_gc = 0
        """The number of running loads for which the garbage collector is turned off."""

    def start(
        self,
        partitions: Sequence[Partition],
        topic_id: bytes | None,
        unfinished: Any,
        count: int | None,
    ) -> None:
        assert not self.partitions, "the shards of the internal topic already exist"
        kind = self._kind
        self.partitions = len(partitions) if count is None else count
        for partition in partitions:
            self._host(partition)
        if topic_id is not None and kind.snapshot is not None:
            self.snapshots = Snapshots(kind, topic_id, self._hooks.cleaned_to, self._slicer)
            work = self.snapshots.run(self.hosted_shards, lambda: self.settling)
            self._snapshots_task = self._spawn("snapshot", work)
        self.duties.resume(unfinished)
        self._begin_to_load(self.hosted_shards)

    def lead(self, partition: Partition) -> None:
        """Creates the shard of a partition that this broker now leads, and loads the shard.

        If the shard exists, it is not loaded again. Its later batches get the new leader epoch.
        """
        hosted = self.by_partition.get(partition.index)
        if hosted is None:
            self._begin_to_load([self._host(partition)])
        else:
            hosted.write_in_epoch()

    def resign(self, index: int) -> None:
        """Unloads the shard of a partition that another broker now leads, and answers its parked
        calls."""
        hosted = self.by_partition.pop(index, None)
        if hosted is not None:
            self.hosted_shards.remove(hosted)
            hosted.partition.owner = None
            self.duties.resigned(hosted)
            self._shut(hosted, Phase.UNLOADED)

    def forget(self) -> None:
        """Unloads all shards, because the internal topic was deleted. `start` may be called again
        for a new topic."""
        for index in list(self.by_partition):
            self.resign(index)
        if self._snapshots_task is not None:
            self._snapshots_task.cancel()
        self.partitions, self.snapshots, self._snapshots_task = 0, None, None

    def _host(self, partition: Partition) -> HostedShard[CoreT]:
        kind = self._kind
        hosted = HostedShard(kind, self._new_core(), partition, self.partitions, self._errors)
        self._settings.write_as(hosted)
        hosted.pass_over = self._settings.pass_over(kind.topic, hosted.index)
        self.by_partition[hosted.index] = hosted
        self.hosted_shards[:] = [self.by_partition[each] for each in sorted(self.by_partition)]
        partition.owner = _Owner(self, hosted)
        return hosted

    def _begin_to_load(self, hosted_shards: Sequence[HostedShard[CoreT]]) -> None:
        """Activates shards whose logs are empty. Starts to load the other shards."""
        for hosted in hosted_shards:
            if hosted.log.log_start_offset == hosted.log.log_end_offset:
                if self.snapshots is not None:
                    self.snapshots.read(hosted.log)  # this deletes a snapshot of an older log
                hosted.load_ms = 0
                self._loaded(hosted)
            else:
                self._waiting.append(hosted)
                if self._loaders < self._settings.loads_at_once:
                    self._loaders += 1
                    self._spawn("load", self._load_waiting())

    async def stop(self, end_turn: Callable[[], None]) -> None:
        """Waits for flushes in progress, and unloads all shards."""
        for hosted in self.hosted_shards:
            hosted.refuse_foreign()
        if not self.failed:
            end_turn()
            for hosted in list(self.hosted_shards):
                await hosted.partition.settled()
        with self._hooks.replies_together():
            for hosted in list(self.hosted_shards):
                self._unload(hosted, Phase.UNLOADED)

    def stop_loading(self) -> None:
        """Cancels loads and writes of snapshots that are in progress."""
        for task in list(self._loads):
            task.cancel()

    def configure(self, settings: RuntimeSettings) -> None:
        self._settings = settings
        for hosted in self.hosted_shards:
            hosted.core.configure(settings.core)
            settings.write_as(hosted)

    def hosts(self, partition: int) -> bool:
        return partition in self.by_partition

    def live_records(self, partition: int) -> int | None:
        """Returns the approximate number of records of a partition that the log cleaner would keep;
        None if the shard is not active."""
        hosted = self.by_partition.get(partition)
        served = hosted is not None and hosted.phase is Phase.ACTIVE
        return hosted.core.view.live_records() if hosted is not None and served else None

    def oldest_needed(self, log: PartitionLog) -> int:
        """Returns the offset from which on the log cleaner must keep tombstones, because snapshots
        may need them."""
        if self.snapshots is None or log.topic != self._kind.topic:
            return NEEDED_BY_NONE
        return self.snapshots.oldest_needed(log.partition)

    async def before_exchange(self, log: PartitionLog) -> None:
        """Called before the log cleaner replaces inactive segments. Writes a snapshot that includes
        all their records, and therefore stays valid after the replacement."""
        hosted = self.by_partition.get(log.partition)
        if self.snapshots is not None and log.topic == self._kind.topic and hosted is not None:
            await self.snapshots.cover(hosted, log.active.base_offset)

    async def save(self) -> None:
        """Writes snapshots of the shards, so that the next start loads the shards faster."""
        if self.snapshots is not None and not self.failed:
            await self.snapshots.write_all(self.hosted_shards)

    @property
    def loading(self) -> bool:
        """True if a shard is being loaded."""
        return any(hosted.phase is Phase.LOADING for hosted in self.hosted_shards)

    @property
    def settling(self) -> bool:
        """True if a shard is being loaded, or was loaded less than `SETTLING_MS` ago. In this time
        clients reconnect to the shard, so work that can wait, such as snapshots and cleaning, waits
        until this property is False."""
        return self.loading or self._time.real.now().mono_ms < self._settled_ms

    def unreadable(self) -> dict[str, str]:
        """Returns the reason for each partition whose log can't be read, by partition name, for
        /healthz."""
        logs = [(hosted.partition.name, hosted.log) for hosted in self.hosted_shards]
        return {name: log.unreadable for name, log in logs if log.unreadable}

    def _new_core(self) -> CoreT:
        return self._kind.new_core(self._settings.core)

    # -- failures

    def append_failed(self, hosted: HostedShard[CoreT], error: Exception) -> None:
        """Handles a failed append: the replies that depend on it become errors, and the shard is
        loaded again (ARCHITECTURE.md, law 6)."""
        hosted.drop_unwritten(error)
        hosted.partition.append_failed(error)
        if hosted.log.failed_for_good:
            return  # `stop_for_good` has been called
        self._unload(hosted, Phase.LOADING)
        self._load_again(hosted, writable=False)
        logger.error(
            "coordinator append failed, partition reloads and rejects requests until"
            " a write succeeds",
            topic=self._kind.topic,
            partition=hosted.index,
            error=str(error),
        )

    def reload(self, hosted: HostedShard[CoreT], after: Future[None] | None = None) -> None:
        """Loads a shard again, because another writer has appended to its log. If ``after`` is
        given, first waits for this future."""
        self._unload(hosted, Phase.LOADING)
        self._load_again(hosted, writable=True, after=after)

    def renew(self, hosted: HostedShard[CoreT]) -> None:
        """Stops serving the shard, calls `before_serving` of the shard's `Duties`, and then serves
        the shard again. The caller has appended the shard's accepted records before."""
        hosted.renews = False
        if hosted.phase is Phase.ACTIVE:
            hosted.phase = Phase.UNWRITABLE
            self._spawn("renew", self._serve_when_writable(hosted))

    def work(self, hosted: HostedShard[CoreT], work: Callable[[], Outcome]) -> None:
        """Executes a step of a core, and handles the outcome. An exception in the step affects only
        this shard."""
        outcome = _NOTHING
        try:
            outcome = work()
            self._take(hosted, outcome)
        except Exception as error:  # noqa: BLE001 - a bug of ours, counted and logged
            answered = self.break_down(hosted, error)
            for ticket, reply in outcome[1]:
                if ticket not in answered:
                    deliver(ticket, self._kind.write_failed(reply), self._errors)

    def break_down(
        self, hosted: HostedShard[CoreT], error: Exception, write: bool = True
    ) -> list[Ticket]:
        """Reloads a shard after an exception from a bug in Muster, because a change of its state
        may be incomplete.

        First writes the accepted records. The first reload is immediate. Repeated reloads are
        delayed by up to `RELOAD_MS_MAX`, so that no request can keep a shard loading. Returns the
        tickets that were answered.
        """
        writable = hosted.phase is Phase.ACTIVE
        failed: Exception | None = None
        if write and hosted.accepted > hosted.appended:
            try:
                max_bytes = self._settings.core.max_record_bytes
                hosted.partition.appended(hosted.append(self._time.now().wall_ms, max_bytes))
            except Exception as why:  # noqa: BLE001 - the probe after the load handles it
                writable, failed = False, why
        answered = self._unload(hosted, Phase.LOADING)
        if failed is not None:
            hosted.partition.append_failed(failed)
            if hosted.log.failed_for_good:
                return answered
        now_ms = self._time.now().mono_ms
        again = hosted.breakdowns and now_ms - hosted.broke_down_ms < 2 * RELOAD_MS_MAX
        hosted.breakdowns = hosted.breakdowns + 1 if again else 1
        hosted.broke_down_ms = now_ms
        wait_ms = 0 if not again else min(1000 << min(hosted.breakdowns - 2, 6), RELOAD_MS_MAX)
        self._load_again(hosted, writable, wait_ms)
        self._errors.caught("shard", error, partition=hosted.index, loaded_again_in_ms=wait_ms)
        return answered

    def stop_for_good(self, hosted: HostedShard[CoreT]) -> None:
        """Unloads a shard whose log has failed and accepts no records until the process restarts.
        The caller does not have to stop the broker: `Partition` stops it."""
        self.failed = True
        self._shut(hosted, Phase.UNLOADED)

    def _shut(self, hosted: HostedShard[CoreT], phase: Phase) -> None:
        """Unloads a shard that will not be loaded again. All replies to a connection are sent
        together."""
        with self._hooks.replies_together():
            self._unload(hosted, phase)

    def _unload(self, hosted: HostedShard[CoreT], phase: Phase) -> list[Ticket]:
        """Unloads a shard. A reply that waits until its records are stable becomes an error. Every
        parked request gets NOT_COORDINATOR.

        Returns the tickets of the parked requests.
        """
        loaded = hosted.phase in LOADED
        hosted.phase = phase
        hosted.refuse_foreign()
        hosted.drop_unwritten(NotActive(phase.value))
        if not loaded:
            return []
        try:
            _, replies, events = hosted.core.unload(NOT_COORDINATOR)
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._errors.caught("shard", error, partition=hosted.index)
            return []
        for ticket, reply in replies:
            deliver(ticket, reply, self._errors)
        self.emit(events)
        return [ticket for ticket, _ in replies]

    # -- loading

    def _load_again(
        self,
        hosted: HostedShard[CoreT],
        writable: bool,
        wait_ms: int = 0,
        after: Future[None] | None = None,
    ) -> None:
        """Loads the log of an unloaded shard into a new core. The load begins after ``wait_ms``; if
        the future ``after`` is given, the load also waits for this future."""
        hosted.reset(self._new_core())
        self.duties.restarted(hosted)
        self._spawn("load", self._load_after(hosted, writable, wait_ms, after))

    async def _load_after(
        self, hosted: HostedShard[CoreT], writable: bool, wait_ms: int, after: Future[None] | None
    ) -> None:
        """Loads a shard when ``wait_ms`` have passed and the future ``after`` is complete.
        ``writable`` is False if the last write to the shard's log failed: the shard then stays
        inactive until a probe write succeeds."""
        if wait_ms:
            await self._time.real.sleep(wait_ms / 1000)
        if after is not None:
            await after
        with self._gc_is_off():
            await self._load(hosted, writable)
        if not writable and not self.failed and hosted.phase is Phase.UNWRITABLE:
            await self._serve_when_writable(hosted)

    async def _load_waiting(self) -> None:
        """Loads the shards of `_waiting`, one after the other."""
        try:
            with self._gc_is_off():
                while self._waiting and not self.failed:
                    await self._load(self._waiting.popleft(), writable=True)
        finally:
            self._loaders -= 1

    @contextmanager
    def _gc_is_off(self) -> Iterator[None]:
        """Returns a context manager that turns the garbage collector off, because a collection
        would traverse long-lived objects and thus prolong turns."""
        self._without_gc += 1
        gc.disable()
        try:
            yield
        finally:
            self._without_gc -= 1
            if not self._without_gc:
                gc.freeze()
                gc.enable()

    async def _load(self, hosted: HostedShard[CoreT], writable: bool) -> None:
        """Loads a shard, if this broker still leads the partition.

        If the log can't be read, the shard rejects all calls. It is never served as an empty shard.
        """
        if not self._is_led(hosted):
            return
        try:
            await load(
                hosted,
                self._settings.load_buffer_bytes,
                self._slicer,
                self.snapshots,
                self._new_core,
                self.duties.before_serving if writable else None,
            )
            self._settled_ms = self._time.real.now().mono_ms + SETTLING_MS
            if self._is_led(hosted):
                self._loaded(hosted, writable)
        except Superseded:
            pass
        except Exception as error:  # noqa: BLE001 - any failure is limited to this shard
            if self._is_led(hosted):
                give_up(hosted, error)
                self._shut(hosted, Phase.FAILED)
                hosted.core = self._new_core()

    def _is_led(self, hosted: HostedShard[CoreT]) -> bool:
        """Returns True if this broker still leads the partition of the shard."""
        return self.by_partition.get(hosted.index) is hosted

    def in_sync_changed(self, hosted: HostedShard[CoreT]) -> None:
        """Called when the number of in-sync replicas falls below min.insync.replicas, and when it
        is sufficient again.

        The shard refuses writes in between, but its state stays in memory.
        """
        enough = hosted.partition.enough_in_sync
        if not enough and hosted.phase is Phase.ACTIVE:
            hosted.phase = Phase.UNWRITABLE
        elif enough and hosted.phase is Phase.UNWRITABLE:
            self._spawn("renew", self._serve_when_writable(hosted))

    async def _serve_when_writable(self, hosted: HostedShard[CoreT]) -> None:
        """Makes a shard active again once its log accepts writes."""
        writable = await hosted.partition.writable()
        # If the shard is being loaded again, the load waits for the log.
        if writable and self._waits_to_write(hosted):
            try:
                await self.duties.before_serving(hosted)
            except Superseded:
                return
            if self._waits_to_write(hosted):
                hosted.phase = Phase.ACTIVE
                self.duties.catch_up(hosted)
                self._arm(hosted)

    def _waits_to_write(self, hosted: HostedShard[CoreT]) -> bool:
        """Returns True if the shard is UNWRITABLE only because its log accepts no records, not
        because too few replicas are in sync. Such a shard becomes ACTIVE as soon as its log accepts
        records."""
        return hosted.phase is Phase.UNWRITABLE and hosted.partition.enough_in_sync

    def _loaded(self, hosted: HostedShard[CoreT], writable: bool = True) -> None:
        served = writable and hosted.partition.enough_in_sync
        hosted.phase = Phase.ACTIVE if served else Phase.UNWRITABLE
        if hosted.partition.high_watermark < hosted.appended:
            hosted.partition.appended(0)
        self._take(hosted, hosted.core.loaded(self._time.now()))
        self.duties.catch_up(hosted)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> Task[None]:
        task = self._slicer.watchdog.task(name, work)
        self._loads[task] = None
        task.add_done_callback(self._loads.pop)
        return task


class _Owner:
    """Receives reports from the partition of a shard, about failures of its log and changes of its
    ISR, and passes them to the shard's lifecycle."""

    __slots__ = ("_hosted", "_life", "producers")

    def __init__(self, life: ShardLifecycle[Any, Any], hosted: HostedShard[Any]) -> None:
        self._life = life
        self._hosted = hosted
        self.producers = hosted.producers

    def log_failed(self) -> None:
        self._life.stop_for_good(self._hosted)

    def in_sync_changed(self) -> None:
        self._life.in_sync_changed(self._hosted)
