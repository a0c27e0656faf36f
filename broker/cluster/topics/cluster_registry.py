"""The registry of a broker in a cluster: the topics in the controller's metadata.

UpdateMetadata has the topics, their ids and their partition counts (`MetadataCache`); their own
settings are in ZooKeeper (`cluster_configs.py`). Either may arrive first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.cluster.metadata_cache import Learnt, MetadataCache
from broker.topics.registry import NO_FEATURES, Features, Topic, TopicLookups
from protocol.schema import ZERO_UUID


class TopicsLearnt(NamedTuple):
    """The changes by an update of the cache."""

    shown: tuple[Topic, ...] = ()
    """Topics that are new, or have another id or more partitions."""
    gone: tuple[Topic, ...] = ()
    """Topics that were deleted; one of `shown` may have the same name."""


class ClusterRegistry(TopicLookups):
    """See `Registry`."""

    def __init__(self, node_id: int, cluster_id: str, cache: MetadataCache) -> None:
        super().__init__()
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.features: Features = NO_FEATURES
        """None: a cluster with ZooKeeper has no transaction.version, so that producers keep to the
        rules of version 1."""
        self._cache = cache
        self._configs: dict[str, Mapping[str, str]] = {}
        """Own settings by topic, with topics that are not in the metadata yet."""

    # -- what is learnt

    def learnt(self, learnt: Learnt) -> TopicsLearnt:
        """Follows an update of the cache."""
        shown: list[Topic] = []
        gone: list[Topic] = []
        for name in dict.fromkeys((*learnt.topics, *(topic for topic, _ in learnt.deleted))):
            before = self.topics.get(name)
            topic = self._told(name)
            if before is not None and (topic is None or _is_another(before, topic)):
                self._hide(before)
                gone.append(before)
                if topic is not None:
                    topic = topic.with_configs({})  # the settings belong to the old topic
            if topic is not None and topic != before:
                self._show(topic, before)
                shown.append(topic)
        return TopicsLearnt(tuple(shown), tuple(gone))

    def configs(self, name: str) -> Mapping[str, str]:
        """A topic's own settings, as far as they were read."""
        return self._configs.get(name, {})

    def configured(self, name: str, configs: Mapping[str, str]) -> Topic | None:
        """Notes a topic's own settings; the topic that has them now, None while it is unknown."""
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

    def _told(self, name: str) -> Topic | None:
        """The topic as the cache has it."""
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

    def _hide(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self.partition_counts[topic.name]
        self._by_id.pop(topic.topic_id, None)
        self._configs.pop(topic.name, None)


def _is_another(before: Topic, topic: Topic) -> bool:
    """Whether the id says that it is a new topic of the name; an id that comes later does not."""
    return ZERO_UUID not in (before.topic_id, topic.topic_id) and before.topic_id != topic.topic_id
