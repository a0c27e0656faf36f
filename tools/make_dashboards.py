"""Writes dashboards/grafana/*.json from the description in this file (`make dashboards`).

A dashboard is a list of rows, and a row is a list of adjacent panels. A panel has a title, a unit
and queries. Every query is limited to ``$instance``; docs/operate/metrics.md describes the series.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from verdicts.names import Verdict

FOLDER = Path(__file__).parents[1] / "dashboards" / "grafana"
WIDTH = 24
HEIGHT = 8


class Panel(NamedTuple):
    """A panel of a dashboard. ``queries`` are pairs of expression and legend.

    ``kind`` is a panel type of Grafana, or "word", which shows only the legend of a single series.
    A table has one column per query, with the legend as its title. Its rows are sorted by the first
    column, highest values first.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


class Dashboard(NamedTuple):
    """A dashboard. ``variables`` are pairs of name and query.

    Each dashboard also has variables for the data source and the instance. ``instances`` is the
    query that lists the instances.
    """

    name: str
    title: str
    rows: tuple[tuple[Panel, ...], ...]
    variables: tuple[tuple[str, str], ...] = ()
    instances: str = "label_values(kafka_brokers, instance)"


ME = 'instance=~"$instance"'
GROUP = f'{ME},consumergroup=~"$group"'
RATE = "[$__rate_interval]"


def one(title: str, unit: str, query: str, legend: str = "", kind: str = "timeseries") -> Panel:
    return Panel(title, unit, ((query, legend),), kind)


def quantiles(title: str, histogram: str, by: str, where: str = ME, unit: str = "s") -> Panel:
    """Returns a panel with the median and the 99th percentile of a histogram."""
    labels = ", ".join(filter(None, (by, "le")))
    legend = f"{{{{{by}}}}} " if by else ""
    return Panel(
        title,
        unit,
        tuple(
            (
                f"histogram_quantile({share}, sum by ({labels})"
                f" (rate({histogram}_bucket{{{where}}}{RATE})))",
                f"{legend}{name}",
            )
            for share, name in ((0.5, "median"), (0.99, "p99"))
        ),
    )


WORST_FIRST = list(Verdict)


def ranked(where: str) -> str:
    """Returns a query that shows the verdicts of groups as numbers. A worse verdict has a higher
    number."""
    return " or ".join(
        f'{len(WORST_FIRST) - rank} * muster_group_verdict{{{where},verdict="{verdict}"}}'
        for rank, verdict in enumerate(WORST_FIRST)
    )


OVERVIEW = Dashboard(
    "overview",
    "Muster: overview",
    (
        (
            one("Broker responds", "bool_yes_no", f"min(up{{{ME}}})", kind="stat"),
            one("Groups", "short", f"sum(muster_groups{{{ME}}})", kind="stat"),
            one("Members", "short", f"sum(muster_group_members{{{ME}}})", kind="stat"),
            one("Connections", "short", f"sum(muster_connections{{{ME}}})", kind="stat"),
            one(
                "Lag in records", "short", f"sum(kafka_consumergroup_lag_sum{{{ME}}})", kind="stat"
            ),
            one("Loaded", "percentunit", f"min(muster_load_progress_ratio{{{ME}}})", kind="stat"),
            one("Poisoned logs", "short", f"sum(muster_logs_poisoned{{{ME}}})", kind="stat"),
        ),
        (
            one(
                "Requests per second",
                "reqps",
                f"sum by (api) (rate(muster_requests_total{{{ME}}}{RATE}))",
                "{{api}}",
            ),
            one(
                "Bytes per second",
                "Bps",
                f"rate(muster_received_bytes_total{{{ME}}}{RATE})",
                "in",
            )._replace(
                queries=(
                    (f"rate(muster_received_bytes_total{{{ME}}}{RATE})", "in"),
                    (f"rate(muster_sent_bytes_total{{{ME}}}{RATE})", "out"),
                )
            ),
        ),
        (
            one(
                "Groups by verdict",
                "short",
                f"sum by (verdict) (muster_group_verdict{{{ME}}})",
                "{{verdict}}",
            ),
            one("Broker responds", "bool_yes_no", f"up{{{ME}}}", "{{instance}}"),
        ),
        (
            one(
                "CPU",
                "percentunit",
                f"rate(process_cpu_seconds_total{{{ME}}}{RATE})",
                "{{instance}}",
            ),
            one("Memory", "bytes", f"process_resident_memory_bytes{{{ME}}}", "{{instance}}"),
        ),
        (
            one(
                "Largest lag in seconds",
                "s",
                f"topk(10, max by (consumergroup) (muster_consumergroup_lag_seconds_max{{{ME}}}))",
                "{{consumergroup}}",
            ),
            one(
                "Largest lag in records",
                "short",
                f"topk(10, sum by (consumergroup) (kafka_consumergroup_lag_sum{{{ME}}}))",
                "{{consumergroup}}",
            ),
        ),
    ),
)

