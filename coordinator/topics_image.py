"""The topics of the cluster, as the group coordinator sees them.

All shards of a broker share one image. The broker changes the image between two calls, and then
passes the name of the changed topic to each shard. The coordinator identifies topics by id: a topic
that is deleted and created again has another id, and counts as another topic. A topic without an id
(inter.broker.protocol.version below 2.8) is not in the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import xxhash


class Topic(NamedTuple):
    """One topic of the image: its name, id and partitions."""

    topic_id: bytes
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    """The sorted racks of each partition's replicas; empty if no broker has a rack."""


class TopicsImage:
    """All topics of the cluster that have an id, by name."""

    __slots__ = ("_by_name", "_hashes", "_names", "created", "is_complete", "version")

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        self._by_name: dict[str, Topic] = {topic.name: topic for topic in topics}
        self._names = {topic.topic_id: topic.name for topic in self._by_name.values()}
        self._hashes: dict[bytes, tuple[Topic, bytes]] = {}
        """Cached hashes of topics to which groups subscribe, by topic id. Each value is the topic
        from which a hash was computed, and the hash."""
        self.is_complete = True
        """False while the cluster may have topics that are not in the image yet."""
        self.version = 0
        """The number of changes of topics since the broker started."""
        self.created = 0
        """The value of ``version`` directly after the last creation of a topic."""

    @property
    def by_name(self) -> Mapping[str, Topic]:
        return self._by_name

    @property
    def names(self) -> Mapping[bytes, str]:
        return self._names

    def put(self, topic: Topic) -> None:
        """Adds a topic. A topic with the same name is replaced."""
        self.version += 1
        before = self._by_name.get(topic.name)
        if before is None:
            self.created = self.version
        elif before.topic_id != topic.topic_id:
            self._forget(before.topic_id)
        self._by_name[topic.name] = topic
        self._names[topic.topic_id] = topic.name

    def remove(self, name: str) -> None:
        """Removes a deleted topic. Has no effect for an unknown name."""
        self.version += 1
        topic = self._by_name.pop(name, None)
        if topic is not None:
            self._forget(topic.topic_id)

    def _forget(self, topic_id: bytes) -> None:
        del self._names[topic_id]
        self._hashes.pop(topic_id, None)

    def existing(self, names: Iterable[str]) -> list[Topic]:
        """Returns the existing topics among ``names``, ordered by name."""
        by_name = self.by_name
        return [by_name[name] for name in sorted(names) if name in by_name]

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Returns the hash of the existing topics among ``names``, as int64; 0 if none of them
        exists.

        The hash is XXH3-64 over the topics' hashes in order of name (KIP-1101). A topic's hash
        covers its id, name, partitions and racks. Source: Kafka 4.3.1 ``Utils.computeGroupHash``.
        """
        topics = self.existing(names)
        if not topics:
            return 0
        hashes = b"".join([self._hash(topic) for topic in topics])
        return _signed(xxhash.xxh3_64_intdigest(hashes))

    def _hash(self, topic: Topic) -> bytes:
        kept = self._hashes.get(topic.topic_id)
        if kept is None or kept[0] is not topic:
            kept = topic, _hash(topic).to_bytes(8, "little")
            self._hashes[topic.topic_id] = kept
        return kept[1]


def _hash(topic: Topic) -> int:
    """Returns the XXH3-64 of these bytes: byte 0, the two halves of the topic id, the name in
    UTF-16, and each partition with its racks."""
    name = topic.name.encode("utf-16-le")
    parts = [
        b"\0",
        topic.topic_id[7::-1],
        topic.topic_id[:7:-1],
        name,
        (len(name) // 2).to_bytes(4, "little"),
        topic.partitions.to_bytes(4, "little"),
    ]
    for partition in range(topic.partitions):
        parts.append(partition.to_bytes(4, "little"))
        for rack in topic.racks[partition] if topic.racks else ():
            text = rack.encode("utf-16-le")
            parts += ((len(text) // 2).to_bytes(4, "little"), text)
    return xxhash.xxh3_64_intdigest(b"".join(parts))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
