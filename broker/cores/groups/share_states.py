"""Initializes and deletes the delivery states of share partitions at the share coordinator
(KIP-932), when a shard of groups requests it by an event.

A shard emits the event in a step that also writes a record. The share coordinator is called only
when this record is stable. Otherwise a state could be deleted although the group's log still lists
it as initialized.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from broker.cores.hosted_shard import Phase
from broker.loop.internal_errors import InternalErrors
from broker.topics.ticket import Awaited
from coordinator.outcome import Outcome
from coordinator.share.events import Partitions, ShareStateDeletion, ShareStateWanted
from protocol.errors import NONE, UNKNOWN_SERVER_ERROR
from protocol.now import Now
from share.persister.calls import Call, DeleteState, InitializeState, StateReply
from share.values import UNINITIALIZED_OFFSET, SharePartitionKey

if TYPE_CHECKING:
    from broker.cores.groups.runtime import GroupRuntime, HostedGroups

NewCall = Callable[[Awaited[StateReply], SharePartitionKey], Call]
"""A function that returns the call for a share partition. Its arguments are the ticket and the
share partition."""
_AGAIN_S = 1
"""The delay in seconds before the next check of a shard that accepts no writes."""


class Persister(Protocol):
    """The share coordinator, as this module uses it."""

    def submit(self, call: Call) -> None:
        """Submits a call. Its ticket gets a `StateReply`, possibly before this method returns."""


class ShareStates:
    """Calls the share coordinator when shards of groups on this broker request it."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        errors: InternalErrors,
        persister: Callable[[], Persister],
    ) -> None:
        """``persister`` returns the share coordinator, which the broker makes after the runtime of
        groups."""
        self._persister = persister
        self._spawn = spawn
        self._errors = errors
        self._groups: GroupRuntime

    def follow(self, groups: GroupRuntime) -> None:
        """Sets the runtime of the shards of groups. These shards request changes of the states of
        share partitions."""
        self._groups = groups

    def initialize(self, event: ShareStateWanted) -> None:
        """Starts to initialize the delivery states that the event names. Sets no start offset: the
        first fetch of each share partition chooses it."""

        def call(ticket: Awaited[StateReply], key: SharePartitionKey) -> Call:
            return InitializeState(ticket, key, event.state_epoch, UNINITIALIZED_OFFSET)

        def tell(hosted: HostedGroups, now: Now, error_code: int) -> Outcome:
            core = hosted.core
            return core.share_state_initialized(event.group_id, event.topics, now, error_code)

        self._begin(event.group_id, event.topics, call, tell)

    def delete(self, event: ShareStateDeletion) -> None:

        def tell(hosted: HostedGroups, now: Now, error_code: int) -> Outcome:
            topics = event.topics.keys()
            return hosted.core.share_state_deleted(event.group_id, topics, now, error_code)

        self._begin(event.group_id, event.topics, DeleteState, tell)

    def _begin(
        self,
        group_id: str,
        topics: Partitions,
        call: NewCall,
        tell: Callable[[HostedGroups, Now, int], Outcome],
    ) -> None:
        hosted = self._groups.hosted_for(group_id)
        if hosted is None:
            return
        stable: Awaited[bool] = Awaited()
        hosted.partition.when_stable(hosted.accepted, ((stable, True),), lambda *_: False)
        keys = [
            SharePartitionKey(group_id, topic_id, partition)
            for topic_id, partitions in topics.items()
            for partition in partitions
        ]
        self._spawn(self._do(hosted, stable, call, keys, tell), "states of share groups")

    async def _do(
        self,
        hosted: HostedGroups,
        stable: Awaited[bool],
        call: NewCall,
        keys: Sequence[SharePartitionKey],
        tell: Callable[[HostedGroups, Now, int], Outcome],
    ) -> None:
        core = hosted.core
        error_code = UNKNOWN_SERVER_ERROR
        try:
            if not await stable.reply:
                return  # the shard is loaded again, and a member's heartbeat repeats the request
            error_code = await self._call(call, keys)
        except Exception as error:  # noqa: BLE001 - counted and logged; the group gets the error
            self._errors.caught("states of share groups", error)
        while hosted.core is core and hosted.phase is Phase.UNWRITABLE:
            await self._groups.time.sleep(_AGAIN_S)
        if hosted.core is core and hosted.phase is Phase.ACTIVE:
            now = self._groups.time.now()
            self._groups.life.work(hosted, partial(tell, hosted, now, error_code))

    async def _call(self, call: NewCall, keys: Sequence[SharePartitionKey]) -> int:
        """Makes one call for each share partition. Returns the error code of the last call that
        failed, or NONE."""
        tickets: list[Awaited[StateReply]] = []
        for key in keys:
            tickets.append(Awaited())
            self._persister().submit(call(tickets[-1], key))
        error_code = NONE
        for ticket in tickets:
            reply = await ticket.reply
            error_code = reply.error_code or error_code
        return error_code
