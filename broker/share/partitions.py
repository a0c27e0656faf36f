"""The share partitions of the logs that this broker leads.

A share partition is loaded by the first request that names it: the share coordinator returns its
state (`share/persister/`), and a state without a start offset gets one by share.auto.offset.reset.
This offset is stored before records are delivered, so that a restart does not skip records that are
delivered but not acknowledged. Every change of a share partition is stored, and takes effect when
it is stored (law 2); if it can't be stored, the records are as before.

One timer serves all acquisition locks. A share partition that no request has used for `IDLE_MS` and
that has no acquired records is dropped, and loaded again when it is needed.

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
"""The interval in ms at which unused share partitions are searched."""
RETRY_MS: Final = 500
"""The time in ms after which a load or an expiry is tried again if the share coordinator is not
available."""

Code = tuple[int, str | None]
"""An error code and its message."""


class Persister(Protocol):
    """Passes calls to the share coordinator."""

    def submit(self, call: Call) -> None:
        """Submits a call; its ticket gets a `StateReply`."""


class _Ticket:
    """The ticket of a call; passes the reply to a function."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[StateReply], None]) -> None:
        self._done = done

    def take(self, reply: StateReply) -> None:
        self._done(reply)


class SharePartitions:
    """The share partitions of one broker; only the event loop's thread may use it."""

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
        """``settings_of`` returns the settings of a group; ``archived`` is called with the outcomes
        of records that were archived."""
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
        """A function that is called after every operation that sets an acquisition lock."""
        self._sweeper: asyncio.TimerHandle | None = None

    @cached_property
    def releases(self) -> Releases:
        """The releases of members whose share sessions have ended."""
        from broker.share.releases import Releases

        run = partial(run_stepwise, self._slicer, self._background.spawn, "share release")
        return Releases(self.of_group, self.store, run, self._errors)

    def __len__(self) -> int:
        return len(self._lives)

    def of_group(self, group_id: str) -> Iterable[LivePartition]:
        """Returns the share partitions of a group that are in memory."""
        return self._lives.of_group(group_id)

    # -- loading

    def get(self, group_id: str, topic_id: bytes, topic: str, index: int) -> LivePartition | int:
        """Returns a share partition, whose load begins if it is not in memory; or the error code if
        this broker does not lead the log."""
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
        """Loads the state of a share partition, again and again while the share coordinator is not
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
        """Loads the state once; returns an error code and its message."""
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
        """Implements `Persister.submit` for the group coordinator and administrators: when a call
        has replaced or deleted a state, the share partition is dropped."""
        if isinstance(call, InitializeState | DeleteState):
            call.ticket = _Ticket(partial(self._replaced, call.key, call.ticket))
        self._persister.submit(call)

    def _replaced(self, key: SharePartitionKey, ticket: Ticket, reply: StateReply) -> None:
        live = self._lives.get(key)
        if live is not None:
            self.drop(live)
        ticket.take(reply)

    def leadership_changed(self, topic: str, index: int) -> None:
        """Drops the share partitions of a log that this broker does not lead any more. The new
        leader reads the stored states, in which no record is acquired."""
        partition = self._logs.get(topic, index)
        for live in self._lives.of_log(topic, index):
            if not live.follow_leader_epoch(partition):
                self.drop(live)

    def forget_idle(self, group_id: str) -> None:
        """Drops the share partitions of a group that have nothing in flight. Called in a cluster
        before the first share session of the group: an administrator may have set the start
        offsets at another broker while the group was empty."""
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
        """Acknowledges records of a loaded share partition; calls ``done`` when the result is
        stored."""
        found = self.begin_acknowledging(live, member_id, batches, is_renew=is_renew)
        if found.change is not None:
            self.store(live, found.change, done)
        else:
            done(found.error_code, found.error_message)

    def begin_acknowledging(
        self, live: LivePartition, member_id: str, batches: list[AckBatch], *, is_renew: bool
    ) -> Acknowledged:
        """Acknowledges records without storing the change; `store` follows, or for a part of a
        large request `store_begun` or `take_back`. Until then, no other request may acknowledge the
        records."""
        now = self._time.now()
        live.used_ms = now.mono_ms
        live.follow_log_start()
        found = live.ready.acknowledge(member_id, batches, now, is_renew)
        self.arm(live)
        return found

    def store_begun(self, live: LivePartition, change: Change, done: OnDone) -> None:
        """Stores a part of a large request."""
        live.ready.refresh(change)
        self.store(live, change, done)

    def take_back(self, live: LivePartition, change: Change) -> None:
        """Undoes a part of a large request that is refused."""
        live.ready.failed(change, self._time.now())
        self.arm(live)
        live.wake(self._long_polls)

    def release_member(
        self, group_id: str, member_id: str, done: Callable[[], None] | None = None
    ) -> None:
        """Releases the records that a member holds; see `Releases.begin`."""
        self.releases.begin((group_id, member_id), done)

    def store(self, live: LivePartition, change: Change, done: OnDone | None) -> None:
        """Stores a change, which takes effect when it is stored."""
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
        """Ends a change when the share coordinator has replied."""
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
        """Releases the records whose acquisition locks have ended."""
        self._locks.tick()

    def _expire(self, live: LivePartition, now_ms: int) -> None:
        change = live.ready.expire(now_ms)
        if change is not None:
            self.store(live, change, None)
        self.arm(live)

    def _sweep_later(self) -> None:
        """Searches for unused share partitions in `SWEEP_MS`, as long as there are any."""
        if self._sweeper is None and len(self._lives):
            self._sweeper = self._time.call_later(SWEEP_MS / 1000, self._begin_sweep)

    def _begin_sweep(self) -> None:
        self._background.spawn(self.sweep(), "share sweep")

    async def sweep(self) -> None:
        """Drops unused share partitions and those of deleted topics, in slices."""
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
        """Stops the timer and the loads; the next start reads the stored states."""
        self._locks.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in self._loads:
            task.cancel()