GROUPS = Dashboard(
    "groups",
    "Muster: groups",
    (
        (
            Panel(
                "Groups, worst first",
                "short",
                (
                    (f"topk(100, {ranked(ME)})", "Severity"),
                    (
                        f"sum by (instance, consumergroup) (kafka_consumergroup_lag_sum{{{ME}}})",
                        "Lag in records",
                    ),
                    (
                        "max by (instance, consumergroup)"
                        f" (muster_consumergroup_lag_seconds_max{{{ME}}})",
                        "Lag in seconds",
                    ),
                ),
                kind="table",
            ),
        ),
        (
            one("Groups by state", "short", f"sum by (state) (muster_groups{{{ME}}})", "{{state}}"),
            one(
                "Rebalances per minute, by cause",
                "short",
                f"60 * sum by (cause) (rate(muster_rebalances_total{{{ME}}}{RATE}))",
                "{{cause}}",
            ),
        ),
        (
            quantiles(
                "Duration of rebalances, by phase", "muster_rebalance_phase_seconds", "phase"
            ),
            one(
                "Generations in 10 minutes",
                "short",
                "topk(10, sum by (consumergroup)"
                f" (delta(muster_consumergroup_generation{{{ME}}}[10m])))",
                "{{consumergroup}}",
            ),
        ),
        (
            one("Commits per second", "short", f"sum(rate(muster_commits_total{{{ME}}}{RATE}))"),
            one(
                "Commits refused per second, by error",
                "short",
                f"sum by (error) (rate(muster_commits_rejected_total{{{ME}}}{RATE}))",
                "{{error}}",
            ),
            one(
                "Joins refused per minute, by error",
                "short",
                f"60 * sum by (error) (rate(muster_joins_refused_total{{{ME}}}{RATE}))",
                "{{error}}",
            ),
            one(
                "Commits that moved offsets back per minute",
                "short",
                f"60 * sum(rate(muster_commits_moved_back_total{{{ME}}}{RATE}))",
            ),
        ),
        (
            one(
                "Longest time in a rebalance",
                "s",
                "topk(10, max by (consumergroup, state) (muster_consumergroup_state_seconds"
                f'{{{ME},state=~".*Rebalance"}})) or vector(0)',
                "{{consumergroup}} {{state}}",
            ),
            one(
                "Time until offsets expire",
                "s",
                "bottomk(10, min by (consumergroup)"
                f" (muster_consumergroup_offsets_expire_seconds{{{ME}}}))",
                "{{consumergroup}}",
            ),
        ),
    ),
)

