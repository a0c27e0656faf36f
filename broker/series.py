"""Series of which there is one a group, topic or partition: read and written in slices.

A broker may have hundreds of thousands of them, and answers nobody else while it writes one slice.
Lines are made here and not by prometheus_client, which takes 18 us a line where this takes 1.
Nothing is counted here; names, labels and meanings stand in docs/metrics.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from coordinator.states import State
from log.partition_log import PartitionLog
from offsets.cache import FetchedColumns

if TYPE_CHECKING:
    from broker.broker import Broker

SLICE_S = 0.004
"""How long one slice may hold the loop."""
LINES_PER_CHUNK = 1000
"""Lines that are made bytes together, so that no step at the end is as long as all of them."""


class Family:
    """The gauges of one name, in Prometheus' text format, version 0.0.4."""

    def __init__(self, name: str, meaning: str) -> None:
        self.name = name
        self._lines = [f"# HELP {name} {meaning}\n# TYPE {name} gauge\n"]
        self._chunks: list[bytes] = []

    def add(self, labels: str, value: int) -> None:
        """A series with ``labels`` as they are written between the braces."""
        lines = self._lines
        lines.append(f"{self.name}{{{labels}}} {value}\n")
        if len(lines) == LINES_PER_CHUNK:
            self._end_chunk()

    def chunks(self) -> list[bytes]:
        """All of it."""
        self._end_chunk()
        return self._chunks

    def _end_chunk(self) -> None:
        self._chunks.append("".join(self._lines).encode())
        self._lines.clear()


def label(name: str, value: str) -> str:
    """One label as it is written; ``value`` may hold anything."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'{name}="{escaped}"'


class Series:
    """One scrape's families, made by `collect`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.states: Counter[str] = Counter({state.value: 0 for state in State})
        """Groups by state."""
        self.everybody = 0
        """Members of all groups."""
        self._families: list[Family] = []
        self._members = self._family("kafka_consumergroup_members", "Members of the group.")
        self._committed = self._family("kafka_consumergroup_current_offset", "Committed offset.")
        self._committed_sum = self._family(
            "kafka_consumergroup_current_offset_sum", "Sum of the committed offsets."
        )
        self._lag = self._family(
            "kafka_consumergroup_lag", "Records from the committed offset to the end."
        )
        self._lag_sum = self._family("kafka_consumergroup_lag_sum", "Sum of the lags.")
        self._sizes = self._family("muster_log_size_bytes", "Size of the topic's segments.")
        self._segments = self._family("muster_log_segments", "Number of the topic's segments.")
        self._partitions = self._family("kafka_topic_partitions", "Partitions of the topic.")
        self._end = self._family("kafka_topic_partition_current_offset", "End offset.")
        self._start = self._family("kafka_topic_partition_oldest_offset", "Start offset.")
        self._leader = self._family(
            "kafka_topic_partition_leader", "Broker id of the partition's leader."
        )
        self._preferred = self._family(
            "kafka_topic_partition_leader_is_preferred", "1 if the leader is the preferred one."
        )
        self._replicas = self._family("kafka_topic_partition_replicas", "Number of replicas.")
        self._in_sync = self._family(
            "kafka_topic_partition_in_sync_replica", "Number of replicas in sync."
        )
        self._behind = self._family(
            "kafka_topic_partition_under_replicated_partition", "1 if a replica is behind."
        )

    def _family(self, name: str, meaning: str) -> Family:
        family = Family(name, meaning)
        self._families.append(family)
        return family

    async def collect(self) -> bytes:
        """All families; others get their turn between two slices.

        What changes meanwhile is seen as it was or as it is.
        """
        since = perf_counter()
        for step in (self._groups, self._offsets, self._topics):
            for _ in step():
                if perf_counter() - since > SLICE_S:
                    await asyncio.sleep(0)
                    since = perf_counter()
        return b"".join([chunk for family in self._families for chunk in family.chunks()])

    def _groups(self) -> Iterator[None]:
        for host in list(self.broker.runtime.hosts):
            for group in list(host.shard.groups.values()):
                self.states[group.state.value] += 1
                self.everybody += len(group.members)
                self._members.add(label("consumergroup", group.group_id), len(group.members))
                yield
            yield

    def _offsets(self) -> Iterator[None]:
        for host in list(self.broker.runtime.hosts):
            cache = host.shard.cache
            for group_id in list(cache.groups()):
                group = label("consumergroup", group_id)
                for fetched in cache.fetch_all(group_id):
                    self._add_offsets(group, fetched)
                    yield
            yield

    def _add_offsets(self, group: str, fetched: FetchedColumns) -> None:
        topic = label("topic", fetched.topic)
        logs = self.broker.logs
        behind = 0
        for partition, offset in zip(fetched.partitions, fetched.offsets, strict=True):
            labels = f'{group},partition="{partition}",{topic}'
            self._committed.add(labels, offset)
            log = logs.get(fetched.topic, partition)
            if log is not None:
                unread = max(0, log.high_watermark - max(offset, log.log_start_offset))
                self._lag.add(labels, unread)
                behind += unread
        self._committed_sum.add(f"{group},{topic}", sum(fetched.offsets))
        self._lag_sum.add(f"{group},{topic}", behind)

    def _topics(self) -> Iterator[None]:
        for name, logs in list(self.broker.logs.by_topic()):
            topic = label("topic", name)
            self._partitions.add(topic, len(logs))
            size = segments = 0
            for log in list(logs):
                size += log.size_bytes
                segments += len(log.segments)
                self._add_partition(topic, log)
                yield
            self._sizes.add(topic, size)
            self._segments.add(topic, segments)

    def _add_partition(self, topic: str, log: PartitionLog) -> None:
        labels = f'partition="{log.partition}",{topic}'
        self._end.add(labels, log.high_watermark)
        self._start.add(labels, log.log_start_offset)
        self._leader.add(labels, self.broker.registry.node_id)
        self._preferred.add(labels, 1)
        self._replicas.add(labels, 1)
        self._in_sync.add(labels, 1)
        self._behind.add(labels, 0)
