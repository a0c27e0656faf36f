"""The registry: topics with their ids, settings and partitions.

`Registry` is the interface of lookups. For a standalone broker,
`broker/topics/directory/embedded_registry.py` implements the interface in files of the data
directory; for a cluster, `broker/cluster/topics/cluster_registry.py` implements it from the
controller's metadata and the settings in ZooKeeper. Handlers work with both implementations.
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
    """One topic; immutable."""

    name: str
    topic_id: bytes
    """The topic id, 16 bytes; all bytes are zero for a topic without an id, which was created
    before Kafka 2.8."""
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings as text; the broker's defaults apply to all other settings."""
    leader_epoch: int = 0

    @property
    def is_internal(self) -> bool:
        """Returns True if only the broker itself may write to the topic."""
        return self.name in INTERNAL_TOPICS

    def with_configs(self, configs: Mapping[str, str]) -> Topic:
        """Returns a copy of the topic with the own settings ``configs``."""
        return replace(self, configs=dict(configs))

    def with_partitions(self, partitions: int) -> Topic:
        """Returns a copy of the topic with ``partitions`` partitions."""
        return replace(self, partitions=partitions)


class DeletedTopic(NamedTuple):
    """A topic that was marked as deleted and whose deletion is not complete."""

    topic: Topic
    offsets_below: Mapping[int, int] | None = None
    """For each partition of ``__consumer_offsets``: the log offset before which commits for the
    topic's name belong to this topic, and not to a newer topic of the same name. Partitions whose
    shard has dropped these commits are omitted. None if no newer topic exists."""


class BrokerNode(NamedTuple):
    """A broker's address on a listener, as clients see it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Features(NamedTuple):
    """The finalized features of the cluster (KIP-584)."""

    epoch: int
    """A number that increases with each change; clients use the levels with the highest epoch."""
    levels: Mapping[str, int]
    """The levels by feature name; features with level 0 are disabled and are omitted."""


NO_FEATURES = Features(0, {})


OldOffset = tuple[str, str, int, int]
"""A committed offset: group, topic, partition and offset."""
Place = tuple[str, int]
"""A partition: topic and partition number."""


class OldOffsets(Protocol):
    """The offsets of OffsetCommit and OffsetFetch v0, which Kafka stores in ZooKeeper.

    `broker/topics/directory/consumer_paths.py` stores these offsets in a file,
    `broker/cluster/topics/consumer_paths.py` in ZooKeeper's consumer paths.
    """

    def keep(self, entries: list[OldOffset]) -> Future[Exception | None]:
        """Stores offsets; the future's result is None, or the error if the offsets were not
        stored."""

    def fetch(self, group_id: str, places: Sequence[Place]) -> Future[Mapping[Place, int]]:
        """Returns the last committed offsets; partitions without a committed offset are omitted."""


OnChanged = Callable[[str, Topic | None], None]
"""A function that is called with the name of a topic and its new state; None if the topic was
deleted."""


def _ignore(_name: str, _topic: Topic | None) -> None:
    pass


class Registry(Protocol):
    """The lookups that handlers and logs need; every lookup is cheap."""

    @property
    def node_id(self) -> int:
        """The id of this broker."""

    @property
    def cluster_id(self) -> str:
        """The cluster id, which has 22 characters."""

    @property
    def features(self) -> Features:
        """The finalized feature levels and their epoch."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics that are visible to clients, by name."""

    @property
    def partition_counts(self) -> Mapping[str, int]:
        """The number of partitions of each topic in `topics`."""

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The settings that groups override, as text, by group id."""

    on_changed: OnChanged
    """A function that is called after each change of `topics`; the broker sets this attribute."""

    def topic(self, name: str) -> Topic | None:
        """Returns the topic with the name; None if it does not exist."""

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Returns the topic with the id; None if it does not exist."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of the topic with the id; None if it does not exist."""

    def topic_id(self, name: str) -> bytes | None:
        """Returns the id of the topic with the name; None if it does not exist."""