ONE_GROUP = Dashboard(
    "group",
    "Muster: one group",
    (
        (
            one("Verdict", "short", f"muster_group_verdict{{{GROUP}}}", "{{verdict}}", kind="word"),
            one("Members", "short", f"kafka_consumergroup_members{{{GROUP}}}", kind="stat"),
            one("Generation", "short", f"muster_consumergroup_generation{{{GROUP}}}", kind="stat"),
            one(
                "Time in the present state",
                "s",
                f"muster_consumergroup_state_seconds{{{GROUP}}}",
                "{{state}}",
                kind="stat",
            ),
            one(
                "Time since the last commit",
                "s",
                f"min(muster_consumergroup_commit_age_seconds{{{GROUP}}})",
                kind="stat",
            ),
        ),
        (
            one(
                "Lag in records, by topic",
                "short",
                f"kafka_consumergroup_lag_sum{{{GROUP}}}",
                "{{topic}}",
            ),
            one(
                "Lag in seconds, by topic",
                "s",
                f"muster_consumergroup_lag_seconds_max{{{GROUP}}}",
                "{{topic}}",
            ),
        ),
        (
            Panel(
                "Records produced and committed per second",
                "short",
                (
                    (
                        f"sum by (topic) (rate(kafka_topic_partition_current_offset{{{ME}}}{RATE}))"
                        f" and on (topic) sum by (topic) (kafka_consumergroup_lag_sum{{{GROUP}}})",
                        "produced {{topic}}",
                    ),
                    (
                        "sum by (topic)"
                        f" (rate(kafka_consumergroup_current_offset{{{GROUP}}}{RATE}))",
                        "committed {{topic}}",
                    ),
                ),
            ),
            one(
                "Lag in records, by member",
                "short",
                f"muster_consumergroup_member_lag{{{GROUP}}}",
                "{{member}} {{host}}",
            ),
        ),
        (
            one(
                "Lag in records, by partition",
                "short",
                f"kafka_consumergroup_lag{{{GROUP}}}",
                "{{topic}} {{partition}}",
            ),
            one(
                "Lag in seconds, by partition",
                "s",
                f"muster_consumergroup_lag_seconds{{{GROUP}}}",
                "{{topic}} {{partition}}",
            ),
        ),
    ),
    (("group", f"label_values(kafka_consumergroup_members{{{ME}}}, consumergroup)"),),
)

LOG = Dashboard(
    "log",
    "Muster: log",
    (
        (
            quantiles("Duration of appends", "muster_append_seconds", "log"),
            quantiles("Records per append", "muster_append_records", "log", unit="short"),
            one(
                "Flushes per second",
                "short",
                f"sum by (log) (rate(muster_fsync_seconds_count{{{ME}}}{RATE}))",
                "{{log}}",
            ),
        ),
        (
            one("Size", "bytes", f"topk(20, muster_log_size_bytes{{{ME}}})", "{{topic}}"),
            one("Segments", "short", f"topk(20, muster_log_segments{{{ME}}})", "{{topic}}"),
        ),
        (
            one(
                "Bytes produced per second",
                "Bps",
                f"topk(20, rate(muster_topic_bytes_in_total{{{ME}}}{RATE}))",
                "{{topic}}",
            ),
            one(
                "Bytes consumed per second",
                "Bps",
                f"topk(20, rate(muster_topic_bytes_out_total{{{ME}}}{RATE}))",
                "{{topic}}",
            ),
        ),
        (
            one("Dirty bytes", "bytes", f"muster_log_dirty_bytes{{{ME}}}", "{{topic}}"),
            one("Cleanings", "short", f"increase(muster_cleaner_runs_total{{{ME}}}{RATE})"),
            one(
                "Uncleanable partitions",
                "short",
                f"muster_cleaner_uncleanable_partitions{{{ME}}}",
            ),
        ),
        (
            one("Cached committed offsets", "short", f"muster_offsets_cached{{{ME}}}"),
            one("Time to load", "s", f"muster_load_seconds{{{ME}}}"),
            one("Loaded", "percentunit", f"muster_load_progress_ratio{{{ME}}}"),
        ),
    ),
)

REQUESTS = Dashboard(
    "requests",
    "Muster: requests",
    (
        (
            one(
                "Requests per second",
                "reqps",
                f"sum by (api) (rate(muster_requests_total{{{ME}}}{RATE}))",
                "{{api}}",
            ),
            one(
                "Errors per second",
                "reqps",
                f'sum by (api, error) (rate(muster_requests_total{{{ME},error!="NONE"}}{RATE}))',
                "{{api}} {{error}}",
            ),
        ),
        (
            quantiles("Request time", "muster_request_seconds", "api"),
            quantiles("Turn completion time", "muster_turn_seconds", ""),
        ),
        (
            one("Connections", "short", f"muster_connections{{{ME}}}"),
            Panel(
                "Connections refused, or closed after invalid requests, per second",
                "short",
                (
                    (f"rate(muster_connections_refused_total{{{ME}}}{RATE})", "refused"),
                    (f"rate(muster_protocol_errors_total{{{ME}}}{RATE})", "invalid"),
                ),
            ),
        ),
        (
            one("Omitted series", "short", f"muster_metrics_series_left_out{{{ME}}}"),
            one("Pending timestamp lookups", "short", f"muster_lag_lookups_waiting{{{ME}}}"),
        ),
    ),
)

