"""The persister: reads and writes the states of share partitions through the share coordinator.

The coordinator of a share partition is the broker that leads its partition of
``__share_group_state``. The persister repeats calls while this broker can't be found, is being
replaced, or loads the states. The persister of a standalone broker calls its own shards directly;
in a cluster, `broker/cluster/coordinators/remote_share_states.py` sends the calls of other brokers'
shards. Source: Kafka 4.3.1 ``PersisterStateManager``.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import structlog

from broker.config.config_value import BadValue
from broker.share.coordinator import ShareCoordinators
from broker.time import Time
from broker.topics.owned_topics import OWNED
from broker.topics.registry import SHARE_STATE_TOPIC, Registry
from broker.topics.ticket import Ticket
from broker.topics.topic_changes import BadFactor, CannotChange, TopicChanges, TopicExists
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from share.persister.calls import (
    Call,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    StateReply,
    WriteState,
)
from share.values import SharePartitionKey, StateBatch

logger = structlog.get_logger(__name__)

RETRIED = (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NOT_COORDINATOR,
)
"""The errors after which the persister repeats a call, as in Kafka. A call that was stored may be
repeated: it does not change the state again."""
RETRIES = 5
RETRIES_IN_CLUSTER = 18
"""30 s in total, as in Kafka: a broker that was killed is replaced when its ZooKeeper session
ends."""
CALLS_MAX = 100_000
"""The maximum number of calls without a reply, which need about 100 MB."""
RETRY_MS_FIRST = 100
RETRY_MS_MAX = 2000
_ANSWERED: Final = object()
_UNKNOWN_TOPIC = "This server does not host this topic-partition."

Done = Callable[[StateReply], None]
"""A function that receives the reply to one call."""
AllDone = Callable[[dict[SharePartitionKey, StateReply]], None]
"""A function that receives the replies to the calls for several share partitions."""


class SharePersister:
    """Only the event loop's thread may use this class. The functions of the callers are called in a
    later step of the loop or immediately."""

    def __init__(
        self,
        coordinators: ShareCoordinators,
        registry: Registry,
        topics: TopicChanges,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        retries: int = RETRIES,
    ) -> None:
        """``time`` is real time: the waits before retries end although a test stops the clock.
        ``spawn`` is `Background.spawn`."""
        self._coordinators = coordinators
        self.retries = retries
        """The number of times that a call is repeated."""
        self._registry = registry
        self._topics = topics
        self._time = time
        self._spawn = spawn
        self._waiting: list[Call] = []
        """The calls that wait until ``__share_group_state`` is created."""
        self._retries: dict[_Retried, TimerHandle] = {}
        """The calls that are repeated later, each with its timer."""
        self._open: dict[_Retried, None] = {}
        """The calls without a reply."""
        self._is_stopped = False

    def submit(self, call: Call) -> None:
        """Passes a call to the share coordinator. The call's ticket gets one `StateReply`, when the
        call's record is stable.

        Creates ``__share_group_state`` for the first call. A call that the coordinator can't serve
        now is repeated. A call for a topic-partition that does not exist gets
        UNKNOWN_TOPIC_OR_PARTITION, except `DeleteState`. If `CALLS_MAX` calls have no reply, the
        reply is COORDINATOR_NOT_AVAILABLE.
        """
        if type(call) is not DeleteState and not self.is_known(call.key):
            call.ticket.take(StateReply(UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC))
            return
        if len(self._open) >= CALLS_MAX or self._is_stopped:
            call.ticket.take(StateReply(COORDINATOR_NOT_AVAILABLE))
            return
        call.ticket = ticket = _Retried(self, call)
        self._open[ticket] = None
        self._dispatch(call)

    def is_known(self, key: SharePartitionKey) -> bool:
        """Returns True if the topic-partition exists."""
        topic = self._registry.topic_by_id(key.topic_id)
        return topic is not None and 0 <= key.partition < topic.partitions

    def ends(self, ticket: _Retried) -> bool:
        """Forgets a call that gets its last reply; returns False if `stop` has answered it."""
        return self._open.pop(ticket, _ANSWERED) is None

    def stop(self) -> None:
        """Answers the calls that have no reply with COORDINATOR_NOT_AVAILABLE."""
        self._is_stopped = True
        self._waiting.clear()
        retries, self._retries = self._retries, {}
        for timer in retries.values():
            timer.cancel()
        for ticket in list(self._open):
            ticket.end(StateReply(COORDINATOR_NOT_AVAILABLE))

    # -- calls of one share partition

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Done) -> None:
        """Reads the state for the leader of the partition; see `ReadState`."""
        self.submit(ReadState(_Ticket(done), key, leader_epoch))

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Done,
    ) -> None:
        """Stores a change of the state; see `WriteState`."""
        self.submit(
            WriteState(
                _Ticket(done),
                key,
                state_epoch,
                leader_epoch,
                start_offset,
                delivery_complete_count,
                batches,
            )
        )

    # -- calls of several share partitions

    def initialize(
        self,
        keys: Collection[SharePartitionKey],
        state_epoch: int,
        start_offset: int,
        done: AllDone,
    ) -> None:
        """Creates or replaces the states of share partitions; see `InitializeState`."""
        self._submit_each(
            keys, lambda ticket, key: InitializeState(ticket, key, state_epoch, start_offset), done
        )

    def delete(self, keys: Collection[SharePartitionKey], done: AllDone) -> None:
        """Deletes the states of share partitions; see `DeleteState`."""
        self._submit_each(keys, DeleteState, done)

    def summary(self, keys: Collection[SharePartitionKey], done: AllDone) -> None:
        """Reads the states of share partitions without their batches; see `ReadStateSummary`."""
        self._submit_each(keys, lambda ticket, key: ReadStateSummary(ticket, key, -1), done)

    def _submit_each(
        self,
        keys: Collection[SharePartitionKey],
        make: Callable[[Ticket, SharePartitionKey], Call],
        done: AllDone,
    ) -> None:
        wanted = set(keys)
        replies: dict[SharePartitionKey, StateReply] = {}

        def take(key: SharePartitionKey, reply: StateReply) -> None:
            replies[key] = reply
            if len(replies) == len(wanted):
                done(replies)

        if not wanted:
            done(replies)
        for key in wanted:
            self.submit(make(_Ticket(partial(take, key)), key))

    # -- waiting calls

    def _dispatch(self, call: Call) -> None:
        """Passes a call to its coordinator, or lets it wait until the coordinators exist."""
        if self._coordinators.are_started:
            self._coordinators.submit(call)
            return
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._spawn(self._make_topic())

    async def _make_topic(self) -> None:
        """Creates ``__share_group_state``, and submits the calls that wait for it."""
        try:
            await self._topics.ensure_owned(OWNED[SHARE_STATE_TOPIC])
        except (TopicExists, CannotChange, BadValue, BadFactor, OSError) as error:
            logger.error(f"{SHARE_STATE_TOPIC} can't be created", error=str(error))
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if self._coordinators.are_started:
                self._coordinators.submit(call)
            else:
                call.ticket.take(StateReply(COORDINATOR_NOT_AVAILABLE))

    def retry(self, ticket: _Retried, delay_ms: int) -> bool:
        """Repeats a call after a delay; returns False if the persister is stopped."""
        if self._is_stopped:
            return False

        def due() -> None:
            del self._retries[ticket]
            self._dispatch(ticket.call)

        self._retries[ticket] = self._time.call_later(delay_ms / 1000, due)
        return True


class _Ticket:
    """The ticket that passes its reply to a function."""

    __slots__ = ("take",)

    def __init__(self, done: Done) -> None:
        self.take = done


class _Retried:
    """The ticket of a call that is repeated after a temporary error."""

    __slots__ = ("_attempts", "_persister", "_ticket", "call")

    def __init__(self, persister: SharePersister, call: Call) -> None:
        self._persister = persister
        self._ticket: Ticket = call.ticket
        self._attempts = 0
        self.call = call

    def take(self, reply: StateReply) -> None:
        """Implements `Ticket.take`."""
        if self._attempts < self._persister.retries and self._is_temporary(reply.error_code):
            delay_ms = min(RETRY_MS_FIRST << self._attempts, RETRY_MS_MAX)
            self._attempts += 1
            if self._persister.retry(self, delay_ms):
                return
        self.end(reply)

    def _is_temporary(self, error_code: int) -> bool:
        """Returns True if the call may succeed later. The coordinator may get the metadata of a
        new topic later than this broker."""
        if error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return self._persister.is_known(self.call.key)
        return error_code in RETRIED

    def end(self, reply: StateReply) -> None:
        """Passes the last reply to the caller's ticket."""
        if self._persister.ends(self):
            self._ticket.take(reply)
