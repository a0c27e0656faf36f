"""Adds the current leader to the response for a partition that another broker leads, so that
clients need no Metadata request (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.request import Request
from broker.topics.cluster_view import NO_LEADER
from broker.topics.registry import BrokerNode
from protocol.errors import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

LED_ELSEWHERE = frozenset({NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH})
"""The errors for which a response has the current leader."""
_NO_EPOCH = -1


class CurrentLeaders:
    """The leaders that one response names, with their endpoints."""

    def __init__(self, services: Services, request: Request) -> None:
        self._services = services
        self._listener = services.advertised.listener(request)
        self.endpoints: dict[int, BrokerNode] = {}
        """The leaders that `of` has returned, by broker id, with their endpoint on the client's
        listener."""

    def of(self, topic_id: bytes, index: int) -> tuple[int, int]:
        """Returns the leader's broker id and the leader epoch of a partition; each is -1 if
        unknown."""
        name = self._services.registry.topic_name(topic_id)
        cluster = self._services.cluster
        found = None if name is None else cluster.partition(name, index)
        if found is None:
            return NO_LEADER, _NO_EPOCH
        node = cluster.node(found.leader, self._listener)
        if node is not None:
            self.endpoints[found.leader] = node
        return found.leader, found.leader_epoch
