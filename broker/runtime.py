"""The coordinator's runtime: it gives the pure core its turns, its clock and its log.

Owns the shards of this broker, one per partition of ``__consumer_offsets``. A call goes to its
shard at once, and its records are replayed at once; the turn ends with one append per touched
partition, and then the replies that waited for it go out. One timer serves all shards. When an
append fails, the shard is unloaded and loaded again, and refuses what needs a record until a probe
succeeds.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from broker.clock import Clock
from broker.loading import load, wait_until_writable
from broker.shard_log import Held, Phase, ShardLog
from coordinator.calls import (
    Call,
    DescribeGroup,
    Heartbeat,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    Ticket,
)
from coordinator.config import GroupConfig
from coordinator.events import Event
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard, loading_error, refusal
from log.errors import LogPoisoned
from log.partition_log import PartitionLog
from offsets.partitioner import partition_for
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle, Task, TimerHandle

logger = structlog.get_logger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
EXPIRE_BUDGET = 100
"""Deadlines of one shard that are worked off before others get a turn."""
_HOSTS_KEPT = 16384
_GROUP_ID_KEPT_MAX = 256
_NO_RECORD_NEEDED = (Heartbeat, OffsetFetch, DescribeGroup, ListGroups)

Observer = Callable[[GroupShard, Event], None]


@dataclass(frozen=True)
class RuntimeSettings:
    """What the runtime reads of the configuration, in plain values of Kafka's units."""

    groups: GroupConfig
    commit_timeout_ms: int = 5000
    """offsets.commit.timeout.ms"""
    commit_required_acks: int = -1
    """offsets.commit.required.acks; 0 answers commits before they are written"""
    load_buffer_bytes: int = 5242880
    """offsets.load.buffer.size"""
    compression: int = 0
    """offsets.topic.compression.codec"""


