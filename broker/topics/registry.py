"""The registry: topics with their ids, settings and partitions.

`Registry` is the interface. `broker/topics/directory/embedded_registry.py` keeps it in files of the
data directory, for a standalone broker; in a cluster it has the controller's metadata and the
settings in ZooKeeper's nodes (`broker/cluster/topics/cluster_registry.py`). Handlers work with
either.
"""

from __future__ import annotations

import base64
import re
from asyncio import Future
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple, Protocol

from protocol.errors import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from protocol.slotted import slotted

OFFSETS_TOPIC = "__consumer_offsets"
NAME_LENGTH_MAX = 249
NAMED_MAX = 20
"""So many partitions are named in a line of the log."""
TRANSACTION_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, "__share_group_state"})
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@slotted(frozen=True)
class Topic:
    """One topic; replaced, never changed."""

    name: str
    topic_id: bytes
    """16 bytes; zero of a topic without an id, as brokers before Kafka 2.8 leave them."""
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings as texts; the rest is the broker's."""
    leader_epoch: int = 0

    @property
    def is_internal(self) -> bool:
        """Whether only the broker itself writes it."""
        return self.name in INTERNAL_TOPICS

    def with_configs(self, configs: Mapping[str, str]) -> Topic:
        """The same topic with other settings of its own."""
        return replace(self, configs=dict(configs))

    def with_partitions(self, partitions: int) -> Topic:
        """The same topic with more partitions."""
        return replace(self, partitions=partitions)


class DeletedTopic(NamedTuple):
    """A topic that was marked as deleted and of which something is left."""

    topic: Topic
    offsets_below: Mapping[int, int] | None = None
    """By partition of ``__consumer_offsets``: the log offset below which committed offsets of the
    name belong to this topic, and not to the one created since; finished partitions are left out.
    None while no other topic has the name: all offsets are this one's."""


class BrokerNode(NamedTuple):
    """A broker as clients see it, on the listener that they use."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Features(NamedTuple):
    """The features of every broker of the cluster (KIP-584)."""

    epoch: int
    """Higher with each change: clients believe the answer with the highest."""
    levels: Mapping[str, int]
    """By name; a feature of level 0 is off, and omitted."""


NO_FEATURES = Features(0, {})


OldOffset = tuple[str, str, int, int]
"""Group, topic, partition and offset."""
Place = tuple[str, int]
"""Topic and partition."""


class OldOffsets(Protocol):
    """The offsets of OffsetCommit and OffsetFetch v0, which Kafka keeps in ZooKeeper.

    `broker/topics/directory/consumer_paths.py` keeps them in a file,
    `broker/cluster/topics/consumer_paths.py` in ZooKeeper's consumer paths.
    """

    def keep(self, entries: list[OldOffset]) -> Future[Exception | None]:
        """Done when the offsets are kept, with None, or why they are not."""

    def fetch(self, group_id: str, places: Sequence[Place]) -> Future[Mapping[Place, int]]:
        """The last committed offsets; places without one are left out."""


class Registry(Protocol):
    """The lookups of handlers and logs; they are cheap."""

    @property
    def node_id(self) -> int:
        """This broker's id."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""

    @property
    def features(self) -> Features:
        """The levels that are finalized, and their epoch."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Every topic that clients may see, by name."""

    @property
    def partition_counts(self) -> Mapping[str, int]:
        """How many partitions each of `topics` has."""

    def topic(self, name: str) -> Topic | None:
        """The topic of that name, None if it does not exist."""

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id, None if it does not exist."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic of that id."""

    def topic_id(self, name: str) -> bytes | None:
        """The id of the topic of that name."""


class TopicLookups:
    """The lookups of a `Registry`, shared by its kinds; each kind fills its own topics."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.partition_counts: dict[str, int] = {}
        self._by_id: dict[bytes, Topic] = {}

    def topic(self, name: str) -> Topic | None:
        """See Registry."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """See Registry."""
        return self._by_id.get(topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        """See Registry."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> bytes | None:
        """See Registry."""
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id


