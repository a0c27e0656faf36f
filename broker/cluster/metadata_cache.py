"""The last metadata from the controller: live brokers, topics, leaders.

UpdateMetadata alone writes it; Metadata, FindCoordinator and other requests read it
(`ClusterView`). A request has all live brokers and only the partitions that have changed. Before
the first one the cache is empty, and this broker names no other broker to clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from broker.topics.cluster_view import NO_LEADER, PartitionView
from broker.topics.registry import BrokerNode
from controller.requests import ShownPartition, UpdateMetadataRequest
from controller.values import LEADER_OF_DELETED, BrokerFact

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Learnt:
    """The changes of topics by an update."""

    deleted: tuple[tuple[str, int], ...] = ()
    """Partitions that are being deleted."""
    topics: tuple[str, ...] = ()
    """Topics of which a partition or the id is new or changed."""


@dataclass(slots=True)
class KnownTopic:
    """A topic as the controller describes it."""

    topic_id: bytes | None = None
    """None if the topic has no id, or none was received."""
    partitions: dict[int, ShownPartition] = field(default_factory=dict)


class MetadataCache:
    """See the module, and `ClusterView`."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self.controller_id = -1
        """See `ClusterView`."""
        self.controller_epoch = -1
        """The epoch of the last controller that sent metadata."""
        self.topics: dict[str, KnownTopic] = {}
        self._brokers: Mapping[int, BrokerFact] = {}
        self._names: dict[bytes, str] = {}
        self.doubted: set[str] = set()
        """Topics absent from all updates since `doubt_all`: they may have been deleted."""
        self._awaited: list[tuple[Callable[[], bool], asyncio.Event]] = []
        """The awaited conditions, each with the event of its waiter."""

    # -- from the controller

    def update(self, told: UpdateMetadataRequest) -> Learnt:
        """Applies an update; the caller has checked that it is valid."""
        self.controller_id = told.controller_id
        self.controller_epoch = told.controller_epoch
        self._brokers = {each.broker_id: each for each in sorted(told.brokers)}
        deleted: list[tuple[str, int]] = []
        changed: list[str] = []
        for topic in told.topics:
            self.doubted.discard(topic.name)
            known = self.topics.setdefault(topic.name, KnownTopic())
            self._note_id(topic.name, known, topic.topic_id)
            for each in topic.partitions:
                if each.leader == LEADER_OF_DELETED:
                    if known.partitions.pop(each.partition, None) is not None:
                        deleted.append((topic.name, each.partition))
                else:
                    known.partitions[each.partition] = each
            if not known.partitions:
                self._forget(topic.name)
            changed.append(topic.name)
        for is_so, event in self._awaited:
            if not event.is_set() and is_so():
                event.set()
        return Learnt(tuple(deleted), tuple(changed))

    def doubt_all(self) -> None:
        """Doubts all topics: this broker was away and may have missed their deletion."""
        self.doubted = set(self.topics)

    def forget(self, names: Collection[str]) -> Learnt:
        """Removes topics that were deleted although no controller said so."""
        deleted = [(name, index) for name in names for index in self.topics[name].partitions]
        for name in names:
            self.doubted.discard(name)
            self._forget(name)
        return Learnt(tuple(deleted), tuple(names))

    async def until(
        self, wanted: Mapping[Key, Callable[[], bool]], timeout: asyncio.Timeout
    ) -> Collection[Key]:
        """Waits until all of ``wanted`` are true; returns the keys of those that timed out."""
        left = [(key, is_so, asyncio.Event()) for key, is_so in wanted.items() if not is_so()]
        entries = [(is_so, event) for _, is_so, event in left]
        self._awaited += entries
        try:
            async with timeout:
                for _, event in entries:
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            self._awaited = [each for each in self._awaited if each not in entries]
        return [key for key, _, event in left if not event.is_set()]

    def _note_id(self, name: str, known: KnownTopic, topic_id: bytes | None) -> None:
        if known.topic_id != topic_id:
            if known.topic_id is not None:
                self._names.pop(known.topic_id, None)
                if topic_id is not None:  # another topic of the name: it may have fewer
                    known.partitions.clear()
            known.topic_id = topic_id
        if topic_id is not None:
            self._names[topic_id] = name

    def _forget(self, name: str) -> None:
        known = self.topics.pop(name)
        if known.topic_id is not None:
            self._names.pop(known.topic_id, None)

    # -- who is there

    def is_alive(self, broker_id: int) -> bool:
        """Whether the controller knows a broker to live."""
        return broker_id in self._brokers

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the live brokers, ascending."""
        return list(self._brokers)

    def racks(self) -> dict[int, str | None]:
        """The rack of each live broker."""
        return {each.broker_id: each.rack for each in self._brokers.values()}

    @property
    def is_told(self) -> bool:
        """See `ClusterView`."""
        return bool(self._brokers)

    async def told(self, timeout: asyncio.Timeout) -> bool:
        """See `ClusterView`."""
        return not await self.until({"brokers": lambda: self.is_told}, timeout)

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        """See `ClusterView`."""
        nodes = [_node(each, listener) for each in self._brokers.values()]
        return [each for each in nodes if each is not None]

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        """See `ClusterView`."""
        known = self._brokers.get(node_id)
        return None if known is None else _node(known, listener)

    # -- who leads

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """See `ClusterView`. A leader that isn't alive is none."""
        known = self.topics.get(topic)
        found = None if known is None else known.partitions.get(index)
        if found is None:
            return None
        leader = found.leader if found.leader in self._brokers else NO_LEADER
        offline = [each for each in found.replicas if each not in self._brokers]
        offline += [each for each in found.offline if each not in offline]
        return PartitionView(leader, found.leader_epoch, found.replicas, found.isr, offline)

    def id_of(self, topic: str) -> bytes | None:
        """The id of a topic, None where none is known."""
        known = self.topics.get(topic)
        return None if known is None else known.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic of an id."""
        return self._names.get(topic_id)


def _node(broker: BrokerFact, listener: str) -> BrokerNode | None:
    for each in broker.endpoints:
        if each.listener == listener:
            return BrokerNode(broker.broker_id, each.host, each.port, broker.rack)
    return None
