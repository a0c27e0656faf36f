"""Batches requests to other brokers.

Each broker has at most one request in flight. The next request contains all items that have arrived
during that request. When a connection is lost, all items for that broker fail at once, because the
leader may change before the next attempt.
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
    """One entry of a batched request."""

    @property
    def key(self) -> Hashable:
        """The key of the item's result in the response. No two items of a request have the same
        key."""

    @property
    def weight(self) -> int:
        """The number of partitions that the item names."""

    def lost(self, lost: PeerLost) -> None:
        """Called if the item gets no result. The other broker may have executed the request
        nevertheless."""


ItemT = TypeVar("ItemT", bound=Item)
Ask = Callable[[LastingPeer, list[ItemT]], Awaitable[None]]
"""A function that sends one request for several items, and passes each item its result. If the
function raises PeerLost, it has passed no result to any item."""


class Outboxes(Generic[ItemT]):
    """Queues of items that wait to be sent in requests to other brokers, one queue for each broker.
    Only the event loop's thread may use this class."""

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
        """``weight_max`` is the maximum number of partitions in a request. A request with a single
        item may exceed it."""
        self._name = name
        self._cluster = cluster
        self._settings = settings
        self._ask = ask
        self._weight_max = weight_max
        self._time = time
        self._spawn = spawn
        self._outboxes: dict[int, _Outbox[ItemT]] = {}

    def put(self, broker_id: int, item: ItemT) -> None:
        """Adds an item to the queue of a broker. It is sent in the next turn of the event loop or,
        if a request is in flight, after that request."""
        outbox = self._outboxes.get(broker_id)
        if outbox is None:
            peer = LastingPeer(lambda: self._address(broker_id), self._settings, self._time)
            outbox = self._outboxes[broker_id] = _Outbox(peer, self._ask, self._weight_max)
        outbox.queue.append(item)
        if outbox.worker is None:
            outbox.worker = self._spawn(outbox.work(), self._name)

    def queued(self, broker_id: int) -> deque[ItemT]:
        """Returns the queue of items that have not been sent to the broker yet."""
        outbox = self._outboxes.get(broker_id)
        return deque() if outbox is None else outbox.queue

    def stop(self) -> None:
        """Stops sending requests, and closes the connections."""
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
    """The queue of items for one broker, and the connection to this broker."""

    def __init__(self, peer: LastingPeer, ask: Ask[ItemT], weight_max: int) -> None:
        self.peer = peer
        self.queue: deque[ItemT] = deque()
        self.worker: Task[None] | None = None
        self._ask = ask
        self._weight_max = weight_max

    async def work(self) -> None:
        """Sends requests until the queue is empty."""
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
        """Removes the items for the next request from the queue and returns them, in the order of
        their arrival."""
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
