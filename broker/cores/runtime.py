"""The coordinator's runtime: it gives the pure core its turns, its clock and its log.

Owns the shards of this broker, one per partition of ``__consumer_offsets``. A call goes to its
shard at once, and its records are replayed at once; the turn ends with one append per touched
partition, and then the replies that waited for it go out. One timer serves all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import HostedShard, Phase, deliver
from broker.cores.refusals import not_stable, write_failed
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.shard_keeper import ShardKeeper
from broker.loop.histogram import Histogram
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import SLICE_NS, Slicer
from broker.time import Time
from coordinator.calls import (
    Call,
    DescribeGroup,
    Heartbeat,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    Ticket,
)
from coordinator.outcome import Outcome, Reply
from coordinator.refusal import loading_error, not_served, refusal
from coordinator.shard import GroupShard
from coordinator.views import ShardView
from log.errors import LogPoisoned
from log.values import AppendInfo
from offsets.partitioner import partition_for
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR

if TYPE_CHECKING:
    from asyncio import Future, Handle, TimerHandle

EXPIRE_BUDGET = 100
"""Items of one shard's due work, 40 us each, that are done before others get a turn."""
_GROUPS_KEPT = 8192
_GROUPS_KEPT_CHARACTERS = 1_000_000
"""Group ids whose shard is remembered, and how long all of them may be: some megabytes at most. To
look one of 32,767 characters up takes 10 us, to hash it as Kafka does 800."""
_ACTIVE = Phase.ACTIVE
_READS = (OffsetFetch, DescribeGroup, ListGroups)
_NO_RECORD_NEEDED = (Heartbeat, *_READS)


