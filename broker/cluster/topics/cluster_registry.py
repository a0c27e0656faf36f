"""The registry of a broker in a cluster: the topics in the controller's metadata.

Topics, their ids and their partition counts come from UpdateMetadata (`MetadataCache`). The topics'
own settings come from ZooKeeper (`cluster_configs.py`). A topic's settings may be read before its
metadata arrives, or after.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.topics.registry import NO_FEATURES, Features, Topic, TopicLookups
from protocol.schema import ZERO_UUID


class TopicsLearnt(NamedTuple):
    """The topics that one update of the metadata cache has changed."""

    shown: tuple[Topic, ...] = ()
    """The topics that are new, or have another id or more partitions than before."""
    gone: tuple[Topic, ...] = ()
    """The topics that were deleted. If a topic was deleted and recreated, `gone` has the old topic,
    and `shown` has the new topic with the same name."""


class ClusterRegistry(TopicLookups):
    """Implements `Registry` for a broker in a cluster, with the topics in the controller's
    metadata."""

    def __init__(self, node_id: int, cluster_id: str, cache: MetadataCache) -> None:
        super().__init__()
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.features: Features = NO_FEATURES
        """The finalized feature levels (see `FeatureLevels`).

        A cluster with ZooKeeper has no feature transaction.version, so producers add partitions to
        their transactions themselves.
        """
        self._cache = cache
        self._configs: dict[str, Mapping[str, str]] = {}
        """The own settings of each topic, including topics that are not in the metadata cache yet.
        """

    # -- updates

    def learnt(self, learnt: Learnt) -> TopicsLearnt:
        """Applies an update of the metadata cache. Returns the changed topics."""
        shown: list[Topic] = []
        gone: list[Topic] = []
        for name in dict.fromkeys((*learnt.topics, *(topic for topic, _ in learnt.deleted))):
            before = self.topics.get(name)
            topic = self._topic_of_cache(name)
            if before is not None and (topic is None or _is_another(before, topic)):
                self._hide(before)
                gone.append(before)
                if topic is not None:
                    topic = topic.with_configs({})  # these settings belong to the deleted topic
            if topic is not None and topic != before:
                self._show(topic, before)
                shown.append(topic)
        return TopicsLearnt(tuple(shown), tuple(gone))

    def configs(self, name: str) -> Mapping[str, str]:
        """Returns a topic's own settings; an empty mapping if they have not been read yet."""
        return self._configs.get(name, {})

    def configured(self, name: str, configs: Mapping[str, str]) -> Topic | None:
        """Stores a topic's own settings. Returns the changed topic; None if the metadata does not
        have the topic."""
        if configs:
            self._configs[name] = dict(configs)
        else:
            self._configs.pop(name, None)
        before = self.topics.get(name)
        if before is None:
            return None
        topic = before.with_configs(configs)
        self._show(topic, before)
        return topic

    def _topic_of_cache(self, name: str) -> Topic | None:
        """Returns the topic as the metadata cache has it; None if the cache does not have the
        topic."""
        known = self._cache.topics.get(name)
        if known is None or not known.partitions:
            return None
        count = max(known.partitions) + 1
        return Topic(name, known.topic_id or ZERO_UUID, count, self.configs(name))

    def _show(self, topic: Topic, before: Topic | None) -> None:
        if before is not None:
            self._by_id.pop(before.topic_id, None)
        self.topics[topic.name] = topic
        self.partition_counts[topic.name] = topic.partitions
        if topic.topic_id != ZERO_UUID:
            self._by_id[topic.topic_id] = topic
        self.on_changed(topic.name, topic)

    def _hide(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self.partition_counts[topic.name]
        self._by_id.pop(topic.topic_id, None)
        self._configs.pop(topic.name, None)
        self.on_changed(topic.name, None)


def _is_another(before: Topic, topic: Topic) -> bool:
    """Returns True if two topics with the same name have different ids; False if either id is
    unknown."""
    return ZERO_UUID not in (before.topic_id, topic.topic_id) and before.topic_id != topic.topic_id