class Runtime:
    """All shards of one broker; use from the event loop's thread alone."""

    def __init__(self, settings: RuntimeSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.hosts: list[ShardLog] = []
        """By partition; empty while ``__consumer_offsets`` does not exist."""
        self.on_event: list[Observer] = []
        """Called with each fact of the core, in order."""
        self.on_fatal: Callable[[str], None] = _ignore
        """Told, once, why nothing more can be acknowledged; the broker stops."""
        self.before_replies: Callable[[], None] = lambda: None
        self.after_replies: Callable[[], None] = lambda: None
        """Around the replies of a turn, so that each connection writes once."""
        self.commits = 0
        """OffsetCommits handled."""
        self.fatal: str | None = None
        self._by_group: dict[str, ShardLog] = {}
        self._touched: list[ShardLog] = []
        self._turn: Handle | None = None
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0
        self._tasks: set[Task[None]] = set()
        self._loop: AbstractEventLoop

    # -- life

    def start(self, logs: Sequence[PartitionLog]) -> None:
        """Makes a shard of each partition's log and begins to load those that hold anything."""
        assert not self.hosts, "the offsets topic has its shards already"
        self._loop = asyncio.get_running_loop()
        self._by_group.clear()
        for partition, log in enumerate(logs):
            shard = GroupShard(self.settings.groups)
            self.hosts.append(ShardLog(partition, shard, log, self.settings.compression))
        waiting = []
        for host in self.hosts:
            if host.log.log_start_offset == host.log.log_end_offset:
                host.load_ms = 0
                self._loaded(host)
            else:
                waiting.append(host)
        if waiting:
            self._spawn(self._load(waiting, writable=True))

    async def stop(self) -> None:
        """Ends the turn, waits for what is being flushed, and answers every parked request."""
        for task in list(self._tasks):
            task.cancel()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if not self.hosts:
            return
        if self.fatal is None:
            self._end_turn()
            while any(host.flushing for host in self.hosts):
                await asyncio.sleep(0.005)
        if self._timer is not None:
            self._timer.cancel()
        for host in self.hosts:
            self._unload(host, Phase.UNLOADED)
        self.after_replies()

    @property
    def loading(self) -> bool:
        """Whether any shard is still being loaded."""
        return any(host.phase is Phase.LOADING for host in self.hosts)

    # -- calls

    def submit(self, group_id: str, call: Call) -> None:
        """Hands ``call`` to the shard of ``group_id``; its ticket is called once with the reply."""
        host = self._by_group.get(group_id)
        if host is None:
            host = self.host_for(group_id)
            if host is None:
                call.ticket(refusal(call, NOT_COORDINATOR))
                return
        self.submit_to(host, call)

    def submit_to(self, host: ShardLog, call: Call) -> None:
        """Hands ``call`` to the shard of ``host``."""
        phase = host.phase
        if phase is not Phase.ACTIVE:
            if phase is Phase.LOADING:
                call.ticket(refusal(call, loading_error(call)))
                return
            if phase is Phase.UNLOADED:
                call.ticket(refusal(call, NOT_COORDINATOR))
                return
            if not isinstance(call, _NO_RECORD_NEEDED):
                call.ticket(refusal(call, COORDINATOR_NOT_AVAILABLE))
                return
        now = self.clock.now()
        records, replies, events = host.shard.handle(call, now)
        kind = type(call)
        if kind is OffsetCommit:
            self.commits += 1
        if events:
            self._tell(host, events)
        if records:
            host.accept(records)
            if kind is OffsetCommit and self.settings.commit_required_acks == 0:
                for ticket, reply in replies:
                    ticket(reply)
                replies = ()
        if host.accepted > host.stable:
            offset = host.accepted
            mono_ms = now.mono_ms
            for ticket, reply in replies:
                host.held.append(Held(offset, mono_ms, ticket, reply))
            if records:
                self._touch(host)
        else:
            for ticket, reply in replies:
                ticket(reply)
        if kind is not Heartbeat and kind is not OffsetFetch and not host.touched:
            self._touch(host)

    def disconnected(self, group_id: str, ticket: Ticket) -> None:
        """The peer of a request that may be parked under ``ticket`` is gone."""
        host = self.host_for(group_id)
        if host is not None and host.phase is Phase.ACTIVE:
            self._take(host, host.shard.disconnected(ticket, self.clock.now()))

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Drops the committed offsets of topics that are no more."""
        names = frozenset(topics)
        for host in self.hosts:
            host.gone |= names
            if host.phase is Phase.ACTIVE:
                self._catch_up(host)

    def host_for(self, group_id: str) -> ShardLog | None:
        """The shard that keeps ``group_id``, None while the offsets topic does not exist."""
        host = self._by_group.get(group_id)
        if host is not None or not self.hosts:
            return host
        host = self.hosts[partition_for(group_id, len(self.hosts))]
        if len(group_id) <= _GROUP_ID_KEPT_MAX:
            if len(self._by_group) >= _HOSTS_KEPT:
                self._by_group.clear()
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
        if outcome.events:
            self._tell(host, outcome.events)
        if outcome.records:
            host.accept(outcome.records)
        if outcome.replies:
            mono_ms = self.clock.now().mono_ms
            for ticket, reply in outcome.replies:
                host.held.append(Held(host.accepted, mono_ms, ticket, reply))
        self._touch(host)

    def _tell(self, host: ShardLog, events: Iterable[Event]) -> None:
        for event in events:
            for observe in self.on_event:
                observe(host.shard, event)

    def _touch(self, host: ShardLog) -> None:
        if not host.touched:
            host.touched = True
            self._touched.append(host)
            if self._turn is None:
                self._turn = self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """One append per touched partition; then what is stable by now is answered."""
        self._turn = None
        touched, self._touched = self._touched, []
        self.before_replies()
        wall_ms = self.clock.now().wall_ms
        for host in touched:
            host.touched = False
            if host.accepted > host.appended:
                try:
                    host.append(wall_ms, self.settings.groups.max_record_bytes)
                except Exception as error:  # noqa: BLE001 - whatever the disk says, the shard stops
                    self._append_failed(host, error)
                    continue
                self._settle(host)
            host.release()
            self._arm(host)
        self.after_replies()

    def _settle(self, host: ShardLog) -> None:
        """Moves *stable*: to what is appended, or to what the flush that begins now will cover."""
        if not host.log.flush_due:
            host.stable = host.appended
        elif not host.flushing:
            host.flushing = True
            self._spawn(self._flush(host))

    async def _flush(self, host: ShardLog) -> None:
        """Flushes in a thread; what is appended meanwhile shares the next flush."""
        try:
            while host.stable < host.appended:
                flushed = await asyncio.to_thread(host.log.flush)
                if not host.log.flush_due:
                    flushed = host.appended
                host.stable = max(host.stable, min(flushed, host.appended))
                self.before_replies()
                host.release()
                self.after_replies()
        except Exception as error:  # noqa: BLE001 - a failed fsync is final, whatever it was (law 6)
            self._stop_for_good(host, error)
        finally:
            host.flushing = False

    # -- failures

    def _append_failed(self, host: ShardLog, error: Exception) -> None:
        """Law 6: replies that depend on the write become errors, and the shard is loaded again."""
        logger.error(
            "an append failed; the shard is loaded again, and refuses commits until a write works",
            topic=OFFSETS_TOPIC,
            partition=host.partition,
            error=str(error),
        )
        host.fail_held()
        self._unload(host, Phase.LOADING)
        if host.log.failed_for_good:
            self._stop_for_good(host, error)
            return
        host.reset(GroupShard(self.settings.groups))
        self._spawn(self._load([host], writable=False))

    def _stop_for_good(self, host: ShardLog, error: Exception) -> None:
        if self.fatal is None:
            self.fatal = (
                f"{OFFSETS_TOPIC}-{host.partition} can't be written safely any more: {error}"
            )
            logger.critical("the broker stops", reason=self.fatal)
            self.on_fatal(self.fatal)
        self.before_replies()
        self._unload(host, Phase.UNLOADED)
        self.after_replies()

    def _unload(self, host: ShardLog, phase: Phase) -> None:
        """Answers every parked request NOT_COORDINATOR, and what was held before them."""
        loaded = host.phase in (Phase.ACTIVE, Phase.UNWRITABLE)
        host.phase = phase
        host.release()
        host.fail_held()
        if loaded:
            outcome = host.shard.unload(NOT_COORDINATOR)
            self._tell(host, outcome.events)
            for ticket, reply in outcome.replies:
                ticket(reply)

    async def _load(self, hosts: Sequence[ShardLog], writable: bool) -> None:
        """Loads shards one after the other; those that are not writable are probed afterwards."""
        gc.disable()  # what loads stays: looking through it would only make turns long
        try:
            for host in hosts:
                await load(host, self.settings.load_buffer_bytes, self.clock)
                self._loaded(host, writable)
        except Exception as error:  # noqa: BLE001 - an unreadable log is never served as empty
            self._stop_for_good(host, error)
            return
        finally:
            gc.freeze()
            gc.enable()
        if not writable:
            for host in hosts:
                await self._probe(host)

    async def _probe(self, host: ShardLog) -> None:
        """Makes ``host`` whole again once its log takes writes."""
        try:
            await wait_until_writable(host)
        except LogPoisoned as error:
            self._stop_for_good(host, error)
            return
        host.phase = Phase.ACTIVE
        self._catch_up(host)

    def _catch_up(self, host: ShardLog) -> None:
        """Drops the offsets of topics that were deleted while that could not be written."""
        gone, host.gone = host.gone, set()
        if gone:
            self._take(host, host.shard.topics_deleted(gone, self.clock.now()))
        self._arm(host)

    def _loaded(self, host: ShardLog, writable: bool = True) -> None:
        host.phase = Phase.ACTIVE if writable else Phase.UNWRITABLE
        self._settle(host)
        self._take(host, host.shard.loaded(self.clock.now()))
        if writable:
            self._catch_up(host)

    # -- time

    def _arm(self, host: ShardLog) -> None:
        """Sets the one timer for ``host`` where it is due before what is set."""
        if host.phase is not Phase.ACTIVE:
            return
        deadline = host.shard.next_deadline()
        if host.held:
            held = host.held[0].since_ms + self.settings.commit_timeout_ms
            deadline = held if deadline is None else min(deadline, held)
        if deadline is None or (self._timer is not None and self._timer_at_ms <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline
        delay_ms = max(0, deadline - self.clock.now().mono_ms)
        self._timer = self._loop.call_later(delay_ms / 1000, self.tick)

    def tick(self) -> None:
        """Works off what is due, a slice of each shard, and sets the timer anew."""
        self._timer = None
        now = self.clock.now()
        for host in self.hosts:
            if host.phase is not Phase.ACTIVE:
                continue
            if host.held:
                host.expire_held(now.mono_ms - self.settings.commit_timeout_ms)
            deadline = host.shard.next_deadline()
            if deadline is None or deadline > now.mono_ms:
                continue
            try:
                self._take(host, host.shard.expire(now, EXPIRE_BUDGET))
            except Exception:
                logger.exception("what was due could not be done", partition=host.partition)
        for host in self.hosts:
            self._arm(host)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ignore(reason: str) -> None:
    """For a runtime that nobody has told whom to tell."""
