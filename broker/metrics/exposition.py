"""Writes `/metrics`, from the numbers that the shards, the logs, the server and the totals have at
a scrape.

This module writes the series whose number does not grow with groups and topics.
broker/metrics/labelled_series.py writes the other series. This module also orders all series, and
counts nothing itself. docs/operate/metrics.md lists every name with its labels and meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from broker.loop.log_writer import lost_lines
from broker.loop.pieces import NAMES as NAMES_OF_PIECES
from broker.metrics.cluster_look import ClusterLook
from broker.metrics.cluster_series import ClusterSeries
from broker.metrics.labelled_series import NativeView
from broker.metrics.other_exporters import compat_views, wants_look, wants_owners
from broker.metrics.scan import Scan
from broker.metrics.security_series import rights_families, security_families
from broker.metrics.shard_series import shard_families
from broker.metrics.share_series import ShareSeries
from broker.metrics.sources import Sources
from broker.metrics.text_format import Families, label
from broker.metrics.transaction_series import (
    add_completion,
    by_error,
    transaction_families,
)
from coordinator.classic.refused_joins import ERRORS as JOIN_ERRORS
from coordinator.commits import ERRORS as COMMIT_ERRORS
from coordinator.events import Cause
from coordinator.expiring import DAY_MS, HOUR_MS
from protocol.errors import (
    NAMES,
    NONE,
)
from protocol.messages import BY_KEY

REMOVING = (Cause.EXPIRED.value, Cause.DELETED.value)
"""The causes for which committed offsets are removed."""
# A counter with few label values exports all of them from the start, at 0: `rate` and `increase`
# miss the first event of a series that begins with that event.


class BrokerCollector(Collector):
    """Collects the metric families of one scrape. The caller must run ``scan`` first."""

    def __init__(self, sources: Sources, scan: Scan, families: Families) -> None:
        self.sources = sources
        self.scan = scan
        self.families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from rights_families(self.sources)
        yield from security_families(self.sources)
        yield from self._process()
        yield from self._groups()
        yield from self._offsets()
        yield from shard_families(self.sources)
        yield from transaction_families(self.sources, self.scan)
        yield from self._conversions()
        yield from self._cleaning()
        yield from self._brokers()
        yield from self._metrics()

    def _requests(self) -> Iterator[Metric]:
        server = self.sources.server
        requests = CounterMetricFamily(
            "muster_requests_total", "Requests answered.", labels=["api", "error"]
        )
        for key, errors in server.errors.items():
            api = BY_KEY[key].name
            for code, count in ({NONE: 0} | errors).items():
                requests.add_metric([api, NAMES.get(code, str(code))], count)
        yield requests
        traffic = server.clients.all(server.connections)
        yield GaugeMetricFamily(
            "muster_connections", "Open connections.", value=len(server.connections)
        )
        yield CounterMetricFamily(
            "muster_received_bytes_total", "Bytes received from clients.", value=traffic.bytes_in
        )
        yield CounterMetricFamily(
            "muster_sent_bytes_total", "Bytes sent to clients.", value=traffic.bytes_out
        )
        yield CounterMetricFamily(
            "muster_connections_refused_total",
            "Connections closed on arrival because a limit was reached.",
            value=server.refused + (rates.refused if (rates := server.listener_rates) else 0),
        )
        yield CounterMetricFamily(
            "muster_protocol_errors_total",
            "Connections closed because of an invalid request.",
            value=server.protocol_errors,
        )
        unsupported = CounterMetricFamily(
            "muster_unsupported_requests_total",
            "Requests that this broker does not support.",
            labels=["api"],
        )
        for table in BY_KEY.values():
            unsupported.add_metric([table.name], server.unsupported.counts[table.name])
        yield unsupported

    def _process(self) -> Iterator[Metric]:
        long_pieces = CounterMetricFamily(
            "muster_long_pieces_total",
            "Work that blocked the event loop for more than 20 ms.",
            labels=["work"],
        )
        counts = self.sources.watchdog.counts
        served = self.sources.server.served.values()
        for work in dict.fromkeys([*(row.api.name for row in served), *NAMES_OF_PIECES, *counts]):
            long_pieces.add_metric([work], counts.get(work, 0))
        yield long_pieces
        pause_detector = self.sources.pause_detector
        yield CounterMetricFamily(
            "muster_pauses_total", "Pauses of the broker's process.", value=pause_detector.pauses
        )
        yield CounterMetricFamily(
            "muster_pause_seconds_total",
            "Total length of the pauses of the broker's process.",
            value=pause_detector.paused_s,
        )
        yield CounterMetricFamily(
            "muster_log_lines_lost_total",
            "Log lines that could not be written.",
            value=lost_lines(),
        )
        internal = CounterMetricFamily(
            "muster_internal_errors_total", "Caught internal errors (bugs).", labels=["place"]
        )
        for place, count in self.sources.internal_errors.counts.items():
            internal.add_metric([place], count)
        yield internal

    def _groups(self) -> Iterator[Metric]:
        totals = self.sources.totals
        groups = GaugeMetricFamily("muster_groups", "Groups by state.", labels=["state"])
        for state, count in self.scan.states.items():
            groups.add_metric([state], count)
        yield groups
        yield GaugeMetricFamily(
            "muster_group_members", "Members of all groups.", value=self.scan.everybody
        )
        rebalances = CounterMetricFamily(
            "muster_rebalances_total", "Rebalances started.", labels=["cause"]
        )
        for cause, count in ({cause.value: 0 for cause in Cause} | totals.rebalances).items():
            rebalances.add_metric([cause], count)
        yield rebalances
        yield by_error(
            "muster_joins_refused_total",
            "JoinGroup requests refused.",
            dict.fromkeys(JOIN_ERRORS, 0) | totals.joins_refused,
        )
        yield CounterMetricFamily(
            "muster_generations_total",
            "Generations formed: join phases that ended with at least one member.",
            value=totals.generations,
        )
        yield CounterMetricFamily(
            "muster_join_phase_seconds_total",
            "Time spent in join phases that ended with at least one member.",
            value=totals.join_phase_ms / 1000,
        )

    def _offsets(self) -> Iterator[Metric]:
        totals = self.sources.totals
        yield CounterMetricFamily(
            "muster_commits_total",
            "OffsetCommit requests handled by the coordinator.",
            value=self.sources.groups.counted,
        )
        yield by_error(
            "muster_commits_rejected_total",
            "OffsetCommit requests that were refused, completely or only for offsets with too long"
            " metadata.",
            dict.fromkeys(COMMIT_ERRORS, 0) | totals.commits_rejected,
        )
        removed = CounterMetricFamily(
            "muster_offsets_removed_total",
            "Committed offsets that expired or were deleted, including the offsets of"
            " deleted groups and topics.",
            labels=["cause"],
        )
        for cause, count in (dict.fromkeys(REMOVING, 0) | totals.offsets_removed).items():
            removed.add_metric([cause], count)
        yield removed
        yield CounterMetricFamily(
            "muster_commits_moved_back_total",
            "OffsetCommit requests that moved an offset back.",
            value=totals.commits_moved_back,
        )
        expiring = GaugeMetricFamily(
            "muster_offsets_expiring",
            "Committed offsets that expire within the time in the label, as of the last check.",
            labels=["within"],
        )
        soon: Counter[int] = Counter()
        for hosted in self.sources.groups.hosted_shards:
            soon.update(hosted.core.view.expiring_counts())
        for within, within_ms in (("1d", DAY_MS), ("1h", HOUR_MS)):
            expiring.add_metric([within], soon[within_ms])
        yield expiring
        yield GaugeMetricFamily(
            "muster_offsets_cached",
            "Committed offsets in the cache.",
            value=sum(
                hosted.core.view.offsets.count() for hosted in self.sources.groups.hosted_shards
            ),
        )

    def _conversions(self) -> Iterator[Metric]:
        totals = self.sources.totals
        conversions = CounterMetricFamily(
            "muster_record_conversions_total",
            "Records converted to another message format.",
            labels=["request"],
        )
        conversions.add_metric(["produce"], totals.produce_conversions)
        conversions.add_metric(["fetch"], totals.fetch_conversions)
        yield conversions

    def _cleaning(self) -> Iterator[Metric]:
        cleaning = self.sources.cleaning
        yield GaugeMetricFamily(
            "muster_logs_poisoned", "Logs that accept no writes.", value=self.scan.poisoned
        )
        for name, meaning, value in (
            ("muster_cleaner_runs_total", "Completed runs of the log cleaner.", cleaning.runs),
            ("muster_cleaner_failures_total", "Failed runs of the log cleaner.", cleaning.failures),
            (
                "muster_cleaner_read_bytes_total",
                "Bytes that the cleaner read.",
                cleaning.bytes_read,
            ),
            (
                "muster_cleaner_written_bytes_total",
                "Bytes that the cleaner wrote.",
                cleaning.bytes_written,
            ),
        ):
            yield CounterMetricFamily(name, meaning, value=value)
        yield GaugeMetricFamily(
            "muster_cleaner_busy",
            "Partitions that are being cleaned.",
            value=sum(worker.busy for worker in cleaning.workers),
        )
        yield GaugeMetricFamily(
            "muster_cleaner_uncleanable_partitions",
            "Partitions whose last cleaning failed.",
            value=len(cleaning.troubles),
        )

    def _brokers(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "kafka_broker_info", "Always 1; the labels name each broker.", labels=["id", "address"]
        )
        listener = self.sources.advertised.endpoints[0].name
        brokers = self.sources.cluster.brokers(listener)
        for each in brokers:
            info.add_metric([str(each.node_id), f"{each.host}:{each.port}"], 1)
        yield GaugeMetricFamily("kafka_brokers", "Brokers in the cluster.", value=len(brokers))
        yield info

    def _metrics(self) -> Iterator[Metric]:
        lags = self.sources.lags
        yield GaugeMetricFamily(
            "muster_metrics_series_left_out",
            "Series omitted because metrics.series.max is reached.",
            value=self.families.left_out,
        )
        yield GaugeMetricFamily(
            "muster_metrics_members_left_out",
            "Members without a series for their lag, because their assignment is too long.",
            value=self.scan.assignments_left_out,
        )
        yield CounterMetricFamily(
            "muster_lag_lookups_total",
            "Timestamps of records that were looked up to compute the lag in seconds.",
            value=lags.times.lookups,
        )
        yield GaugeMetricFamily(
            "muster_lag_lookups_waiting", "Pending timestamp lookups.", value=lags.times.waiting
        )


NANOSECONDS = 1_000_000_000
_TIME_BITS = (14, 35)
"""The bounds of the first and of the last exported bucket, as powers of 2 in nanoseconds: 2^14 ns
(16 us) and 2^35 ns (34 s)."""
_COUNT_BITS = (0, 13)
_PHASE_BITS = (3, 19)
"""The first and last exported bound are 2 to these powers, in milliseconds: 8 ms and 9 minutes."""


def add_histograms(sources: Sources, families: Families) -> None:
    """Adds the histograms of requests, turns, writes and rebalances. An API that has received no
    request has no histogram."""
    requests = families.family(
        "muster_request_seconds", "Time from the arrival of a request to its response.", "histogram"
    )
    for key, times in sources.server.times.items():
        if times.total:
            api = label("api", BY_KEY[key].name)
            requests.add_histogram(api, times, *_TIME_BITS, NANOSECONDS)
    turns = families.family(
        "muster_turn_seconds", "Time to complete a turn of the event loop.", "histogram"
    )
    for name, coordinator in (
        ("groups", sources.groups),
        ("transactions", sources.transactions),
        ("share_states", sources.share_states),
    ):
        turns.add_histogram(label("coordinator", name), coordinator.turns, *_TIME_BITS, NANOSECONDS)
    totals = sources.totals
    by_log = {
        "offsets": totals.offsets_writes,
        "transactions": totals.transaction_writes,
        "share_states": totals.share_state_writes,
        "topics": totals.writes,
    }
    appends = families.family("muster_append_seconds", "Duration of appends to logs.", "histogram")
    records = families.family("muster_append_records", "Records per append.", "histogram")
    fsyncs = families.family("muster_fsync_seconds", "Duration of fsyncs of logs.", "histogram")
    for name, writes in by_log.items():
        log = label("log", name)
        appends.add_histogram(log, writes.append, *_TIME_BITS, NANOSECONDS)
        records.add_histogram(log, writes.records, *_COUNT_BITS, 1)
        fsyncs.add_histogram(log, writes.fsync, *_TIME_BITS, NANOSECONDS)
    phases = families.family(
        "muster_rebalance_phase_seconds", "Duration of completed rebalance phases.", "histogram"
    )
    for phase, lengths in sources.totals.phases.items():
        phases.add_histogram(label("phase", phase), lengths, *_PHASE_BITS, 1000)


async def render(sources: Sources) -> AsyncIterator[bytes]:
    """Runs a scrape, and yields its text in chunks. The format is Prometheus' text format, version
    0.0.4."""
    families = Families(sources.config["metrics.series.max"])
    native = NativeView(sources, families)
    look = ClusterLook(sources)
    others = compat_views(sources, families, look)
    looked = [look] if sources.member is not None or wants_look(others) else []
    scan = Scan(sources, [native, *others, *looked], wants_owners(others))
    await scan.run()
    await scan.in_slices(look.fetchers())
    await scan.in_slices(ShareSeries(sources, families).steps())
    for each in others:
        each.end(scan)
    if sources.member is not None:
        ClusterSeries(sources.member, look, families).write()
    add_histograms(sources, families)
    add_completion(sources, families)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(sources, scan, families))
    ProcessCollector(registry=registry)
    yield generate_latest(registry)
    for chunk in families.chunks():
        yield chunk
