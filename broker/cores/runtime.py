"""The runtime of one kind of core: provides pure cores with turns, a clock and a log.

The runtime owns this broker's shards, one for each partition of the internal topic that the broker
leads. It passes each call to its shard immediately, and immediately replays the records of the
outcome. At the end of the turn it makes one append to each partition with new records, and then
sends the replies that waited for the append. One timer serves all shards.
`broker/cores/shard_lifecycle.py` loads and unloads shards, and handles their failures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from broker.cores.core import Call, CoreT, Kind, Outcome, Reply
from broker.cores.duties import DutiesT, MakeDuties
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import HostedShard, NotActive, Phase
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.shard_lifecycle import ShardLifecycle
from broker.loop.histogram import Histogram
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import SLICE_NS, Slicer
from broker.time import Time
from broker.topics.partition import Partition
from broker.topics.ticket import REPLIES_AT_ONCE, Ticket, deliver, deliver_all
from log.errors import LogPoisoned
from log.values import AppendInfo
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR

if TYPE_CHECKING:
    from asyncio import Future, Handle, TimerHandle

EXPIRE_BUDGET = 100
"""The maximum number of passed deadlines of a shard that are handled at a time; one takes 40 us."""
_KEYS_KEPT = 8192
_KEYS_KEPT_CHARACTERS = 1_000_000
"""The maximum total number of characters of the cached keys. The cache is for long group ids: a
lookup takes 10 us, and the computation of Kafka's hash takes 800 us."""
_ACTIVE = Phase.ACTIVE


