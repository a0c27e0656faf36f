"""The persister: reads and writes the states of share partitions through the share coordinator.

The coordinator of a share partition is the broker that leads its partition of
``__share_group_state``. The persister retries a call while the coordinator can't be found, is being
replaced, or loads its states. On a standalone broker, the persister calls the broker's own shards.
In a cluster, `broker/cluster/coordinators/remote_share_states.py` sends the calls to the
coordinators on other brokers.

Source: Kafka 4.3.1 ``PersisterStateManager``.
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
"""The errors after which the persister retries a call, as in Kafka. A retry of a call that was
already stored does not change the state again."""
RETRIES = 5
RETRIES_IN_CLUSTER = 18
"""The maximum number of retries in a cluster. The retries take 30 s in total, as in Kafka, because
a killed broker is replaced only after its ZooKeeper session has ended."""
CALLS_MAX = 100_000
"""The maximum number of calls without a reply. So many calls need about 100 MB."""
RETRY_MS_FIRST = 100
RETRY_MS_MAX = 2000
_ANSWERED: Final = object()
_UNKNOWN_TOPIC = "This server does not host this topic-partition."

Done = Callable[[StateReply], None]
"""A function that receives the reply to one call."""
AllDone = Callable[[dict[SharePartitionKey, StateReply]], None]
"""A function that receives the replies for several share partitions."""


class SharePersister:
    """Reads and writes the states of share partitions. Only the event loop's thread may use this
    class. Callbacks run immediately or in a later turn."""

    def __init__(
        self,
        coordinators: ShareCoordinators,
        registry: Registry,
        topics: TopicChanges,
        time: Time,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        retries: int = RETRIES,
    ) -> None:
        """``time`` is real time, so that the waits before retries end even if a test freezes the
        clock. ``spawn`` is `Background.spawn`."""
        self._coordinators = coordinators
        self.retries = retries
        """The maximum number of retries of a call."""
        self._registry = registry
        self._topics = topics
        self._time = time
        self._spawn = spawn
        self._waiting: list[Call] = []
        """The calls that wait for the creation of ``__share_group_state``."""
        self._retries: dict[_Retried, TimerHandle] = {}
        """The calls that wait for their next retry, each with its timer."""
        self._open: dict[_Retried, None] = {}
        self._is_stopped = False

    def submit(self, call: Call) -> None:
        """Passes a call to the share coordinator. The call's ticket gets one `StateReply` when the
        call's record is stable.

        The first call creates ``__share_group_state``. A call is retried after a temporary error. A
        call for a partition that does not exist gets UNKNOWN_TOPIC_OR_PARTITION, except
        `DeleteState`. A call above `CALLS_MAX` gets COORDINATOR_NOT_AVAILABLE.
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
        """Returns True if the topic partition of ``key`` exists."""
        topic = self._registry.topic_by_id(key.topic_id)
        return topic is not None and 0 <= key.partition < topic.partitions

    def ends(self, ticket: _Retried) -> bool:
        """Removes a call that is about to get its last reply. Returns False if `stop` has already
        answered the call."""
        return self._open.pop(ticket, _ANSWERED) is None

    def stop(self) -> None:
        """Answers all unanswered calls with COORDINATOR_NOT_AVAILABLE."""
        self._is_stopped = True
        self._waiting.clear()
        retries, self._retries = self._retries, {}
        for timer in retries.values():
            timer.cancel()
        for ticket in list(self._open):
            ticket.end(StateReply(COORDINATOR_NOT_AVAILABLE))

    # -- calls of one share partition

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Done) -> None:
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
        """Stores a change of a share partition's state; see `WriteState`."""
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
        self._submit_each(keys, DeleteState, done)

    def summary(self, keys: Collection[SharePartitionKey], done: AllDone) -> None:
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
        """Passes a call to the coordinator, or queues it until ``__share_group_state`` exists."""
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
        """Retries a call after a delay. Returns False if the persister has been stopped."""
        if self._is_stopped:
            return False

        def due() -> None:
            del self._retries[ticket]
            self._dispatch(ticket.call)

        self._retries[ticket] = self._time.call_later(delay_ms / 1000, due)
        return True


class _Ticket:
    """A ticket that passes the reply to a function."""

    __slots__ = ("take",)

    def __init__(self, done: Done) -> None:
        self.take = done


class _Retried:
    """The ticket of a call that is retried after a temporary error."""

    __slots__ = ("_attempts", "_persister", "_ticket", "call")

    def __init__(self, persister: SharePersister, call: Call) -> None:
        self._persister = persister
        self._ticket: Ticket = call.ticket
        self._attempts = 0
        self.call = call

    def take(self, reply: StateReply) -> None:
        if self._attempts < self._persister.retries and self._is_temporary(reply.error_code):
            delay_ms = min(RETRY_MS_FIRST << self._attempts, RETRY_MS_MAX)
            self._attempts += 1
            if self._persister.retry(self, delay_ms):
                return
        self.end(reply)

    def _is_temporary(self, error_code: int) -> bool:
        """Returns True if a retry may succeed. UNKNOWN_TOPIC_OR_PARTITION is temporary if this
        broker knows the topic: the share coordinator may receive the metadata of a new topic later
        than this broker."""
        if error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return self._persister.is_known(self.call.key)
        return error_code in RETRIED

    def end(self, reply: StateReply) -> None:
        """Ends the call: passes ``reply``, the reply to the last try, to the caller's ticket."""
        if self._persister.ends(self):
            self._ticket.take(reply)
