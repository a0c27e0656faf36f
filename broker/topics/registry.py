"""The registry: topics with their ids, settings and partitions.

`Registry` is the interface of lookups, which handlers use. On a standalone broker,
`broker/topics/directory/embedded_registry.py` implements it in files of the data directory. In a
cluster, `broker/cluster/topics/cluster_registry.py` implements it from the controller's metadata
and the settings in ZooKeeper.
"""

from __future__ import annotations

import base64
from asyncio import Future
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple, Protocol

from protocol import topic_names
from protocol.errors import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from protocol.slotted import slotted

OFFSETS_TOPIC = topic_names.OFFSETS_TOPIC
NAMED_MAX = 20
"""The maximum number of partitions that one log line names."""
TRANSACTION_TOPIC = topic_names.TRANSACTION_TOPIC
SHARE_STATE_TOPIC = topic_names.SHARE_STATE_TOPIC
INTERNAL_TOPICS = topic_names.INTERNAL_TOPICS


@slotted(frozen=True)
class Topic:
    """One topic. Immutable."""

    name: str
    topic_id: bytes
    """The topic id of 16 bytes; all bytes are zero if the topic has no id because it was created
    before Kafka 2.8."""
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings as text. All other settings have the broker's defaults."""
    leader_epoch: int = 0

    @property
    def is_internal(self) -> bool:
        """Returns True if only the broker may write to the topic."""
        return self.name in INTERNAL_TOPICS

    def with_configs(self, configs: Mapping[str, str]) -> Topic:
        return replace(self, configs=dict(configs))

    def with_partitions(self, partitions: int) -> Topic:
        return replace(self, partitions=partitions)


class DeletedTopic(NamedTuple):
    """A topic that is marked as deleted and whose deletion is incomplete."""

    topic: Topic
    offsets_below: Mapping[int, int] | None = None
    """None if no newer topic has the same name. Otherwise a log offset, by partition of
    ``__consumer_offsets``: commits for the name before this log offset belong to the deleted topic,
    later commits to the newer topic. When a shard has dropped the commits of the deleted topic, its
    partition is omitted."""


class BrokerNode(NamedTuple):
    """The address of a broker on a listener, for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Features(NamedTuple):
    """The finalized features of the cluster (KIP-584)."""

    epoch: int
    """A number that increases with each change. Clients use the levels with the highest epoch."""
    levels: Mapping[str, int]
    """The level of each feature by name. Features with level 0 are disabled and omitted."""


NO_FEATURES = Features(0, {})


OldOffset = tuple[str, str, int, int]
"""A committed offset of API version 0: group, topic, partition and offset."""
Place = tuple[str, int]
"""A partition: topic and partition number."""


class OldOffsets(Protocol):
    """The committed offsets of OffsetCommit and OffsetFetch v0, which Kafka stores in ZooKeeper.
    `broker/topics/directory/consumer_paths.py` stores them in a file,
    `broker/cluster/topics/consumer_paths.py` in ZooKeeper."""

    def keep(self, entries: list[OldOffset]) -> Future[Exception | None]:
        """Stores offsets. The future's result is None, or the error if the offsets were not
        stored."""

    def fetch(self, group_id: str, places: Sequence[Place]) -> Future[Mapping[Place, int]]:
        """Returns the last committed offsets. Partitions without a committed offset are omitted."""


OnChanged = Callable[[str, Topic | None], None]
"""A function that is called with the name of a changed topic and its new state; the state is None
if the topic was deleted."""


def _ignore(_name: str, _topic: Topic | None) -> None:
    pass


class Registry(Protocol):
    """The lookups that handlers and logs need. Every lookup is cheap."""

    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str:
        """The cluster id, which has 22 characters."""

    @property
    def features(self) -> Features: ...

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics that are visible to clients, by name."""

    @property
    def partition_counts(self) -> Mapping[str, int]: ...

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The settings that groups override, as text, by group id."""

    on_changed: OnChanged
    """A function that the registry calls after each change of `topics`. The broker sets this
    attribute."""

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def topic_id(self, name: str) -> bytes | None: ...


class TopicLookups:
    """Implements the lookups of `Registry` by name and id, for all registries."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.partition_counts: dict[str, int] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.on_changed: OnChanged = _ignore
        """A function that is called after each change of the topics that are visible to clients."""
        self._by_id: dict[bytes, Topic] = {}

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> bytes | None:
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id