class Runtime(Generic[CoreT, DutiesT]):
    """The shards of one kind. Only the event loop's thread may use this class."""

    def __init__(
        self,
        kind: Kind[CoreT],
        make_duties: MakeDuties[DutiesT],
        settings: RuntimeSettings,
        time: Time,
        slicer: Slicer,
        errors: InternalErrors | None = None,
        hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
    ) -> None:
        self.settings = settings
        self.time = time
        self.errors = errors or InternalErrors()
        self.watchdog = slicer.watchdog
        self.counted = 0
        """The number of calls of the type `Kind.counted`, such as OffsetCommit or EndTxn."""
        self.turns = Histogram()
        """The distribution of the time in ns that the end of a turn takes."""
        self.life = ShardLifecycle(
            kind, make_duties, settings, time, slicer, self.errors, hooks, self._take, self._arm
        )
        self.hosted_shards = self.life.hosted_shards
        """The list `ShardLifecycle.hosted_shards` itself, not a copy of it."""
        self.duties = self.life.duties
        """The methods that the runtime calls at certain points in the life of a shard."""
        self._ticks_ns = time.ticks_ns
        self._kind = kind
        self._counted = kind.counted
        self._not_stable = kind.not_stable
        self._sets_no_deadline, self._often_idle = kind.sets_no_deadline, kind.often_idle
        self._hooks = hooks
        self._by_key: dict[object, HostedShard[CoreT]] = {}
        self._by_key_characters = 0
        self._touched: list[HostedShard[CoreT]] = []
        self._turn: Handle | None = None
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0
        self._first_due = 0
        """The index of the shard with which the next `tick` begins."""
        self._loop: asyncio.AbstractEventLoop

    # -- start and stop

    def start(
        self,
        partitions: Sequence[Partition],
        topic_id: bytes | None = None,
        unfinished: Any = None,
        count: int | None = None,
    ) -> None:
        """Creates a shard for each partition, and starts to load the shards whose logs are not
        empty.

        ``topic_id`` is needed for snapshots. ``unfinished`` is the unfinished work of the previous
        process, which this runtime resumes. ``count`` is the number of partitions of the topic.
        """
        self._loop = asyncio.get_running_loop()
        self.life.start(partitions, topic_id, unfinished, count)

    @property
    def is_started(self) -> bool:
        """True if the internal topic exists."""
        return self.life.partitions > 0

    def lead(self, partition: Partition) -> None:
        """Creates the shard of a partition that this broker now leads."""
        self._by_key.clear()
        self.life.lead(partition)

    def resign(self, index: int) -> None:
        """Unloads the shard of a partition that another broker now leads."""
        self._by_key.clear()
        self.life.resign(index)

    def forget(self) -> None:
        """Unloads all shards, because the internal topic was deleted."""
        self._by_key.clear()
        self.life.forget()

    def configure(self, settings: RuntimeSettings) -> None:
        """Applies changed settings from the next call on."""
        self.settings = settings
        self.life.configure(settings)

    async def stop(self) -> None:
        """Ends the turn, waits for flushes in progress, and answers every parked request."""
        self.life.stop_loading()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self.hosted_shards:
            await self.life.stop(self._end_turn)
        if self._timer is not None:
            self._timer.cancel()

    # -- calls

    def submit(self, shard: str | HostedShard[CoreT], call: Call) -> None:
        """Passes a call to a shard, given as an object or by a key. The ticket gets one reply."""
        hosted = self._by_key.get(shard)
        if hosted is None:
            hosted = self.hosted_for(shard) if isinstance(shard, str) else shard
            if hosted is None:
                call.ticket.take(self._kind.not_served(call, NOT_COORDINATOR))
                return
        if hosted.phase is not _ACTIVE:
            error = self._refused(hosted, call)
            if error is not None:
                call.ticket.take(self._kind.not_served(call, error))
                return
        now = self.time.now()
        replies: Sequence[tuple[Ticket, Reply]] = ()
        try:
            records, replies, events = hosted.core.handle(call, now)
            if records:
                hosted.accept(records)
        except Exception as error:  # noqa: BLE001 - a bug of ours, counted and logged
            self._call_failed(hosted, call, replies, error)
            return
        kind = type(call)
        if kind is self._counted:
            self.counted += 1
            if records and self.settings.answers_early:
                for ticket, reply in replies:
                    deliver(ticket, reply, self.errors)
                replies = ()
        accepted = hosted.accepted
        partition = hosted.partition
        if accepted > partition.high_watermark:
            if replies:
                deadline_ms = now.mono_ms + self.settings.stable_timeout_ms
                partition.when_stable(accepted, replies, self._not_stable, deadline_ms)
        elif len(replies) > REPLIES_AT_ONCE:
            deliver_all(replies, self.errors)
        else:
            for ticket, reply in replies:
                try:
                    ticket.take(reply)
                except Exception as error:  # noqa: BLE001 - `deliver`, inlined
                    self.errors.caught("reply", error)
        is_idle = kind is self._often_idle and not (records or events)
        if not (hosted.touched or is_idle or kind in self._sets_no_deadline):
            self._touch(hosted)  # the end of the turn checks for a new deadline
        if events:
            self.life.emit(events)

    def _call_failed(
        self,
        hosted: HostedShard[CoreT],
        call: Call,
        replies: Sequence[tuple[Ticket, Reply]],
        error: Exception,
    ) -> None:
        """Handles an exception in a call, and sends an error for the call. If the call could change
        the state, also sends errors for other calls whose replies are lost."""
        answered = set()
        if isinstance(call, self._kind.reads):
            self.errors.caught("shard", error, partition=hosted.index)
        else:
            answered.update(self.life.break_down(hosted, error))
            for ticket, reply in replies:
                answered.add(ticket)
                deliver(ticket, self._kind.write_failed(reply), self.errors)
        if call.ticket not in answered:
            deliver(call.ticket, self._kind.refusal(call, UNKNOWN_SERVER_ERROR), self.errors)

    def connection_closed(self, connection: Hashable) -> None:
        """Handles the close of a client connection, which may have sent calls to any shard."""
        now = self.time.now()
        for hosted in list(self.hosted_shards):
            if hosted.phase is _ACTIVE and connection in hosted.core.connections:
                self.life.work(hosted, partial(hosted.core.connection_closed, connection, now))

    def hosted_for(self, key: str) -> HostedShard[CoreT] | None:
        """Returns the shard of ``key``; None if this broker does not lead its partition."""
        hosted = self._by_key.get(key)
        life = self.life
        if hosted is not None or not life.partitions:
            return hosted
        hosted = life.by_partition.get(self._kind.partition_of(key, life.partitions))
        if hosted is None:
            return None
        self._by_key_characters += len(key)
        full = self._by_key_characters > _KEYS_KEPT_CHARACTERS
        if full or len(self._by_key) >= _KEYS_KEPT:
            self._by_key.clear()
            self._by_key_characters = len(key)
        self._by_key[key] = hosted
        return hosted

    def view_of(self, key: str) -> Any:
        """Returns the view of the core that is responsible for ``key``; None if it is inactive."""
        hosted = self.hosted_for(key)
        return hosted.core.view if hosted is not None and hosted.phase is Phase.ACTIVE else None

    # -- the turn

    def _take(self, hosted: HostedShard[CoreT], outcome: Outcome) -> None:
        """Handles the outcome of a step that no call has caused, such as the end of a load."""
        records, replies, events = outcome
        if records:
            hosted.accept(records)
        if replies:
            deadline_ms = self.time.now().mono_ms + self.settings.stable_timeout_ms
            hosted.partition.when_stable(hosted.accepted, replies, self._not_stable, deadline_ms)
        self._touch(hosted)
        if events:
            self.life.emit(events)

    def _touch(self, hosted: HostedShard[CoreT]) -> None:
        if not hosted.touched:
            hosted.touched = True
            self._touched.append(hosted)
            if self._turn is None:
                linger_ms = self.settings.append_linger_ms
                self._turn = (
                    self.time.real.call_later(linger_ms / 1000, self._end_turn)
                    if linger_ms
                    else self._loop.call_soon(self._end_turn)
                )

    def _end_turn(self) -> None:
        """Appends new records, once per partition. Then sends replies whose records are stable."""
        began_ns = self._ticks_ns()
        self._turn = None
        touched, self._touched = self._touched, []
        wall_ms = self.time.now().wall_ms
        self._hooks.before_replies()
        try:
            for hosted in touched:
                hosted.touched = False
                try:
                    if hosted.accepted > hosted.appended and not self._append(hosted, wall_ms):
                        continue
                    if hosted.foreign:
                        self._append_foreign(hosted)
                    if hosted.renews:
                        self.life.renew(hosted)
                    self._arm(hosted)
                except Exception as error:  # noqa: BLE001 - a bug of ours, counted and logged
                    self.life.break_down(hosted, error, write=False)
        finally:
            self._hooks.after_replies()
        self.turns.add(self._ticks_ns() - began_ns)
        self.watchdog.ended("turn", began_ns)

    def _append(self, hosted: HostedShard[CoreT], wall_ms: int) -> bool:
        """Appends the accepted records of a shard. Returns False after a failure."""
        before, began_ns = hosted.appended, self._ticks_ns()
        try:
            size = hosted.append(wall_ms, self.settings.core.max_record_bytes)
        except Exception as error:  # noqa: BLE001 - any failure reloads the shard
            self.life.append_failed(hosted, error)
            return False
        partition = hosted.partition
        partition.writes.append.add(self._ticks_ns() - began_ns)
        partition.writes.records.add(hosted.appended - before)
        partition.appended(size)
        return True

    async def append_foreign(self, partition: int, append: Callable[[], AppendInfo]) -> AppendInfo:
        """Appends the records of a Produce request of a client to the log of a shard, and then
        loads the shard again.

        The records are appended at the end of the turn, after the shard's accepted records. Raises
        NotActive if nothing was written, and the exceptions of ``append``.
        """
        hosted = self.life.by_partition.get(partition)
        if hosted is None:
            raise NotActive("this broker does not lead the partition")
        done: Future[AppendInfo] = self._loop.create_future()
        hosted.foreign.append((append, done))
        if hosted.phase is Phase.ACTIVE:
            self._touch(hosted)
        else:
            hosted.refuse_foreign()
        return await done

    def _append_foreign(self, hosted: HostedShard[CoreT]) -> None:
        """Executes, at the end of the turn, the appends that `append_foreign` has queued."""
        foreign, hosted.foreign = hosted.foreign, []
        written = False
        for append, done in foreign:
            if done.done():
                continue
            try:
                info = append()
            except Exception as error:  # noqa: BLE001 - passed to the writer
                done.set_exception(error)
            else:
                done.set_result(info)
                written = written or not info.duplicate
        if hosted.log.poisoned is not None:
            self.life.append_failed(hosted, LogPoisoned(hosted.log.poisoned))
        elif written:
            self.life.reload(hosted)

    def renew(self, hosted: HostedShard[CoreT]) -> None:
        """Makes the runtime call `Duties.before_serving` again for an active shard, at the end of
        the turn. The runtime rejects calls that write records until `before_serving` has returned.

        A shard that is being loaded is not affected: the load itself calls `before_serving`.
        """
        if hosted.phase is Phase.ACTIVE:
            hosted.renews = True
            self._touch(hosted)

    # -- time

    def _arm(self, hosted: HostedShard[CoreT]) -> None:
        """Sets the timer to the shard's next deadline, unless it is set to an earlier time."""
        if hosted.phase is not Phase.ACTIVE:
            return
        deadline = hosted.core.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at_ms <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline
        delay_ms = max(0, deadline - self.time.now().mono_ms)
        self._timer = self.time.call_later(delay_ms / 1000, self.tick)

    def tick(self) -> None:
        """Handles deadlines that have passed, at most EXPIRE_BUDGET of each shard. If a slice is
        too short for all shards, the next tick begins with the shards that were not handled."""
        self._timer = None
        now = self.time.now()
        began_ns = self._ticks_ns()
        first, self._first_due = self._first_due, 0
        in_turn = [*self.hosted_shards[first:], *self.hosted_shards[:first]]
        for position, hosted in enumerate(in_turn, first):
            if self._ticks_ns() - began_ns > SLICE_NS:
                self._first_due = position % len(in_turn)
                break
            if hosted.phase is not Phase.ACTIVE:
                continue
            deadline = hosted.core.next_deadline()
            if deadline is not None and deadline <= now.mono_ms:
                self.life.work(hosted, partial(hosted.core.expire, now, EXPIRE_BUDGET))
        for hosted in self.hosted_shards:
            self._arm(hosted)
        self.watchdog.ended("tick", began_ns)

    def _refused(self, hosted: HostedShard[CoreT], call: Call) -> int | None:
        """Returns an error code if the shard can't serve the call in its phase; otherwise None."""
        phase = hosted.phase
        if phase is Phase.LOADING:
            return self._kind.loading_error(call)
        if phase is Phase.UNLOADED or phase is Phase.FAILED:
            return NOT_COORDINATOR
        if not isinstance(call, self._kind.needs_no_record):
            return COORDINATOR_NOT_AVAILABLE
        return self._kind.loading_error(call) if self.duties.holds_back(hosted, call) else None