class Runtime(ShardKeeper):
    """All shards of one broker; use from the event loop's thread alone."""

    def __init__(
        self,
        settings: RuntimeSettings,
        time: Time,
        errors: InternalErrors | None = None,
        slicer: Slicer | None = None,
        hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
    ) -> None:
        super().__init__(settings, time, errors, slicer, hooks)
        self.commits = 0
        """OffsetCommits handled."""
        self.turns = Histogram()
        """Nanoseconds of each turn's end: its appends and replies."""
        self._by_group: dict[str, HostedShard] = {}
        self._by_group_characters = 0
        self._touched: list[HostedShard] = []
        self._turn: Handle | None = None
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0
        self._first_due = 0
        """The partition whose shard comes first when the timer rings."""

    # -- life

    async def stop(self) -> None:
        """Ends the turn, waits for what is being flushed, and answers every parked request."""
        for task in list(self._loads):
            task.cancel()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if not self.hosted_shards:
            return
        for hosted in self.hosted_shards:
            hosted.refuse_foreign()
        if self.fatal is None:
            self._end_turn()
            for hosted in self.hosted_shards:
                await hosted.home.settled()
        if self._timer is not None:
            self._timer.cancel()
        self._before_replies()
        try:
            for hosted in self.hosted_shards:
                self._unload(hosted, Phase.UNLOADED)
        finally:
            self._after_replies()

    # -- calls

    def submit(self, group_id: str, call: Call) -> None:
        """Hands ``call`` to the shard of ``group_id``; its ticket takes the reply, once."""
        hosted = self._by_group.get(group_id) or self.hosted_for(group_id)
        if hosted is None:
            call.ticket.take(not_served(call, NOT_COORDINATOR))
        else:
            self.submit_to(hosted, call)

    def submit_to(self, hosted: HostedShard, call: Call) -> None:
        """Hands ``call`` to the shard of ``hosted``."""
        if hosted.phase is not _ACTIVE:
            error = _refused(hosted.phase, call)
            if error is not None:
                call.ticket.take(not_served(call, error))
                return
        now = self.time.now()
        replies: Sequence[tuple[Ticket, Reply]] = ()
        try:
            records, replies, events = hosted.core.handle(call, now)
            if records:
                hosted.accept(records)
        except Exception as error:  # noqa: BLE001 - a bug of ours, counted and told
            self._call_failed(hosted, call, replies, error)
            return
        kind = type(call)
        if kind is OffsetCommit:
            self.commits += 1
            if records and not self.settings.commit_required_acks:
                for ticket, reply in replies:
                    deliver(ticket, reply, self.errors)
                replies = ()
        accepted = hosted.accepted
        home = hosted.home
        if accepted > home.high_watermark:
            if replies:
                deadline_ms = now.mono_ms + self.settings.commit_timeout_ms
                home.when_stable(accepted, replies, not_stable, deadline_ms)
        else:
            for ticket, reply in replies:
                try:
                    ticket.take(reply)
                except Exception as error:  # noqa: BLE001 - `deliver`, written out
                    self.errors.caught("reply", error)
        # What the others do may set a deadline; the end of the turn looks at it.
        if not hosted.touched and kind is not Heartbeat and kind is not OffsetFetch:
            self._touch(hosted)
        if events:
            self._emit(events)

    def _call_failed(
        self,
        hosted: HostedShard,
        call: Call,
        replies: Sequence[tuple[Ticket, Reply]],
        error: Exception,
    ) -> None:
        """Answers a call that met a bug, and all whose answers it took along, each once.

        A call that only reads has changed nothing, and fails alone.
        """
        answered = set()
        if isinstance(call, _READS):
            self.errors.caught("shard", error, partition=hosted.partition)
        else:
            answered.update(self._break_down(hosted, error))
            for ticket, reply in replies:
                answered.add(ticket)
                deliver(ticket, write_failed(reply), self.errors)
        if call.ticket not in answered:
            deliver(call.ticket, refusal(call, UNKNOWN_SERVER_ERROR), self.errors)

    def disconnected(self, group_id: str, ticket: Ticket) -> None:
        """The peer of a request that may be parked under ``ticket`` is gone."""
        hosted = self.hosted_for(group_id)
        if hosted is not None and hosted.phase is Phase.ACTIVE:
            self._work(hosted, lambda: hosted.core.disconnected(ticket, self.time.now()))

    def hosted_for(self, group_id: str) -> HostedShard | None:
        """The shard that keeps ``group_id``, None while the offsets topic does not exist."""
        hosted = self._by_group.get(group_id)
        if hosted is not None or not self.hosted_shards:
            return hosted
        hosted = self.hosted_shards[partition_for(group_id, len(self.hosted_shards))]
        self._by_group_characters += len(group_id)
        full = self._by_group_characters > _GROUPS_KEPT_CHARACTERS
        if full or len(self._by_group) >= _GROUPS_KEPT:
            self._by_group.clear()
            self._by_group_characters = len(group_id)
        self._by_group[group_id] = hosted
        return hosted

    def view_of(self, group_id: str) -> ShardView | None:
        """What the shard of ``group_id`` shows, if it is loaded and serves."""
        hosted = self.hosted_for(group_id)
        return hosted.core.view if hosted is not None and hosted.phase is Phase.ACTIVE else None

    # -- the turn

    def _take(self, hosted: HostedShard, outcome: Outcome) -> None:
        """Takes an outcome that no call is waiting for."""
        if outcome.records:
            hosted.accept(outcome.records)
        if outcome.replies:
            deadline_ms = self.time.now().mono_ms + self.settings.commit_timeout_ms
            hosted.home.when_stable(hosted.accepted, outcome.replies, not_stable, deadline_ms)
        self._touch(hosted)
        if outcome.events:
            self._emit(outcome.events)

    def _touch(self, hosted: HostedShard) -> None:
        if not hosted.touched:
            hosted.touched = True
            self._touched.append(hosted)
            if self._turn is None:
                linger_ms = self.settings.append_linger_ms
                self._turn = (
                    self.time.call_later(linger_ms / 1000, self._end_turn)
                    if linger_ms
                    else self._loop.call_soon(self._end_turn)
                )

    def _end_turn(self) -> None:
        """One append per touched partition; then what is stable by now is answered."""
        began_ns = self.ticks_ns()
        self._turn = None
        touched, self._touched = self._touched, []
        wall_ms = self.time.now().wall_ms
        self._before_replies()
        try:
            for hosted in touched:
                hosted.touched = False
                try:
                    if hosted.accepted > hosted.appended and not self._append(hosted, wall_ms):
                        continue
                    if hosted.foreign:
                        self._append_foreign(hosted)
                    self._arm(hosted)
                except Exception as error:  # noqa: BLE001 - a bug of ours, counted and told
                    self._break_down(hosted, error, write=False)
        finally:
            self._after_replies()
        self.turns.add(self.ticks_ns() - began_ns)
        self.watchdog.ended("turn", began_ns)

    def _append(self, hosted: HostedShard, wall_ms: int) -> bool:
        """Appends what a shard has accepted; False when that failed, which is dealt with."""
        before, began_ns = hosted.appended, self.ticks_ns()
        try:
            size = hosted.append(wall_ms, self.settings.groups.max_record_bytes)
        except Exception as error:  # noqa: BLE001 - whatever the disk says, the shard stops
            self._append_failed(hosted, error)
            return False
        home = hosted.home
        home.writes.append.add(self.ticks_ns() - began_ns)
        home.writes.records.add(hosted.appended - before)
        home.appended(size)
        return True

    async def append_foreign(self, partition: int, append: Callable[[], AppendInfo]) -> AppendInfo:
        """Lets somebody else write a shard's log, as Kafka's admin client may; then loads it anew.

        That is at the end of the turn, behind what the shard itself has accepted. Raises NotActive,
        nothing written, and what ``append`` raises.
        """
        hosted = self.hosted_shards[partition]
        done: Future[AppendInfo] = self._loop.create_future()
        hosted.foreign.append((append, done))
        if hosted.phase is Phase.ACTIVE:
            self._touch(hosted)
        else:
            hosted.refuse_foreign()
        return await done

    def _append_foreign(self, hosted: HostedShard) -> None:
        """What `append_foreign` has put off until now."""
        foreign, hosted.foreign = hosted.foreign, []
        written = False
        for append, done in foreign:
            if done.done():
                continue
            try:
                info = append()
            except Exception as error:  # noqa: BLE001 - theirs, whatever it is
                done.set_exception(error)
            else:
                done.set_result(info)
                written = written or not info.duplicate
        if hosted.log.poisoned is not None:
            self._append_failed(hosted, LogPoisoned(hosted.log.poisoned))
        elif written:
            self._unload(hosted, Phase.LOADING)
            hosted.reset(GroupShard(self.settings.groups))
            self._spawn("load", self._load([hosted], writable=True), self._loads)

    # -- time

    def _arm(self, hosted: HostedShard) -> None:
        """Sets the one timer for ``hosted`` where it is due before what is set."""
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
        """Works off what is due, a piece of each shard, and sets the timer anew.

        When a slice is over the other shards have their turn in the next one, those left out first.
        """
        self._timer = None
        now = self.time.now()
        began_ns = self.ticks_ns()
        first, self._first_due = self._first_due, 0
        for hosted in [*self.hosted_shards[first:], *self.hosted_shards[:first]]:
            if self.ticks_ns() - began_ns > SLICE_NS:
                self._first_due = hosted.partition
                break
            if hosted.phase is not Phase.ACTIVE:
                continue
            deadline = hosted.core.next_deadline()
            if deadline is not None and deadline <= now.mono_ms:
                self._work(hosted, partial(hosted.core.expire, now, EXPIRE_BUDGET))
        for hosted in self.hosted_shards:
            self._arm(hosted)
        self.watchdog.ended("tick", began_ns)


def _refused(phase: Phase, call: Call) -> int | None:
    """The error of a call to a shard that is not active; None where it is served all the same."""
    if phase is Phase.LOADING:
        return loading_error(call)
    if phase is Phase.UNLOADED or phase is Phase.FAILED:
        return NOT_COORDINATOR
    return None if isinstance(call, _NO_RECORD_NEEDED) else COORDINATOR_NOT_AVAILABLE
