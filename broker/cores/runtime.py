"""The coordinator's runtime: it gives the pure core its turns, its clock and its log.

Owns the shards of this broker, one per partition of ``__consumer_offsets``. A call goes to its
shard at once, and its records are replayed at once; the turn ends with one append per touched
partition, and then the replies that waited for it go out. One timer serves all shards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from broker.cores.refusals import write_failed
from broker.cores.runtime_settings import RuntimeSettings
from broker.cores.shard_keeper import Observer, ShardKeeper
from broker.cores.shard_log import Phase, ShardLog, deliver
from broker.loop.histogram import Histogram
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import SLICE_NS
from broker.loop.watchdog import Watchdog
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
from coordinator.refusal import loading_error, refusal
from coordinator.shard import GroupShard
from log.errors import LogPoisoned
from log.values import AppendInfo
from offsets.partitioner import partition_for
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR

if TYPE_CHECKING:
    from asyncio import Future, Handle, TimerHandle

__all__ = ["Observer", "Runtime", "RuntimeSettings"]

EXPIRE_BUDGET = 100
"""Items of one shard's due work, 40 us each, that are done before others get a turn."""
_HOSTS_KEPT = 8192
_HOSTS_KEPT_CHARACTERS = 1_000_000
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
        watchdog: Watchdog | None = None,
    ) -> None:
        super().__init__(settings, time, errors, watchdog)
        self.commits = 0
        """OffsetCommits handled."""
        self.turns = Histogram()
        """Nanoseconds of each turn's end: its appends and replies."""
        self._by_group: dict[str, ShardLog] = {}
        self._by_group_characters = 0
        self._touched: list[ShardLog] = []
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
        if not self.hosts:
            return
        for host in self.hosts:
            host.refuse_foreign()
        if self.fatal is None:
            self._end_turn()
            if self._flushes:
                await asyncio.wait(self._flushes)
        if self._timer is not None:
            self._timer.cancel()
        self.before_replies()
        try:
            for host in self.hosts:
                self._unload(host, Phase.UNLOADED)
        finally:
            self.after_replies()

    # -- calls

    def submit(self, group_id: str, call: Call) -> None:
        """Hands ``call`` to the shard of ``group_id``; its ticket takes the reply, once."""
        host = self._by_group.get(group_id) or self.host_for(group_id)
        if host is None:
            call.ticket.take(refusal(call, NOT_COORDINATOR))
        else:
            self.submit_to(host, call)

    def submit_to(self, host: ShardLog, call: Call) -> None:
        """Hands ``call`` to the shard of ``host``."""
        if host.phase is not _ACTIVE:
            error = _refused(host.phase, call)
            if error is not None:
                call.ticket.take(refusal(call, error))
                return
        now = self.time.now()
        replies: Sequence[tuple[Ticket, Reply]] = ()
        try:
            records, replies, events = host.shard.handle(call, now)
            if records:
                host.accept(records)
        except Exception as error:  # noqa: BLE001 - a bug of ours, counted and told
            self._call_failed(host, call, replies, error)
            return
        kind = type(call)
        if kind is OffsetCommit:
            self.commits += 1
            if records and not self.settings.commit_required_acks:
                for ticket, reply in replies:
                    deliver(ticket, reply, self.errors)
                replies = ()
        accepted = host.accepted
        if accepted > host.stable:
            held = host.held
            mono_ms = now.mono_ms
            for ticket, reply in replies:
                held.append((accepted, mono_ms, ticket, reply))
        else:
            for ticket, reply in replies:
                try:
                    ticket.take(reply)
                except Exception as error:  # noqa: BLE001 - `deliver`, written out
                    self.errors.caught("reply", error)
        # What the others do may set a deadline; the end of the turn looks at it.
        if not host.touched and kind is not Heartbeat and kind is not OffsetFetch:
            self._touch(host)
        if events:
            self._tell(host, events)

    def _call_failed(
        self,
        host: ShardLog,
        call: Call,
        replies: Sequence[tuple[Ticket, Reply]],
        error: Exception,
    ) -> None:
        """Answers a call that met a bug, and all whose answers it took along, each once.

        A call that only reads has changed nothing, and fails alone.
        """
        answered = set()
        if isinstance(call, _READS):
            self.errors.caught("shard", error, partition=host.partition)
        else:
            answered.update(self._break_down(host, error))
            for ticket, reply in replies:
                answered.add(ticket)
                deliver(ticket, write_failed(reply), self.errors)
        if call.ticket not in answered:
            deliver(call.ticket, refusal(call, UNKNOWN_SERVER_ERROR), self.errors)

    def disconnected(self, group_id: str, ticket: Ticket) -> None:
        """The peer of a request that may be parked under ``ticket`` is gone."""
        host = self.host_for(group_id)
        if host is not None and host.phase is Phase.ACTIVE:
            self._work(host, lambda: host.shard.disconnected(ticket, self.time.now()))

    def host_for(self, group_id: str) -> ShardLog | None:
        """The shard that keeps ``group_id``, None while the offsets topic does not exist."""
        host = self._by_group.get(group_id)
        if host is not None or not self.hosts:
            return host
        host = self.hosts[partition_for(group_id, len(self.hosts))]
        self._by_group_characters += len(group_id)
        full = self._by_group_characters > _HOSTS_KEPT_CHARACTERS
        if full or len(self._by_group) >= _HOSTS_KEPT:
            self._by_group.clear()
            self._by_group_characters = len(group_id)
        self._by_group[group_id] = host
        return host

    def active_shard(self, group_id: str) -> GroupShard | None:
        """The shard of ``group_id`` if it is loaded and serves."""
        host = self.host_for(group_id)
        return host.shard if host is not None and host.phase is Phase.ACTIVE else None

    def shard_for(self, group_id: str) -> GroupShard | None:
        """The core's shard for ``group_id``; for views and tests."""
        host = self.host_for(group_id)
        return None if host is None else host.shard

    # -- the turn

    def _take(self, host: ShardLog, outcome: Outcome) -> None:
        """Takes an outcome that no call is waiting for."""
        if outcome.records:
            host.accept(outcome.records)
        if outcome.replies:
            mono_ms = self.time.now().mono_ms
            for ticket, reply in outcome.replies:
                host.held.append((host.accepted, mono_ms, ticket, reply))
        self._touch(host)
        if outcome.events:
            self._tell(host, outcome.events)

    def _touch(self, host: ShardLog) -> None:
        if not host.touched:
            host.touched = True
            self._touched.append(host)
            if self._turn is None:
                linger_ms = self.settings.append_linger_ms
                self._turn = (
                    self._loop.call_later(linger_ms / 1000, self._end_turn)
                    if linger_ms
                    else self._loop.call_soon(self._end_turn)
                )

    def _end_turn(self) -> None:
        """One append per touched partition; then what is stable by now is answered."""
        began_ns = perf_counter_ns()
        self._turn = None
        touched, self._touched = self._touched, []
        wall_ms = self.time.now().wall_ms
        self.before_replies()
        try:
            for host in touched:
                host.touched = False
                try:
                    if host.accepted > host.appended:
                        if not self._append(host, wall_ms):
                            continue
                        self._settle(host)
                    host.release()
                    if host.foreign:
                        self._append_foreign(host)
                    self._arm(host)
                except Exception as error:  # noqa: BLE001 - a bug of ours, counted and told
                    self._break_down(host, error, write=False)
        finally:
            self.after_replies()
        self.turns.add(perf_counter_ns() - began_ns)
        self.watchdog.ended("turn", began_ns)

    def _append(self, host: ShardLog, wall_ms: int) -> bool:
        """Appends what a shard has accepted; False when that failed, which is dealt with."""
        before, began_ns = host.appended, perf_counter_ns()
        try:
            host.append(wall_ms, self.settings.groups.max_record_bytes)
        except Exception as error:  # noqa: BLE001 - whatever the disk says, the shard stops
            self._append_failed(host, error)
            return False
        self.writes.append.add(perf_counter_ns() - began_ns)
        self.writes.records.add(host.appended - before)
        return True

    async def append_foreign(self, partition: int, append: Callable[[], AppendInfo]) -> AppendInfo:
        """Lets somebody else write a shard's log, as Kafka's admin client may; then loads it anew.

        That is at the end of the turn, behind what the shard itself has accepted. Raises NotActive,
        nothing written, and what ``append`` raises.
        """
        host = self.hosts[partition]
        done: Future[AppendInfo] = self._loop.create_future()
        host.foreign.append((append, done))
        if host.phase is Phase.ACTIVE:
            self._touch(host)
        else:
            host.refuse_foreign()
        return await done

    def _append_foreign(self, host: ShardLog) -> None:
        """What `append_foreign` has put off until now."""
        foreign, host.foreign = host.foreign, []
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
        if host.log.poisoned is not None:
            self._append_failed(host, LogPoisoned(host.log.poisoned))
        elif written:
            self._unload(host, Phase.LOADING)
            host.reset(GroupShard(self.settings.groups))
            self._spawn("load", self._load([host], writable=True), self._loads)

    # -- time

    def _arm(self, host: ShardLog) -> None:
        """Sets the one timer for ``host`` where it is due before what is set."""
        if host.phase is not Phase.ACTIVE:
            return
        deadline = host.shard.next_deadline()
        if host.held:
            held = host.held[0][1] + self.settings.commit_timeout_ms
            deadline = held if deadline is None else min(deadline, held)
        if deadline is None or (self._timer is not None and self._timer_at_ms <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline
        delay_ms = max(0, deadline - self.time.now().mono_ms)
        self._timer = self._loop.call_later(delay_ms / 1000, self.tick)

    def tick(self) -> None:
        """Works off what is due, a piece of each shard, and sets the timer anew.

        When a slice is over the other shards have their turn in the next one, those left out first.
        """
        self._timer = None
        now = self.time.now()
        began_ns = perf_counter_ns()
        first, self._first_due = self._first_due, 0
        for host in [*self.hosts[first:], *self.hosts[:first]]:
            if perf_counter_ns() - began_ns > SLICE_NS:
                self._first_due = host.partition
                break
            if host.phase is not Phase.ACTIVE:
                continue
            if host.held:
                host.expire_held(now.mono_ms - self.settings.commit_timeout_ms)
            deadline = host.shard.next_deadline()
            if deadline is not None and deadline <= now.mono_ms:
                self._work(host, partial(host.shard.expire, now, EXPIRE_BUDGET))
        for host in self.hosts:
            self._arm(host)
        self.watchdog.ended("tick", began_ns)


def _refused(phase: Phase, call: Call) -> int | None:
    """The error of a call to a shard that is not active; None where it is served all the same."""
    if phase is Phase.LOADING:
        return loading_error(call)
    if phase is Phase.UNLOADED or phase is Phase.FAILED:
        return NOT_COORDINATOR
    return None if isinstance(call, _NO_RECORD_NEEDED) else COORDINATOR_NOT_AVAILABLE
