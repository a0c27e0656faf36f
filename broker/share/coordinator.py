"""The share coordinator of this broker. The persister of this broker calls it; in a cluster, the
persisters of other brokers call it too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.cores.share_state.runtime import ShareStateRuntime
from broker.topics.registry import Registry
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS
from share.persister.calls import Call, StateReply
from share.persister.values import coordinator_key
from share.values import SharePartitionKey


class ShareCoordinators(Protocol):
    """Passes each call to the share coordinator of the call's share partition."""

    @property
    def are_started(self) -> bool:
        """Returns True if ``__share_group_state`` exists and its partition count is known."""

    def submit(self, call: Call) -> None:
        """Submits a call. The call's ticket gets one `StateReply`, possibly before this method
        returns."""


class ShareCoordinator:
    """Implements `ShareCoordinators` with the shards of this broker."""

    def __init__(
        self, states: ShareStateRuntime, registry: Registry, lacks_topics: Callable[[], bool]
    ) -> None:
        """``lacks_topics`` returns True until this broker has received all topics of its
        cluster."""
        self._states = states
        self._registry = registry
        self._lacks_topics = lacks_topics

    @property
    def are_started(self) -> bool:
        return self._states.is_started

    @property
    def partitions(self) -> int:
        """Returns the number of partitions of ``__share_group_state``; 0 before it exists."""
        return self._states.life.partitions

    def coordinates(self, key: SharePartitionKey) -> bool:
        return self._states.hosted_for(coordinator_key(key)) is not None

    def submit(self, call: Call) -> None:
        """Implements `ShareCoordinators.submit`. The reply is NOT_COORDINATOR if another broker is
        the coordinator."""
        key = call.key
        topic = self._registry.topic_by_id(key.topic_id)
        call.exists = topic is not None and key.partition < topic.partitions
        if not call.exists and self._lacks_topics() and self.coordinates(key):
            call.ticket.take(StateReply(COORDINATOR_LOAD_IN_PROGRESS))
            return
        self._states.submit(coordinator_key(key), call)
