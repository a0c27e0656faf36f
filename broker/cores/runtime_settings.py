"""The settings of a runtime, from the configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.cores.hosted_shard import HostedShard
from broker.cores.pass_over import PassOver


@dataclass(frozen=True)
class RuntimeSettings:
    """What the runtime reads of the configuration, in plain values of Kafka's units."""

    core: Any
    """What the cores read, a `CoreConfig` of their own."""
    commit_timeout_ms: int = 5000
    """offsets.commit.timeout.ms"""
    commit_required_acks: int = -1
    """offsets.commit.required.acks; 0 answers commits before they are written"""
    load_buffer_bytes: int = 5242880
    """offsets.load.buffer.size"""
    load_skips: Mapping[int, Collection[int]] = field(default_factory=dict)
    """offsets.load.skip.records: by partition, the offsets of records that a load passes over"""
    compression: int = 0
    """offsets.topic.compression.codec"""
    compression_level: int | None = None
    """That of the topic's own compression.type; None for the codec's default"""
    timestamp_type: int = 0
    """The offsets topic's message.timestamp.type, as the bit of a batch"""
    append_linger_ms: int = 0
    """group.coordinator.append.linger.ms"""
    loads_at_once: int = 1
    """group.coordinator.threads"""

    def write_as(self, hosted: HostedShard[Any]) -> None:
        """Has the shard write batches in the form that these settings say."""
        hosted.write_as(self.compression, self.compression_level, self.timestamp_type)

    def pass_over(self, partition: int) -> PassOver | None:
        """What a load of this partition is to pass over."""
        offsets = self.load_skips.get(partition)
        return None if offsets is None else PassOver(partition, offsets)
