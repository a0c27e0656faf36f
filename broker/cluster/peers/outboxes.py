"""Batched requests to other brokers: one request at a time to each, with all items that arrived
during the last one.

When a connection is lost, all its items fail at once: the leader may have changed by the time of
the next attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from broker.cluster.peers.lasting_peer import LastingPeer, PeerSettings
from broker.cluster.peers.peer import Address, PeerLost
from broker.time import Time
from broker.topics.cluster_view import ClusterView

if TYPE_CHECKING:
    from asyncio import Task

Spawn = Callable[[Coroutine[Any, Any, None], str], "Task[None]"]


class Item(Protocol):
    """A part of a request."""

    @property
    def key(self) -> Hashable:
        """Identifies the item's answer; a request has each key once."""

    @property
    def weight(self) -> int:
        """How many partitions it names."""

    def lost(self, lost: PeerLost) -> None:
        """It was not answered; whether it was done is not known."""


ItemT = TypeVar("ItemT", bound=Item)
Ask = Callable[[LastingPeer, list[ItemT]], Awaitable[None]]
"""Sends one request and answers its items. Raises PeerLost, with none of them answered."""


class Outboxes(Generic[ItemT]):
    """One for each broker that was asked anything; use from the event loop's thread alone."""

    def __init__(
        self,
        name: str,
        cluster: ClusterView,
        settings: PeerSettings,
        ask: Ask[ItemT],
        weight_max: int,
        time: Time,
        spawn: Spawn,
    ) -> None:
        """A request names ``weight_max`` partitions at most, or has one item."""
        self._name = name
        self._cluster = cluster
        self._settings = settings
        self._ask = ask
        self._weight_max = weight_max
        self._time = time
        self._spawn = spawn
        self._outboxes: dict[int, _Outbox[ItemT]] = {}

    def put(self, broker_id: int, item: ItemT) -> None:
        """Queues an item; it is sent in the next turn of the loop, or after the request under
        way."""
        outbox = self._outboxes.get(broker_id)
        if outbox is None:
            peer = LastingPeer(lambda: self._address(broker_id), self._settings, self._time)
            outbox = self._outboxes[broker_id] = _Outbox(peer, self._ask, self._weight_max)
        outbox.queue.append(item)
        if outbox.worker is None:
            outbox.worker = self._spawn(outbox.work(), self._name)

    def queued(self, broker_id: int) -> deque[ItemT]:
        """The items that are not sent to a broker yet."""
        outbox = self._outboxes.get(broker_id)
        return deque() if outbox is None else outbox.queue

    def stop(self) -> None:
        """Sends no more requests, and closes the connections."""
        for outbox in self._outboxes.values():
            if outbox.worker is not None:
                outbox.worker.cancel()
            outbox.peer.close()
        self._outboxes.clear()

    def _address(self, broker_id: int) -> Address:
        node = self._cluster.node(broker_id, self._settings.listener)
        if node is None:
            raise PeerLost(f"broker {broker_id} is down or unknown")
        return Address(node.host, node.port)


class _Outbox(Generic[ItemT]):
    """The items for one broker."""

    def __init__(self, peer: LastingPeer, ask: Ask[ItemT], weight_max: int) -> None:
        self.peer = peer
        self.queue: deque[ItemT] = deque()
        self.worker: Task[None] | None = None
        self._ask = ask
        self._weight_max = weight_max

    async def work(self) -> None:
        """Sends until the queue is empty."""
        try:
            while self.queue:
                batch = self._next()
                try:
                    await self._ask(self.peer, batch)
                except PeerLost as lost:
                    waiting, self.queue = self.queue, deque()
                    for item in (*batch, *waiting):
                        item.lost(lost)
        finally:
            self.worker = None

    def _next(self) -> list[ItemT]:
        """The items of the next request, in the order of their arrival."""
        batch: list[ItemT] = []
        keys: set[Hashable] = set()
        weight = 0
        while self.queue:
            item = self.queue[0]
            weight += item.weight
            if item.key in keys or (batch and weight > self._weight_max):
                break
            keys.add(item.key)
            batch.append(self.queue.popleft())
        return batch