TRANSACTIONS = Dashboard(
    "transactions",
    "Muster: transactions",
    (
        (
            one(
                "Open transactions",
                "short",
                f'sum(muster_transactional_ids{{{ME},state=~"Ongoing|Prepare.*"}})',
                kind="stat",
            ),
            one(
                "Oldest open transaction",
                "s",
                f"max(muster_transaction_oldest_open_seconds{{{ME}}})",
                kind="stat",
            ),
            one(
                "Partitions blocked by an open transaction",
                "short",
                f"count(muster_partition_held_back_records{{{ME}}}) or vector(0)",
                kind="stat",
            ),
            one(
                "Groups blocked by an open transaction",
                "short",
                f'count(muster_group_verdict{{{ME},verdict="HELD_BACK"}}) or vector(0)',
                kind="stat",
            ),
            one(
                "Transactional ids",
                "short",
                f"sum(muster_transactional_ids{{{ME}}})",
                kind="stat",
            ),
        ),
        (
            Panel(
                "Transactions committed and aborted per second",
                "short",
                (
                    (f"sum(rate(muster_transactions_committed_total{{{ME}}}{RATE}))", "committed"),
                    (
                        f"sum by (cause) (rate(muster_transactions_aborted_total{{{ME}}}{RATE}))",
                        "aborted: {{cause}}",
                    ),
                ),
            ),
            quantiles(
                "Time from decision to last marker", "muster_transaction_completion_seconds", ""
            ),
        ),
        (
            one(
                "Records blocked by an open transaction, by partition",
                "short",
                f"topk(20, muster_partition_held_back_records{{{ME}}})",
                "{{topic}} {{partition}}",
            ),
            one(
                "Age of the open transaction, by partition",
                "s",
                f"topk(20, muster_partition_held_back_seconds{{{ME}}})",
                "{{topic}} {{partition}}",
            ),
        ),
        (
            one(
                "Transactional ids by state",
                "short",
                f"sum by (state) (muster_transactional_ids{{{ME}}})",
                "{{state}}",
            ),
            one(
                "Requests refused per second, by error",
                "short",
                f"sum by (error) (rate(muster_transaction_requests_refused_total{{{ME}}}{RATE}))",
                "{{error}}",
            ),
            one(
                "Batches refused per second, by error",
                "short",
                "sum by (error)"
                f" (rate(muster_transaction_verification_failures_total{{{ME}}}{RATE}))",
                "{{error}}",
            ),
        ),
        (
            one("Producer ids in memory", "short", f"muster_producers{{{ME}}}"),
            one("Pending transactional offsets", "short", f"muster_offsets_pending{{{ME}}}"),
            one("Time to load", "s", f"muster_transaction_load_seconds{{{ME}}}"),
        ),
    ),
)


def of_share_groups(title: str, query: str) -> Panel:
    """Returns a panel with one value for each share group."""
    return one(title, "short", f"topk(20, sum by (consumergroup) ({query}))", "{{consumergroup}}")


