"""What `/metrics` shows, read at scrape from the shards, the logs, the routes and the totals.

Here are the families whose size does not grow with groups and topics; `broker/series.py` has the
others. Nothing is counted here. Every name, its labels and its meaning stand in docs/metrics.md.
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
from broker.series import Series
from broker.shard_log import Phase
from coordinator.expiring import DAY_MS, HOUR_MS
from protocol.errors import NAMES

if TYPE_CHECKING:
    from broker.broker import Broker


class BrokerCollector(Collector):
    """The families of one scrape; ``series`` has looked at every group already."""

    def __init__(self, broker: Broker, series: Series) -> None:
        self.broker = broker
        self.series = series

    def collect(self) -> Iterator[Metric]:
        """Yields each family."""
        yield from self._requests()
        yield from self._groups()
        yield from self._offsets()
        yield from self._shards()
        yield from self._conversions()
        yield from self._cleaning()
        yield from self._brokers()

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
        yield CounterMetricFamily(
            "muster_protocol_errors_total",
            "Connections closed because of what their peer sent.",
            value=server.protocol_errors,
        )

    def _groups(self) -> Iterator[Metric]:
        totals = self.broker.metrics
        groups = GaugeMetricFamily("muster_groups", "Groups by state.", labels=["state"])
        for state, count in self.series.states.items():
            groups.add_metric([state], count)
        yield groups
        yield GaugeMetricFamily(
            "muster_group_members", "Members of all groups.", value=self.series.everybody
        )
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
        yield CounterMetricFamily(
            "muster_commits_moved_back_total",
            "OffsetCommit requests that set an offset lower than it was.",
            value=totals.commits_moved_back,
        )
        expiring = GaugeMetricFamily(
            "muster_offsets_expiring",
            "Offsets that retention will drop within this time, as of its last checks.",
            labels=["within"],
        )
        soon: Counter[int] = Counter()
        for host in self.broker.runtime.hosts:
            soon.update(host.shard.expiring_counts())
        for label, within_ms in (("1d", DAY_MS), ("1h", HOUR_MS)):
            expiring.add_metric([label], soon[within_ms])
        yield expiring
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

    def _conversions(self) -> Iterator[Metric]:
        totals = self.broker.metrics
        conversions = CounterMetricFamily(
            "muster_record_conversions_total",
            "Records turned from one message format into another.",
            labels=["request"],
        )
        conversions.add_metric(["produce"], totals.produce_conversions)
        conversions.add_metric(["fetch"], totals.fetch_conversions)
        yield conversions

    def _cleaning(self) -> Iterator[Metric]:
        cleaning = self.broker.cleaning
        dirty = GaugeMetricFamily(
            "muster_log_dirty_bytes",
            "Bytes of the compacted topic that no cleaning has seen.",
            labels=["topic"],
        )
        for topic, logs in self.broker.logs.by_topic():
            if logs and logs[0].config.compacts:
                dirty.add_metric([topic], sum(cleaning.dirty_bytes(log) for log in logs))
        yield dirty
        for name, meaning, value in (
            ("muster_cleaner_runs_total", "Cleanings that ended well.", cleaning.runs),
            ("muster_cleaner_failures_total", "Cleanings that failed.", cleaning.failures),
            ("muster_cleaner_read_bytes_total", "Bytes that cleanings read.", cleaning.bytes_read),
            (
                "muster_cleaner_written_bytes_total",
                "Bytes that cleanings left of them.",
                cleaning.bytes_written,
            ),
        ):
            yield CounterMetricFamily(name, meaning, value=value)
        yield GaugeMetricFamily(
            "muster_cleaner_uncleanable_partitions",
            "Partitions whose last cleaning failed.",
            value=len(cleaning.troubles),
        )

    def _brokers(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("kafka_brokers", "Brokers in the cluster.", value=1)
        info = GaugeMetricFamily(
            "kafka_broker_info", "1 for each broker.", labels=["id", "address"]
        )
        host, port = self.broker.advertised
        info.add_metric([str(self.broker.registry.node_id), f"{host}:{port}"], 1)
        yield info


async def render(broker: Broker) -> bytes:
    """A scrape in Prometheus' text format, version 0.0.4."""
    series = Series(broker)
    grown = await series.collect()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(broker, series))
    return generate_latest(registry) + grown
