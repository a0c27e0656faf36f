"""The share partitions of the logs that this broker leads.

The first request that names a share partition loads it. The share coordinator returns its state
(`share/persister/`). If the state has no start offset, share.auto.offset.reset determines the start
offset. The start offset is stored before records are delivered, so that a restart does not skip
records that were delivered but not acknowledged.

Every change of a share partition is stored, and takes effect only when it is stable. If a change
can't be stored, the records stay as they were.

One timer serves all acquisition locks. A share partition that no request has used for `IDLE_MS` and
that has no acquired records is dropped from memory. The next request loads it again.

Source: Kafka 4.3.1 ``SharePartitionManager``, ``SharePartition``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer, run_stepwise
from broker.share.group_settings import DeliverySettings
from broker.share.initial_offset import initial_offset
from broker.share.live_partition import LivePartition, LivePartitions
from broker.share.lock_timer import LockTimer
from broker.share.persister_errors import FENCED, TEMPORARY, shown
from broker.time import Time
from broker.topics.logs import LogManager
from broker.topics.long_poll import LongPolls
from broker.topics.partition import NEVER
from broker.topics.registry import Registry, absent_error
from broker.topics.ticket import Awaited, Ticket
from log.errors import CorruptLog
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from share.partition.counts import GroupCounts
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadState,
    StateReply,
    WriteState,
)
from share.values import UNINITIALIZED_OFFSET, SharePartitionKey

if TYPE_CHECKING:
    from broker.share.releases import OnDone, Releases
    from share.partition.values import AckBatch, Acknowledged, Change, Outcome

logger = structlog.get_logger(__name__)

IDLE_MS: Final = 600_000
"""The time in ms after which an unused share partition is dropped from memory."""
SWEEP_MS: Final = 60_000
"""The interval in ms between searches for unused share partitions."""
RETRY_MS: Final = 500
"""The time in ms before a load or lock expiry is retried if the share coordinator is unavailable.
"""

Code = tuple[int, str | None]
"""An error code and its error message."""


class Persister(Protocol):
    """Passes calls to the share coordinator."""

    def submit(self, call: Call) -> None:
        """Passes a call to the share coordinator. The ticket of the call gets a `StateReply`."""


class _Ticket:
    """A ticket that passes the reply to a function."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[StateReply], None]) -> None:
        self._done = done

    def take(self, reply: StateReply) -> None:
        self._done(reply)