SHARE = Dashboard(
    "share",
    "Muster: share groups",
    (
        (
            one(
                "Share groups with deliveries",
                "short",
                f'count(muster_share_deliveries_total{{{ME},delivery="first"}}) or vector(0)',
                kind="stat",
            ),
            one(
                "Records held by members",
                "short",
                f'sum(muster_share_records{{{ME},state="acquired"}})',
                kind="stat",
            ),
            one(
                "Released records, not delivered again yet",
                "short",
                f'sum(muster_share_records{{{ME},state="available"}})',
                kind="stat",
            ),
            one(
                "Archived in the last hour, after too many deliveries",
                "short",
                f"sum(increase(muster_share_archived_total{{{ME}}}[1h]))",
                kind="stat",
            ),
            one(
                "Locks expired in the last hour",
                "short",
                f'sum(increase(muster_share_outcomes_total{{{ME},outcome="lock_expired"}}[1h]))',
                kind="stat",
            ),
        ),
        (
            Panel(
                "Records delivered per second",
                "short",
                (
                    (
                        f"sum by (delivery) (rate(muster_share_deliveries_total{{{ME}}}{RATE}))",
                        "{{delivery}}",
                    ),
                ),
            ),
            one(
                "Deliveries that ended, per second, by outcome",
                "short",
                f"sum by (outcome) (rate(muster_share_outcomes_total{{{ME}}}{RATE}))",
                "{{outcome}}",
            ),
        ),
        (
            of_share_groups(
                "Records held by members, by group",
                f'muster_share_records{{{ME},state="acquired"}}',
            ),
            of_share_groups(
                "Released records, by group", f'muster_share_records{{{ME},state="available"}}'
            ),
        ),
        (
            of_share_groups(
                "Locks expired per second, by group",
                f'rate(muster_share_outcomes_total{{{ME},outcome="lock_expired"}}{RATE})',
            ),
            of_share_groups(
                "Records archived per second after too many deliveries, by group",
                f"rate(muster_share_archived_total{{{ME}}}{RATE})",
            ),
        ),
        (
            quantiles(
                "Request time, with the wait for records",
                "muster_request_seconds",
                "api",
                f'{ME},api=~"ShareFetch|ShareAcknowledge"',
            ),
            quantiles(
                "Time to append states of share partitions",
                "muster_append_seconds",
                "",
                f'{ME},log="share_states"',
            ),
            one(
                "Partitions of __share_group_state",
                "short",
                f"sum by (state) (muster_share_state_shards{{{ME}}})",
                "{{state}}",
            ),
        ),
    ),
)

CLUSTER = Dashboard(
    "cluster",
    "Muster: cluster",
    (
        (
            one("Controllers", "short", f"sum(muster_controller_active{{{ME}}})", kind="stat"),
            one("Brokers", "short", f"max(kafka_brokers{{{ME}}})", kind="stat"),
            one(
                "Partitions without a leader",
                "short",
                f"sum(muster_controller_partitions_offline{{{ME}}})",
                kind="stat",
            ),
            one(
                "Partitions below min.insync.replicas",
                "short",
                f"sum(muster_partitions_under_min_isr{{{ME}}})",
                kind="stat",
            ),
            one(
                "Under-replicated",
                "short",
                f"sum(muster_partitions_under_replicated{{{ME}}})",
                kind="stat",
            ),
            one(
                "Unclean elections today",
                "short",
                "sum(increase(muster_controller_leader_changes_total"
                f'{{{ME},cause="unclean"}}[1d]))',
                kind="stat",
            ),
        ),
        (
            one(
                "Partitions led, by broker",
                "short",
                f'muster_partitions{{{ME},role="leader"}}',
                "{{instance}}",
            ),
            one(
                "Replicas out of sync, by reason",
                "short",
                f"sum by (reason) (muster_replicas_out_of_sync{{{ME}}})",
                "{{reason}}",
            ),
            one(
                "Time out of sync, by reason",
                "s",
                f"max by (reason) (muster_replicas_out_of_sync_seconds{{{ME}}})",
                "{{reason}}",
            ),
        ),
        (
            one(
                "New leaders per minute, by cause",
                "short",
                f"60 * sum by (cause) (rate(muster_controller_leader_changes_total{{{ME}}}{RATE}))",
                "{{cause}}",
            ),
            one(
                "ISR changes per minute",
                "short",
                f"60 * sum by (change) (rate(muster_isr_changes_total{{{ME}}}{RATE}))",
                "{{change}}",
            ),
        ),
        (
            one(
                "Bytes replicated per second, by broker",
                "Bps",
                f'rate(muster_replication_bytes_total{{{ME},direction="in"}}{RATE})',
                "{{instance}}",
            ),
            one(
                "Bytes replicated for reassignments per second",
                "Bps",
                f'rate(muster_reassignment_bytes_total{{{ME},direction="in"}}{RATE})',
                "{{instance}}",
            ),
        ),
        (
            one(
                "Replica lag in records",
                "short",
                f"muster_replica_fetch_lag_records{{{ME}}}",
                "{{instance}} behind {{leader}}",
            ),
            one(
                "Replica lag in seconds",
                "s",
                f"muster_replica_fetch_lag_seconds{{{ME}}}",
                "{{instance}} behind {{leader}}",
            ),
            Panel(
                "Failing fetchers, stopped partitions",
                "short",
                (
                    (
                        f'muster_replica_fetchers{{{ME},state="failing"}}',
                        "{{instance}} connections",
                    ),
                    (
                        f"muster_replica_fetch_stopped_partitions{{{ME}}}",
                        "{{instance}} partitions",
                    ),
                ),
            ),
        ),
        (
            one(
                "Records above the high watermark",
                "short",
                f"muster_high_watermark_waiting_records{{{ME}}}",
                "{{instance}}",
            ),
            one(
                "Time since a high watermark advanced",
                "s",
                f"muster_high_watermark_stands_seconds{{{ME}}}",
                "{{instance}}",
            ),
        ),
        (
            one(
                "Pending controller work",
                "short",
                f"sum by (kind) (muster_controller_doing{{{ME}}})",
                "{{kind}}",
            ),
            one(
                "Controller waits for brokers",
                "s",
                f"max by (what) (muster_controller_waits_seconds{{{ME}}})",
                "{{what}}",
            ),
            one(
                "Pending controller requests, by broker",
                "short",
                f"sum by (broker) (muster_controller_requests_waiting{{{ME}}})",
                "{{broker}}",
            ),
        ),
        (
            quantiles("Requests to ZooKeeper", "muster_zookeeper_request_seconds", ""),
            one(
                "Time without ZooKeeper",
                "s",
                f"muster_zookeeper_disconnected_seconds{{{ME}}}",
                "{{instance}}",
            ),
            one(
                "Partitions not led by the preferred replica",
                "short",
                f"sum(muster_controller_partitions_imbalanced{{{ME}}})",
            ),
        ),
    ),
)