class StoredRegistry(Registry, Protocol):
    """The registry of a standalone broker, which keeps topics and settings on its disk.

    Changes are durable when they return. A change that raises OSError has no effect, on the disk or
    in memory; after NotSettled its effect is unknown, and the broker stops. Only
    `broker/topics/topic_admin.py` changes it, one change at a time.
    """

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The settings changed at run time, as texts: by broker id, and by "" for every broker."""

    @property
    def dying(self) -> Mapping[str, DeletedTopic]:
        """Topics that were marked as deleted and not forgotten yet, by name."""

    def store(self, topic: Topic, offsets_below: Mapping[int, int] | None = None) -> None:
        """Writes a topic, new or changed, durably; the change is not visible yet.

        ``offsets_below`` is recorded for a deleted topic whose name a new one gets. May take long;
        called outside the event loop.
        """

    def show(self, topic: Topic) -> None:
        """Makes a stored topic visible, in place of what it was."""

    def take_back(self, name: str, before: Topic | None) -> None:
        """Undoes `store` of what was never shown: the topic is what it was ``before``.

        On the disk now or, after an OSError, with the next change. Outside the event loop.
        """

    def mark_deleted(self, name: str) -> None:
        """Writes, durably, that a topic is deleted; it stays visible. Outside the event loop."""

    def hide(self, name: str) -> None:
        """Makes a topic invisible that was marked."""

    def forget(self, topic: Topic) -> None:
        """Writes, durably, that nothing is left of a deleted topic. Outside the event loop.

        Nothing happens where another of its name has been deleted since.
        """

    def bound_offsets(self, name: str, offsets_below: Mapping[int, int]) -> None:
        """Writes, durably, other bounds of the offsets that a deleted topic has left."""

    def store_broker_configs(self, broker: str, configs: Mapping[str, str]) -> None:
        """Writes, durably, what was changed at run time for a broker ("": for every one).

        Outside the event loop.
        """

    def reserve_producer_ids(self, count: int) -> range:
        """Producer ids that were never given out and never will be again. Outside the loop."""


class BadDirectory(Exception):
    """The data directory cannot be used; the text is one sentence for the operator."""


class BadTopicName(ValueError):
    """A name that no topic may have; the text is Kafka's."""


def check_topic_name(name: str) -> None:
    """Raises BadTopicName for a name that Kafka refuses. Source: Kafka 3.9 ``Topic.validate``."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' or '..' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    else:
        return
    raise BadTopicName(f"Topic name is invalid: {problem}")


def colliding(name: str, topics: Mapping[str, Topic]) -> list[str]:
    """Topics whose names differ from ``name`` in nothing but '.' for '_': metrics mix them up."""
    if "." not in name and "_" not in name:
        return []
    plain = name.replace(".", "_")
    return [other for other in topics if other != name and other.replace(".", "_") == plain]


def uuid_text(uuid: bytes) -> str:
    """A UUID as Kafka writes it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of Kafka's text; ValueError for anything else."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not the text of a UUID")
    return raw


def absent_error(registry: Registry, topic: str, partition: int) -> int:
    """Why a partition is not served of which this broker has no replica."""
    known = registry.topic(topic)
    if known is None or not 0 <= partition < known.partitions:
        return UNKNOWN_TOPIC_OR_PARTITION
    return NOT_LEADER_OR_FOLLOWER


def partition_name(topic: str, partition: int) -> str:
    """The name of a partition and of its directory: ``topic-3``."""
    return f"{topic}-{partition}"


def named(places: Sequence[tuple[str, int]]) -> list[str]:
    """Some of many partitions, for a line of the log."""
    names = [partition_name(*each) for each in places[:NAMED_MAX]]
    return names + ["..."] * (len(places) > NAMED_MAX)


def partition_of(directory: str) -> tuple[str, int] | None:
    """Topic and partition of a directory's name, None if it does not name a partition."""
    topic, dash, number = directory.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)


def partitions_of(topics: Mapping[str, Topic]) -> Iterator[tuple[Topic, int]]:
    """Every partition of every topic."""
    for topic in topics.values():
        for partition in range(topic.partitions):
            yield topic, partition