class TopicLookups:
    """The lookups that all implementations of `Registry` share."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.partition_counts: dict[str, int] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.on_changed: OnChanged = _ignore
        """A function that is called after each change of the topics that are visible to clients."""
        self._by_id: dict[bytes, Topic] = {}

    def topic(self, name: str) -> Topic | None:
        """Implements `Registry.topic`."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Implements `Registry.topic_by_id`."""
        return self._by_id.get(topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Implements `Registry.topic_name`."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> bytes | None:
        """Implements `Registry.topic_id`."""
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id


class StoredRegistry(Registry, Protocol):
    """The registry of a standalone broker, which stores topics and settings on its disk.

    Changes are durable when the methods return. A change that raises OSError has no effect on disk
    or in memory; after NotSettled it is unknown whether the change is on disk, and the broker
    stops. Only `broker/topics/topic_admin.py` changes the registry, one change at a time.
    """

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The dynamic broker configs as text, by broker id; the key "" is for the default of all
        brokers."""

    @property
    def dying(self) -> Mapping[str, DeletedTopic]:
        """The deleted topics for which `forget` has not been called, by name."""

    def store(self, topic: Topic, offsets_below: Mapping[int, int] | None = None) -> None:
        """Stores a new or changed topic durably; the topic is not visible until `show` is called.

        ``offsets_below`` is recorded for a deleted topic of the same name. The method blocks: it is
        called outside the event loop.
        """

    def show(self, topic: Topic) -> None:
        """Makes a stored topic visible; replaces its previous state."""

    def take_back(self, name: str, before: Topic | None) -> None:
        """Undoes a `store` for which `show` has not been called; ``before`` is the topic's previous
        state.

        After an OSError the next change undoes the `store` on disk. Called outside the event loop.
        """

    def mark_deleted(self, name: str) -> None:
        """Durably marks a topic as deleted; the topic remains visible.

        Called outside the event loop.
        """

    def hide(self, name: str) -> None:
        """Makes a topic invisible that is marked as deleted."""

    def forget(self, topic: Topic) -> None:
        """Durably removes a deleted topic's entry. Called outside the event loop.

        Does nothing if another topic of the same name has been deleted since then.
        """

    def bound_offsets(self, name: str, offsets_below: Mapping[int, int]) -> None:
        """Durably replaces the log offsets up to which offsets of a deleted topic must still be
        dropped."""

    def store_broker_configs(self, broker: str, configs: Mapping[str, str]) -> None:
        """Durably stores the dynamic configs of a broker, or of all brokers if ``broker`` is "".

        Called outside the event loop.
        """

    def store_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Durably stores the own settings of a group. Called outside the event loop."""

    def reserve_producer_ids(self, count: int) -> range:
        """Durably reserves new producer ids. Called outside the event loop."""


class BadDirectory(Exception):
    """Raised if the data directory can't be used; the text is one sentence for the operator."""


def colliding(name: str, topics: Mapping[str, Topic]) -> list[str]:
    """Returns the topics whose names collide in metrics with ``name``: names that differ only in
    '.' and '_'."""
    if "." not in name and "_" not in name:
        return []
    plain = name.replace(".", "_")
    return [other for other in topics if other != name and other.replace(".", "_") == plain]


def uuid_text(uuid: bytes) -> str:
    """Returns a UUID in Kafka's form: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Returns the 16 bytes of a UUID in Kafka's form; raises ValueError for any other text."""
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
    """Returns the names of at most `NAMED_MAX` partitions, for a log line."""
    names = [partition_name(*each) for each in places[:NAMED_MAX]]
    return names + ["..."] * (len(places) > NAMED_MAX)


def partition_of(directory: str) -> tuple[str, int] | None:
    """Returns the topic and partition that a directory name contains; None if the directory does
    not belong to a partition."""
    topic, dash, number = directory.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)


def partitions_of(topics: Mapping[str, Topic]) -> Iterator[tuple[Topic, int]]:
    """Yields all partitions of all topics."""
    for topic in topics.values():
        for partition in range(topic.partitions):
            yield topic, partition
