"""The metadata that the controller has sent: live brokers, topics and leaders.

Only UpdateMetadata changes the cache. Metadata, FindCoordinator and other requests read it
(`ClusterView`). An UpdateMetadata has all live brokers, but only the changed partitions. The cache
is empty until the first UpdateMetadata, and this broker names no other broker to clients until
then.
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
    """The topics, partitions and brokers that an UpdateMetadata has changed."""

    deleted: tuple[tuple[str, int], ...] = ()
    """The partitions of topics that are being deleted."""
    topics: tuple[str, ...] = ()
    """The topics with a changed id, or with a new or changed partition."""
    lost_brokers: tuple[int, ...] = ()
    """The ids of brokers that are no longer live."""


@dataclass(slots=True)
class KnownTopic:
    """A topic as the controller has described it in UpdateMetadata."""

    topic_id: bytes | None = None
    """The topic id; None if the topic has no id, or if the controller has not sent the id."""
    partitions: dict[int, ShownPartition] = field(default_factory=dict)


class MetadataCache:
    """Implements `ClusterView` with the metadata that the controller has sent."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self.controller_id = -1
        self.controller_epoch = -1
        """The epoch of the controller that sent the last metadata."""
        self.topics: dict[str, KnownTopic] = {}
        self._brokers: Mapping[int, BrokerFact] = {}
        self._names: dict[bytes, str] = {}
        self.doubted: set[str] = set()
        """The topics that no UpdateMetadata has named since the last call of `doubt_all`. They may
        have been deleted."""
        self.missing: set[str] = set()
        """The topics that were in ZooKeeper when this broker started, and that no UpdateMetadata
        has named yet. They have not been deleted."""
        self._awaited: list[tuple[Callable[[], bool], asyncio.Event]] = []
        """The conditions for which calls of `until` wait, each with the event that is set when the
        condition becomes true."""

    # -- from the controller

    def update(self, sent: UpdateMetadataRequest) -> Learnt:
        """Applies an UpdateMetadata request, which the caller has validated. Returns the
        changes."""
        self.controller_id = sent.controller_id
        self.controller_epoch = sent.controller_epoch
        before = self._brokers
        self._brokers = {each.broker_id: each for each in sorted(sent.brokers)}
        deleted: list[tuple[str, int]] = []
        changed: list[str] = []
        for topic in sent.topics:
            self.doubted.discard(topic.name)
            self.missing.discard(topic.name)
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
        lost = tuple(each for each in before if each not in self._brokers)
        return Learnt(tuple(deleted), tuple(changed), lost)

    def doubt_all(self) -> None:
        """Adds all topics to ``doubted``, because this broker may have missed deletions of topics
        while it was not registered."""
        self.doubted = set(self.topics)

    def forget(self, names: Collection[str]) -> Learnt:
        """Removes topics that were deleted while this broker was not registered. Returns the
        changes."""
        deleted = [(name, index) for name in names for index in self.topics[name].partitions]
        for name in names:
            self.doubted.discard(name)
            self._forget(name)
        return Learnt(tuple(deleted), tuple(names))

    async def until(
        self, wanted: Mapping[Key, Callable[[], bool]], timeout: asyncio.Timeout
    ) -> Collection[Key]:
        """Waits until all conditions in ``wanted`` are true. Returns the keys of conditions that
        are false at the timeout."""
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
                if topic_id is not None:  # the new topic may have fewer partitions
                    known.partitions.clear()
            known.topic_id = topic_id
        if topic_id is not None:
            self._names[topic_id] = name

    def _forget(self, name: str) -> None:
        known = self.topics.pop(name)
        if known.topic_id is not None:
            self._names.pop(known.topic_id, None)

    # -- brokers

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._brokers

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the live brokers, in ascending order."""
        return list(self._brokers)

    def racks(self) -> dict[int, str | None]:
        """Returns the rack of each live broker."""
        return {each.broker_id: each.rack for each in self._brokers.values()}

    @property
    def lacks_topics(self) -> bool:
        """True until the controller has sent all topics of the cluster to this broker.

        Until then, a topic that is not in the cache has not necessarily been deleted. The first
        update of a controller has all topics that were created after this broker read ZooKeeper.
        """
        return self.controller_id < 0 or bool(self.missing)

    @property
    def has_brokers(self) -> bool:
        return bool(self._brokers)

    async def await_brokers(self, timeout: asyncio.Timeout) -> bool:
        return not await self.until({"brokers": lambda: self.has_brokers}, timeout)

    def brokers(self, listener: str) -> Sequence[BrokerNode]:
        nodes = [_node(each, listener) for each in self._brokers.values()]
        return [each for each in nodes if each is not None]

    def node(self, node_id: int, listener: str) -> BrokerNode | None:
        known = self._brokers.get(node_id)
        return None if known is None else _node(known, listener)

    # -- partitions

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """Implements `ClusterView.partition`. The leader is NO_LEADER if the partition's leader is
        not live."""
        known = self.topics.get(topic)
        found = None if known is None else known.partitions.get(index)
        if found is None:
            return None
        leader = found.leader if found.leader in self._brokers else NO_LEADER
        offline = [each for each in found.replicas if each not in self._brokers]
        offline += [each for each in found.offline if each not in offline]
        return PartitionView(leader, found.leader_epoch, found.replicas, found.isr, offline)

    def id_of(self, topic: str) -> bytes | None:
        """Returns the id of a topic; None if the topic or its id is unknown."""
        known = self.topics.get(topic)
        return None if known is None else known.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of the topic with this id; None if the id is unknown."""
        return self._names.get(topic_id)


def _node(broker: BrokerFact, listener: str) -> BrokerNode | None:
    for each in broker.endpoints:
        if each.listener == listener:
            return BrokerNode(broker.broker_id, each.host, each.port, broker.rack)
    return None
