"""The settings of a runtime of cores, derived from the broker's configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.cores.hosted_shard import HostedShard
from broker.cores.pass_over import PassOver


@dataclass(frozen=True)
class RuntimeSettings:
    """The settings of a runtime, as plain values in Kafka's units."""

    core: Any
    """The settings of each core. The kind of core determines their class; see `CoreConfig`."""
    stable_timeout_ms: int = 5000
    """The maximum time in ms that a reply waits until its records are stable."""
    answers_early: bool = False
    """True if calls of the type `Kind.counted` are answered before their records are written."""
    load_buffer_bytes: int = 5242880
    """The number of bytes that a load reads from the log at a time."""
    load_skips: Mapping[int, Collection[int]] = field(default_factory=dict)
    """The log offsets of records that a load skips, by partition."""
    compression: int = 0
    """The compression codec of the batches that a shard writes."""
    compression_level: int | None = None
    """The compression level of the topic's own compression.type; None for the codec's default
    level."""
    timestamp_type: int = 0
    """The topic's message.timestamp.type, as the value of the bit in a batch's attributes."""
    magic: int = 2
    """The magic of the batches; below 2 in a cluster with brokers that do not support magic 2."""
    encode: Callable[[Any, int], bytes] | None = None
    """A function that encodes runs, instead of `Kind.encode`. None means `Kind.encode`."""
    append_linger_ms: int = 0
    """The time in ms by which the end of a turn is delayed, so that records of later requests are
    appended with the same write."""
    loads_at_once: int = 1
    """The maximum number of shards that are loaded at the same time."""

    def write_as(self, hosted: HostedShard[Any]) -> None:
        """Sets the format of the batches that the shard writes."""
        hosted.write_as(
            self.compression,
            self.compression_level,
            self.timestamp_type,
            self.magic,
            self.encode,
        )

    def pass_over(self, topic: str, partition: int) -> PassOver | None:
        """Returns the records that a load of the partition skips; None if it skips none."""
        offsets = self.load_skips.get(partition)
        return None if offsets is None else PassOver(topic, partition, offsets)


def load_skips(words: str) -> dict[int, set[int]]:
    """Returns the log offsets of records to skip, by partition, from a setting such as
    `offsets.load.skip.records`."""
    skips: dict[int, set[int]] = {}
    for word in filter(None, words.split(",")):
        place, offset = word.rsplit(":", 1)
        skips.setdefault(int(place.rsplit("-", 1)[1]), set()).add(int(offset))
    return skips