class SharePartitions:
    """The share partitions of one broker; only the event loop's thread may use this class."""

    def __init__(
        self,
        persister: Persister,
        registry: Registry,
        logs: LogManager,
        long_polls: LongPolls,
        settings_of: Callable[[str], DeliverySettings],
        time: Time,
        slicer: Slicer,
        background: Background,
        internal_errors: InternalErrors,
        archived: Callable[[LivePartition, Sequence[Outcome]], None],
    ) -> None:
        """``settings_of`` returns the settings of a group. ``archived`` is called with the outcomes
        of archived records."""
        self.settings_of = settings_of
        self.counts = GroupCounts()
        self._persister = persister
        self._registry = registry
        self._logs = logs
        self._long_polls = long_polls
        self._time = time
        self._slicer = slicer
        self._background = background
        self._errors = internal_errors
        self._archived = archived
        self._lives = LivePartitions()
        self._loads: set[asyncio.Task[None]] = set()
        self._locks = LockTimer(time, self._expire)
        self.arm = self._locks.arm
        self._sweeper: asyncio.TimerHandle | None = None

    @cached_property
    def releases(self) -> Releases:
        """The object that releases the records of members whose share sessions have ended."""
        from broker.share.releases import Releases

        run = partial(run_stepwise, self._slicer, self._background.spawn, "share release")
        return Releases(self.of_group, self.store, run, self._errors)

    def __len__(self) -> int:
        return len(self._lives)

    def of_group(self, group_id: str) -> Iterable[LivePartition]:
        return self._lives.of_group(group_id)

    # -- loading

    def get(self, group_id: str, topic_id: bytes, topic: str, index: int) -> LivePartition | int:
        """Returns a share partition, and begins to load it if it is not in memory. Returns an error
        code if this broker does not lead the log."""
        key = SharePartitionKey(group_id, topic_id, index)
        live = self._lives.get(key)
        partition = self._logs.get(topic, index)
        if live is not None and not live.follow_leader_epoch(partition):
            self.drop(live)
            live = None
        if partition is None:
            return absent_error(self._registry, topic, index)
        if error_code := partition.serving_error(-1):
            return error_code
        now = self._time.now()
        if live is None:
            live = LivePartition(key, partition, now)
            self._lives.add(live)
            self._loads.add(task := self._background.spawn(self._load(live), "share load"))
            task.add_done_callback(self._loads.discard)
            self._sweep_later()
        live.used_ms = now.mono_ms
        return live

    async def _load(self, live: LivePartition) -> None:
        """Loads the state of a share partition. Retries while the share coordinator is not
        available."""
        try:
            if self._slicer.crowded:
                await self._slicer.turn()
            while not live.is_dropped:
                code, message = await self._loaded(live)
                if code not in TEMPORARY:
                    break
                await self._time.real.sleep(RETRY_MS / 1000)
            else:
                code, message = live.partition.serving_error(-1) or UNKNOWN_TOPIC_OR_PARTITION, None
        except (CorruptLog, OSError) as error:
            logger.error("log can't be read", partition=live.partition.name, error=str(error))
            code, message = KAFKA_STORAGE_ERROR, None
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self._errors.caught("shard", error, partition=live.partition.name)
            code, message = UNKNOWN_SERVER_ERROR, None
        if code:
            live.error_code, live.error_message = shown(code), message
            self.drop(live)
        live.loaded.set_result(None)
        live.wake(self._long_polls)

    async def _loaded(self, live: LivePartition) -> Code:
        """Tries once to load the state. Returns an error code and its message."""
        from share.partition.loading import loading
        from share.partition.share_partition import SharePartition

        key, partition = live.key, live.partition
        reply = await self._ask(ReadState, key, live.leader_epoch)
        if reply.error_code:
            return reply.error_code, reply.error_message
        state = reply.state
        assert state is not None
        settings = self.settings_of(key.group_id)
        if state.start_offset == UNINITIALIZED_OFFSET:
            offset = await initial_offset(partition, settings.auto_offset_reset, self._time)
            reply = await self._ask(
                WriteState, key, state.state_epoch, live.leader_epoch, offset, 0, ()
            )
            if reply.error_code:
                return reply.error_code, reply.error_message
            state = state._replace(start_offset=offset, delivery_complete_count=0)
        slices = self._slicer.work("share load")
        ranges = await slices.through(loading(state))
        slices.end()
        live.limits = settings.limits
        counts = self.counts.of(key.group_id)
        live.share = SharePartition(key, state, settings.limits, counts, ranges)
        live.follow_log_start()
        return NONE, None

    async def _ask(self, call: Callable[..., Call], *fields: Any) -> StateReply:
        ticket: Awaited[StateReply] = Awaited()
        self._persister.submit(call(ticket, *fields))
        return await ticket.reply

    def drop(self, live: LivePartition) -> None:
        """Removes a share partition from memory; the next request loads it again."""
        live.is_dropped = True
        live.due_ms = -1  # its entry in the timer's heap is stale
        self._lives.remove(live)
        live.wake(self._long_polls)

    def submit(self, call: Call) -> None:
        """Implements `Persister.submit` for the group coordinator and for administrators. After a
        call has replaced or deleted a state, drops the share partition from memory."""
        if isinstance(call, InitializeState | DeleteState):
            call.ticket = _Ticket(partial(self._replaced, call.key, call.ticket))
        self._persister.submit(call)

    def _replaced(self, key: SharePartitionKey, ticket: Ticket, reply: StateReply) -> None:
        live = self._lives.get(key)
        if live is not None:
            self.drop(live)
        ticket.take(reply)

    def leadership_changed(self, topic: str, index: int) -> None:
        """Drops the share partitions of a log that this broker no longer leads. The new leader
        loads the stored states, in which no record is acquired."""
        partition = self._logs.get(topic, index)
        for live in self._lives.of_log(topic, index):
            if not live.follow_leader_epoch(partition):
                self.drop(live)

    def forget_idle(self, group_id: str) -> None:
        """Drops the share partitions of a group that have no acquired records.

        Called in a cluster before the group's first share session on this broker: an administrator
        may have changed the start offsets through another broker while the group was empty.
        """
        for live in list(self.of_group(group_id)):
            if live.is_idle(NEVER):
                self.drop(live)

    # -- changes

    def acknowledge(
        self,
        live: LivePartition,
        member_id: str,
        batches: list[AckBatch],
        done: OnDone,
        *,
        is_renew: bool,
    ) -> None:
        found = self.begin_acknowledging(live, member_id, batches, is_renew=is_renew)
        if found.change is not None:
            self.store(live, found.change, done)
        else:
            done(found.error_code, found.error_message)

    def begin_acknowledging(
        self, live: LivePartition, member_id: str, batches: list[AckBatch], *, is_renew: bool
    ) -> Acknowledged:
        """Begins to acknowledge records, but does not store the change. Until the change is stored
        or undone, no other request can acknowledge these records.

        The caller then stores the change with `store`. For a part of a large request, it stores the
        change with `store_begun`, or undoes it with `take_back`.
        """
        now = self._time.now()
        live.used_ms = now.mono_ms
        live.follow_log_start()
        found = live.ready.acknowledge(member_id, batches, now, is_renew)
        self.arm(live)
        return found

    def store_begun(self, live: LivePartition, change: Change, done: OnDone) -> None:
        live.ready.refresh(change)
        self.store(live, change, done)

    def take_back(self, live: LivePartition, change: Change) -> None:
        live.ready.failed(change, self._time.now())
        self.arm(live)
        live.wake(self._long_polls)

    def release_member(
        self, group_id: str, member_id: str, done: Callable[[], None] | None = None
    ) -> None:
        """Releases the records that a member has acquired; see `Releases.begin`."""
        self.releases.begin((group_id, member_id), done)

    def store(self, live: LivePartition, change: Change, done: OnDone | None) -> None:
        """Stores a change, which takes effect only when it is stable."""
        live.writes += 1
        self._persister.submit(
            WriteState(
                _Ticket(partial(self._stored, live, change, done)),
                live.key,
                live.ready.state_epoch,
                live.leader_epoch,
                change.start_offset,
                change.delivery_complete_count,
                change.batches,
            )
        )
        self.arm(live)

    def _stored(
        self, live: LivePartition, change: Change, done: OnDone | None, reply: StateReply
    ) -> None:
        """Called when the share coordinator has replied to a change. Applies the change, or undoes
        it after an error."""
        live.writes -= 1
        now = self._time.now()
        if reply.error_code == NONE:
            archived = live.ready.written(change, now)
            if archived:
                self._archived(live, archived)
        else:
            live.ready.failed(change, now)
            live.retry_ms = now.mono_ms + RETRY_MS
            logger.warning(
                "share partition state not stored",
                group=live.key.group_id,
                partition=live.partition.name,
                error_code=reply.error_code,
                reason=reply.error_message,
            )
            if reply.error_code in FENCED:
                self.drop(live)
        self.arm(live)
        live.wake(self._long_polls)
        if done is not None:
            done(shown(reply.error_code), reply.error_message)

    # -- time

    def tick(self) -> None:
        self._locks.tick()

    def _expire(self, live: LivePartition, now_ms: int) -> None:
        change = live.ready.expire(now_ms)
        if change is not None:
            self.store(live, change, None)
        self.arm(live)

    def _sweep_later(self) -> None:
        """Schedules the next search for unused share partitions, if any share partition is in
        memory."""
        if self._sweeper is None and len(self._lives):
            self._sweeper = self._time.call_later(SWEEP_MS / 1000, self._begin_sweep)

    def _begin_sweep(self) -> None:
        self._background.spawn(self.sweep(), "share sweep")

    async def sweep(self) -> None:
        """Drops unused share partitions, and share partitions of deleted topics, in slices."""
        before_ms = self._time.now().mono_ms - IDLE_MS
        slices = self._slicer.work("share sweep")
        for live in list(self._lives):
            partition = live.partition
            now = self._logs.get(partition.topic, partition.index)
            if not live.follow_leader_epoch(now) or live.is_idle(before_ms):
                self.drop(live)
            elif live.share is not None:
                live.follow_log_start()
            if slices.over:
                await slices.pause()
        slices.end()
        self._sweeper = None
        self._sweep_later()

    def stop(self) -> None:
        self._locks.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in self._loads:
            task.cancel()
