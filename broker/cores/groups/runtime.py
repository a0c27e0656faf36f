"""The runtime of groups: the function that makes it, and its image of the topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from broker.cores.groups.dropped_offsets import DroppedOffsets
from broker.cores.groups.kind import GROUPS
from broker.cores.hooks import Hooks
from broker.cores.hosted_shard import LOADED, HostedShard
from broker.cores.runtime import Runtime
from broker.cores.runtime_settings import RuntimeSettings
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.time import Time
from broker.topics.registry import Registry, Topic
from coordinator.shard import GroupShard
from coordinator.topics_image import Topic as SeenTopic
from coordinator.topics_image import TopicsImage
from protocol.schema import ZERO_UUID

GroupRuntime = Runtime[GroupShard, DroppedOffsets]
HostedGroups = HostedShard[GroupShard]
"""A shard of groups: the groups of one partition of ``__consumer_offsets``."""


def _ignore(_: str) -> None:
    pass


def group_runtime(
    settings: RuntimeSettings,
    time: Time,
    slicer: Slicer,
    errors: InternalErrors | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
    on_dropped: Callable[[str], None] = _ignore,
    topics: TopicsImage | None = None,
) -> GroupRuntime:
    """Returns a runtime of groups that has no shards yet.

    The runtime calls ``on_dropped`` with the name of a deleted topic after all shards have dropped
    the offsets of this topic. All shards share ``topics``, the image of the cluster's topics.
    """
    duties = partial(DroppedOffsets, on_dropped=on_dropped)
    kind = replace(GROUPS, new_core=partial(GroupShard, topics=topics))
    return Runtime(kind, duties, settings, time, slicer, errors, hooks)


class TopicsOfGroups:
    """Keeps the group coordinator's image of the topics up to date with the registry."""

    def __init__(
        self, registry: Registry, lacks_topics: Callable[[], bool] = lambda: False
    ) -> None:
        """``lacks_topics`` is a function that returns True while topics of the cluster are still
        missing in the registry."""
        topics = [each for each in registry.topics.values() if each.topic_id != ZERO_UUID]
        self.image = TopicsImage(map(_as_seen, topics))
        self.image.is_complete = not lacks_topics()
        self._registry = registry
        self._lacks_topics = lacks_topics
        self._groups: GroupRuntime

    def follow(self, groups: GroupRuntime) -> None:
        """Starts to pass each change of a topic to all loaded shards of ``groups``."""
        self._groups = groups
        self._registry.on_changed = self._changed

    def received(self) -> None:
        """Called when the registry has changed. When the registry has all topics of the cluster for
        the first time, lets the shards look for deleted topics."""
        if not self.image.is_complete and not self._lacks_topics():
            self.image.is_complete = True
            for hosted in self._groups.hosted_shards:
                if hosted.phase in LOADED:
                    hosted.core.look_for_deleted_topics()

    def _changed(self, name: str, topic: Topic | None) -> None:
        if topic is None or topic.topic_id == ZERO_UUID:
            self.image.remove(name)
        else:
            seen = _as_seen(topic)
            if self.image.by_name.get(name) == seen:
                return  # a change of its settings
            self.image.put(seen)
        for hosted in self._groups.hosted_shards:
            if hosted.phase in LOADED:
                hosted.core.topic_changed(name)


def _as_seen(topic: Topic) -> SeenTopic:
    return SeenTopic(topic.topic_id, topic.name, topic.partitions)
