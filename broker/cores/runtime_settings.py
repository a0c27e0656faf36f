"""The settings of a runtime, from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.cores.hosted_shard import HostedShard
from broker.cores.pass_over import PassOver


@dataclass(frozen=True)
class RuntimeSettings:
    """The settings of the runtime, as plain values in Kafka's units."""

    core: Any
    """The settings of the cores: the `CoreConfig` of their kind."""
    stable_timeout_ms: int = 5000
    """The maximum time in ms for which replies wait until their records are stable."""
    answers_early: bool = False
    """True if calls of the kind's counted type are answered before their records are written."""
    load_buffer_bytes: int = 5242880
    """The number of bytes that a load reads at a time."""
    load_skips: Mapping[int, Collection[int]] = field(default_factory=dict)
    """The offsets of the records that a load skips, by partition."""
    compression: int = 0
    """The compression codec of the batches."""
    compression_level: int | None = None
    """The compression level of the topic's own compression.type; None for the codec's default
    level."""
    timestamp_type: int = 0
    """The topic's message.timestamp.type, as the value of the bit in a batch."""
    magic: int = 2
    """The magic of the batches; below 2 in a cluster with brokers that do not support magic 2."""
    encode: Callable[[Any, int], bytes] | None = None
    """The encoder of runs for this topic; None for the kind's encoder."""
    append_linger_ms: int = 0
    """The time in ms for which a turn waits for more records."""
    loads_at_once: int = 1
    """The maximum number of shards that are loaded at the same time."""

    def write_as(self, hosted: HostedShard[Any]) -> None:
        """Sets the form of the shard's batches."""
        hosted.write_as(
            self.compression,
            self.compression_level,
            self.timestamp_type,
            self.magic,
            self.encode,
        )

    def pass_over(self, topic: str, partition: int) -> PassOver | None:
        """Returns the records that a load of this partition skips."""
        offsets = self.load_skips.get(partition)
        return None if offsets is None else PassOver(topic, partition, offsets)


def load_skips(words: str) -> dict[int, set[int]]:
    """Parses a property such as `offsets.load.skip.records`; returns the offsets of records to
    skip, by partition."""
    skips: dict[int, set[int]] = {}
    for word in filter(None, words.split(",")):
        place, offset = word.rsplit(":", 1)
        skips.setdefault(int(place.rsplit("-", 1)[1]), set()).add(int(offset))
    return skips