FILE = f'{ME},source=~"$source"'
"""A label filter for the series that `muster pipeline lag --textfile` writes. The label `instance`
of these series names the node_exporter that reads the text file."""
ITS_GROUP = f'{FILE},consumergroup=~"$group"'
UNREAD = f"clamp_min(muster_pipeline_lag_records{{{FILE}}}, 0)"
"""The lag without negative values. A negative lag means that the committed offset is above the log
end offset."""


def in_state(title: str, verdict: str) -> Panel:
    """Returns a panel with the number of groups that have a partition with ``verdict`` in the
    pipeline's table `catch_up`."""
    groups = (
        f'count by (source, consumergroup) (muster_pipeline_verdict{{{FILE},verdict="{verdict}"}})'
    )
    return one(title, "short", f"count({groups}) or vector(0)", kind="stat")


PIPELINE = Dashboard(
    "pipeline",
    "Muster: lag from the pipeline",
    (
        (
            in_state("Groups drowning", "falling behind"),
            in_state("Groups stuck", "stopped"),
            in_state("Groups without members", "nobody runs it"),
            in_state("Groups out of range", "out of range"),
            one("Unread records", "short", f"sum({UNREAD})", kind="stat"),
            one(
                "Age of the results",
                "s",
                f"time() - min(muster_pipeline_as_of_timestamp_seconds{{{FILE}}})",
                kind="stat",
            ),
        ),
        (
            Panel(
                "Groups, most unread records first",
                "short",
                tuple(
                    (f"{how} by (source, consumergroup) ({series})", legend)
                    for how, series, legend in (
                        ("sum", UNREAD, "Unread records"),
                        ("max", f"muster_pipeline_lag_seconds{{{FILE}}}", "Oldest, seconds"),
                        ("max", f"muster_pipeline_group_members{{{FILE}}}", "Members"),
                        (
                            "max",
                            f"muster_pipeline_catch_up_seconds{{{FILE}}}",
                            "Time to catch up, seconds",
                        ),
                    )
                ),
                kind="table",
            ),
        ),
        (
            one(
                "Unread records, by group",
                "short",
                f"topk(10, sum by (consumergroup) ({UNREAD}))",
                "{{consumergroup}}",
            ),
            one(
                "Oldest unread record, by group",
                "s",
                f"topk(10, max by (consumergroup) (muster_pipeline_lag_seconds{{{FILE}}}))",
                "{{consumergroup}}",
            ),
        ),
        (
            one(
                "Partitions by verdict",
                "short",
                f"sum by (verdict) (muster_pipeline_verdict{{{FILE}}})",
                "{{verdict}}",
            ),
            one(
                "Records deleted before they were read, by group",
                "short",
                f"topk(10, sum by (consumergroup) (muster_pipeline_lost_records{{{FILE}}}))",
                "{{consumergroup}}",
            ),
            one(
                "Partitions omitted from the file",
                "short",
                f"sum(muster_pipeline_partitions_left_out{{{FILE}}})",
            ),
        ),
        (
            Panel(
                "One group: written and read per second",
                "short",
                tuple(
                    (
                        "sum by (topic)"
                        f" (muster_pipeline_{what}_records_per_second{{{ITS_GROUP}}})",
                        f"{what} {{{{topic}}}}",
                    )
                    for what in ("written", "read")
                ),
            ),
            one(
                "One group: unread records, by partition",
                "short",
                f"topk(20, muster_pipeline_lag_records{{{ITS_GROUP}}})",
                "{{topic}} {{partition}}",
            ),
        ),
    ),
    (
        ("source", f"label_values(muster_pipeline_as_of_timestamp_seconds{{{ME}}}, source)"),
        ("group", f"label_values(muster_pipeline_verdict{{{FILE}}}, consumergroup)"),
    ),
    "label_values(muster_pipeline_as_of_timestamp_seconds, instance)",
)

