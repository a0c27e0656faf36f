"""What `/metrics` shows, read at scrape from the shards, the logs, the routes and the totals.

Nothing is counted here. Every name, its labels and its meaning stand in docs/metrics.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from broker.dispatch import SERVED
from broker.shard_log import Phase
from coordinator.states import State
from protocol.errors import NAMES

if TYPE_CHECKING:
    from broker.broker import Broker


class BrokerCollector(Collector):
    """Makes the series of one broker anew at each scrape."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def collect(self) -> Iterator[Metric]:
        """Yield every family of docs/metrics.md."""
        yield from self._requests()
        yield from self._groups()
        yield from self._offsets()
        yield from self._shards()
        yield from self._logs()
        yield from self._brokers()
        yield from self._partitions()
        yield from self._lag()

    def _requests(self) -> Iterator[Metric]:
        server = self.broker.server
        requests = CounterMetricFamily(
            "muster_requests_total", "Requests answered.", labels=["api", "error"]
        )
        for key, errors in server.errors.items():
            api = SERVED[key].api.name
            for code, count in errors.items():
                requests.add_metric([api, NAMES.get(code, str(code))], count)
        yield requests
        yield GaugeMetricFamily(
            "muster_connections", "Connections open now.", value=len(server.connections)
        )
        yield CounterMetricFamily(
            "muster_connections_refused_total",
            "Connections closed on arrival because a limit was reached.",
            value=server.refused,
        )

    def _groups(self) -> Iterator[Metric]:
        totals = self.broker.metrics
        states: Counter[str] = Counter({state.value: 0 for state in State})
        members = GaugeMetricFamily(
            "kafka_consumergroup_members", "Members of the group.", labels=["consumergroup"]
        )
        everybody = 0
        for host in self.broker.runtime.hosts:
            for group in host.shard.groups.values():
                states[group.state.value] += 1
                everybody += len(group.members)
                members.add_metric([group.group_id], len(group.members))
        groups = GaugeMetricFamily("muster_groups", "Groups by state.", labels=["state"])
        for state, count in states.items():
            groups.add_metric([state], count)
        yield groups
        yield members
        yield GaugeMetricFamily("muster_group_members", "Members of all groups.", value=everybody)
        rebalances = CounterMetricFamily(
            "muster_rebalances_total", "Rebalances begun.", labels=["cause"]
        )
        for cause, count in totals.rebalances.items():
            rebalances.add_metric([cause], count)
        yield rebalances
        yield CounterMetricFamily(
            "muster_generations_total",
            "Rebalances whose join phase ended with members.",
            value=totals.generations,
        )
        yield CounterMetricFamily(
            "muster_join_phase_seconds_total",
            "Time spent in join phases that ended with members.",
            value=totals.join_phase_ms / 1000,
        )

    def _offsets(self) -> Iterator[Metric]:
        totals = self.broker.metrics
        yield CounterMetricFamily(
            "muster_commits_total",
            "OffsetCommit requests handled by the coordinator.",
            value=self.broker.runtime.commits,
        )
        rejected = CounterMetricFamily(
            "muster_commits_rejected_total",
            "OffsetCommit requests refused as a whole.",
            labels=["error"],
        )
        for code, count in totals.commits_rejected.items():
            rejected.add_metric([NAMES.get(code, str(code))], count)
        yield rejected
        removed = CounterMetricFamily(
            "muster_offsets_removed_total",
            "Offsets dropped by retention, or with their group or topic.",
            labels=["cause"],
        )
        for cause, count in totals.offsets_removed.items():
            removed.add_metric([cause], count)
        yield removed
        yield GaugeMetricFamily(
            "muster_offsets_cached",
            "Committed offsets in the cache.",
            value=sum(host.shard.cache.offsets() for host in self.broker.runtime.hosts),
        )

    def _shards(self) -> Iterator[Metric]:
        hosts = self.broker.runtime.hosts
        phases = Counter({phase.value: 0 for phase in Phase})
        phases.update(host.phase.value for host in hosts)
        shards = GaugeMetricFamily(
            "muster_shards", "Partitions of the offsets topic by state.", labels=["state"]
        )
        for phase, count in phases.items():
            shards.add_metric([phase], count)
        yield shards
        yield GaugeMetricFamily(
            "muster_load_seconds",
            "How long it took to load the groups at start.",
            value=sum(max(0, host.load_ms) for host in hosts) / 1000,
        )
        yield GaugeMetricFamily(
            "muster_load_records",
            "Records read to load the groups at start.",
            value=sum(host.loaded_records for host in hosts),
        )

    def _logs(self) -> Iterator[Metric]:
        sizes = GaugeMetricFamily(
            "muster_log_size_bytes", "Size of the topic's segments.", labels=["topic"]
        )
        segments = GaugeMetricFamily(
            "muster_log_segments", "Number of the topic's segments.", labels=["topic"]
        )
        for topic, logs in self.broker.logs.by_topic():
            sizes.add_metric([topic], sum(log.size_bytes for log in logs))
            segments.add_metric([topic], sum(len(log.segments) for log in logs))
        yield sizes
        yield segments

    def _brokers(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("kafka_brokers", "Brokers in the cluster.", value=1)
        info = GaugeMetricFamily(
            "kafka_broker_info", "1 for each broker.", labels=["id", "address"]
        )
        host, port = self.broker.advertised
        info.add_metric([str(self.broker.registry.node_id), f"{host}:{port}"], 1)
        yield info

    def _partitions(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(
                f"kafka_topic_partition_{name}", meaning, labels=["topic", "partition"]
            )
            for name, meaning in _PARTITION_FAMILIES.items()
        }
        counts = GaugeMetricFamily(
            "kafka_topic_partitions", "Partitions of the topic.", labels=["topic"]
        )
        leader = self.broker.registry.node_id
        for topic, logs in self.broker.logs.by_topic():
            counts.add_metric([topic], len(logs))
            for log in logs:
                values = {
                    "current_offset": log.high_watermark,
                    "oldest_offset": log.log_start_offset,
                    "leader": leader,
                    "leader_is_preferred": 1,
                    "replicas": 1,
                    "in_sync_replica": 1,
                    "under_replicated_partition": 0,
                }
                for name, value in values.items():
                    families[name].add_metric([topic, str(log.partition)], value)
        yield counts
        yield from families.values()

    def _lag(self) -> Iterator[Metric]:
        labels = ["consumergroup", "topic", "partition"]
        committed = GaugeMetricFamily(
            "kafka_consumergroup_current_offset", "Committed offset.", labels=labels
        )
        lag = GaugeMetricFamily(
            "kafka_consumergroup_lag",
            "Records from the committed offset to the end.",
            labels=labels,
        )
        committed_sum = GaugeMetricFamily(
            "kafka_consumergroup_current_offset_sum",
            "Sum of the committed offsets.",
            labels=labels[:2],
        )
        lag_sum = GaugeMetricFamily(
            "kafka_consumergroup_lag_sum", "Sum of the lags.", labels=labels[:2]
        )
        for host in self.broker.runtime.hosts:
            for group_id in host.shard.cache.groups():
                for fetched in host.shard.cache.fetch_all(group_id):
                    behind = 0
                    for partition, offset in zip(fetched.partitions, fetched.offsets, strict=True):
                        where = [group_id, fetched.topic, str(partition)]
                        committed.add_metric(where, offset)
                        log = self.broker.logs.get(fetched.topic, partition)
                        if log is not None:
                            start = max(offset, log.log_start_offset)
                            unread = max(0, log.high_watermark - start)
                            lag.add_metric(where, unread)
                            behind += unread
                    committed_sum.add_metric([group_id, fetched.topic], sum(fetched.offsets))
                    lag_sum.add_metric([group_id, fetched.topic], behind)
        yield from (committed, lag, committed_sum, lag_sum)


_PARTITION_FAMILIES = {
    "current_offset": "End offset.",
    "oldest_offset": "Start offset.",
    "leader": "Broker id of the leader.",
    "leader_is_preferred": "1 if the leader is the preferred one.",
    "replicas": "Number of replicas.",
    "in_sync_replica": "Number of replicas in sync.",
    "under_replicated_partition": "1 if a replica is behind.",
}


def renderer(broker: Broker) -> CollectorRegistry:
    """Return a registry that holds the broker's collector alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(broker))
    return registry


def render(registry: CollectorRegistry) -> bytes:
    """Return the scrape in Prometheus' text format, version 0.0.4."""
    return generate_latest(registry)