class StoredRegistry(Registry, Protocol):
    """The registry of a standalone broker, which stores topics and settings on its disk.

    Changes are durable when the methods return. A change that raises OSError has no effect on disk
    or in memory. After NotSettled it is unknown whether the change is on disk, and the broker
    stops. Only `broker/topics/topic_admin.py` changes the registry, one change at a time.
    """

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The dynamic broker configs as text, by broker id. The key "" has the defaults for all
        brokers."""

    @property
    def dying(self) -> Mapping[str, DeletedTopic]:
        """The deleted topics whose entry `forget` has not removed yet, by name."""

    def store(self, topic: Topic, offsets_below: Mapping[int, int] | None = None) -> None:
        """Stores a new or changed topic durably. The topic stays invisible until `show` is called.
        ``offsets_below`` is stored as `DeletedTopic.offsets_below` of a deleted topic with the same
        name. Blocks; must be called outside the event loop's thread."""

    def show(self, topic: Topic) -> None:
        """Makes a stored topic visible, in place of its previous state."""

    def take_back(self, name: str, before: Topic | None) -> None:
        """Undoes a `store` of a topic, if `show` was not called after it. ``before`` is the topic
        as it was before the `store`. If this method raises OSError, the next change of topics
        undoes the `store` on the disk. Must be called outside the event loop's thread."""

    def mark_deleted(self, name: str) -> None:
        """Marks a topic as deleted, durably. The topic stays visible until `hide` is called. Must
        be called outside the event loop's thread."""

    def hide(self, name: str) -> None:
        """Makes a topic that is marked as deleted invisible."""

    def forget(self, topic: Topic) -> None:
        """Removes the entry of a deleted topic, durably. Does nothing if the entry belongs to
        another topic: a newer topic of the same name, which was also deleted. Must not be called in
        the event loop's thread."""

    def bound_offsets(self, name: str, offsets_below: Mapping[int, int]) -> None:
        """Durably replaces the `DeletedTopic.offsets_below` of a deleted topic."""

    def store_broker_configs(self, broker: str, configs: Mapping[str, str]) -> None:
        """Durably stores the dynamic configs of a broker, or of all brokers if ``broker`` is "".
        Must be called outside the event loop's thread."""

    def store_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Durably stores the own settings of a group. Must be called outside the event loop's
        thread."""

    def reserve_producer_ids(self, count: int) -> range:
        """Durably reserves new producer ids. Must be called outside the event loop's thread."""


class BadDirectory(Exception):
    """Raised if the data directory can't be used. The text is one sentence for the operator."""


def colliding(name: str, topics: Mapping[str, Topic]) -> list[str]:
    """Returns the topics whose metrics would have the same name as those of ``name``: their names
    differ only in '.' and '_'."""
    if "." not in name and "_" not in name:
        return []
    plain = name.replace(".", "_")
    return [other for other in topics if other != name and other.replace(".", "_") == plain]


def uuid_text(uuid: bytes) -> str:
    """Returns a UUID in Kafka's form: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Returns the 16 bytes of a UUID in Kafka's form. Raises ValueError for any other text."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a UUID in base64")
    return raw


def absent_error(registry: Registry, topic: str, partition: int) -> int:
    """Returns the error code for a partition without a replica on this broker."""
    known = registry.topic(topic)
    if known is None or not 0 <= partition < known.partitions:
        return UNKNOWN_TOPIC_OR_PARTITION
    return NOT_LEADER_OR_FOLLOWER


def partition_name(topic: str, partition: int) -> str:
    """Returns the name of a partition and of its directory, such as ``topic-3``."""
    return f"{topic}-{partition}"


def named(places: Sequence[tuple[str, int]]) -> list[str]:
    """Returns the names of the first `NAMED_MAX` partitions, for a log line."""
    names = [partition_name(*each) for each in places[:NAMED_MAX]]
    return names + ["..."] * (len(places) > NAMED_MAX)


def partition_of(directory: str) -> tuple[str, int] | None:
    """Returns the topic and partition number in a directory name; None if it is not the name of a
    partition's directory."""
    topic, dash, number = directory.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)


def partitions_of(topics: Mapping[str, Topic]) -> Iterator[tuple[Topic, int]]:
    for topic in topics.values():
        for partition in range(topic.partitions):
            yield topic, partition