DASHBOARDS = (
    OVERVIEW, GROUPS, ONE_GROUP, SHARE, TRANSACTIONS, LOG, REQUESTS, CLUSTER, PIPELINE
)  # fmt: skip
SEVERAL = ("instance", "source")
"""Dashboard variables for which a user can select several values or all."""


def render(dashboard: Dashboard) -> str:
    """Returns the dashboard as JSON that Grafana can import."""
    panels: list[dict[str, Any]] = []
    for y, row in enumerate(dashboard.rows):
        width = WIDTH // len(row)
        for x, panel in enumerate(row):
            place = {"h": HEIGHT, "w": width, "x": x * width, "y": y * HEIGHT}
            panels.append(_panel(len(panels) + 1, panel, place))
    model = {
        "uid": f"muster-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["muster", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables(dashboard)},
        "links": [
            {"title": "Muster", "type": "dashboards", "tags": ["muster"], "asDropdown": True}
        ],
        "panels": panels,
    }
    return json.dumps(model, indent=2, ensure_ascii=False) + "\n"


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    ]
    for name, query in (
        ("instance", dashboard.instances),
        *dashboard.variables,
    ):
        variables.append(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "sort": 1,
                "includeAll": name in SEVERAL,
                "multi": name in SEVERAL,
            }
        )
    return variables


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": "stat" if panel.kind == "word" else panel.kind,
        "title": panel.title,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": _options(panel),
        **({"transformations": _columns(panel)} if panel.kind == "table" else {}),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": source,
                "expr": expression,
                "legendFormat": legend or "__auto",
                **({"format": "table", "instant": True} if panel.kind == "table" else {}),
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _options(panel: Panel) -> dict[str, Any]:
    last = {"reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "table":
        return {"sortBy": [{"displayName": panel.queries[0][1], "desc": True}]}
    if panel.kind == "word":
        return {**last, "textMode": "name"}
    return last if panel.kind == "stat" else {}


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """Returns Grafana transformations that join the results of all queries to one table by their
    labels."""
    names = {
        f"Value #{chr(ord('A') + index)}": legend for index, (_, legend) in enumerate(panel.queries)
    }
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True, "__name__": True, "job": True},
                "renameByName": {"consumergroup": "Group", "verdict": "Verdict", **names},
            },
        },
    ]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.name}.json").write_text(render(dashboard))


if __name__ == "__main__":
    main()
