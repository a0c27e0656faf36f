"""Writes the series of a broker in a cluster: its replicas, fetchers, ZooKeeper session and
controller.

A standalone broker exports none of these series. This module only writes what other modules have
counted. docs/operate/metrics.md lists the names, labels and meanings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metrics.cluster_look import ClusterLook
from broker.metrics.text_format import Families, label

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker

_REQUEST_BITS = (17, 35)
"""The buckets of the request time histograms: their upper bounds are 2**17 to 2**35 nanoseconds
(131 us to 34 s)."""
_NANOSECONDS = 1_000_000_000


class ClusterSeries:
    """Writes the series that only a broker in a cluster exports."""

    def __init__(self, member: ClusterBroker, look: ClusterLook, families: Families) -> None:
        self._member = member
        self._look = look
        self._families = families

    def write(self) -> None:
        self._replicas()
        self._followed()
        self._bytes()
        self._controller()
        self._leaders()
        self._session()

    def _replicas(self) -> None:
        look = self._look
        roles = self._families.family("muster_partitions", "Replicas on this broker, by role.")
        for role, count in look.roles.items():
            roles.add(label("role", role), count)
        for name, meaning, value in (
            (
                "under_replicated",
                "Partitions led by this broker that are under-replicated.",
                look.under_replicated,
            ),
            (
                "under_min_isr",
                "Partitions led by this broker whose ISR is smaller than min.insync.replicas.",
                look.under_min_isr,
            ),
            (
                "at_min_isr",
                "Partitions led by this broker whose ISR size equals min.insync.replicas.",
                look.at_min_isr,
            ),
            (
                "reassigning",
                "Partitions led by this broker that are being reassigned.",
                look.reassigning,
            ),
        ):
            self._families.plain(f"muster_partitions_{name}", meaning, value)
        out = self._families.family(
            "muster_replicas_out_of_sync",
            "Out-of-sync replicas of the partitions that this broker leads.",
        )
        oldest = self._families.family(
            "muster_replicas_out_of_sync_seconds",
            "Longest time that an out-of-sync replica has been out of sync.",
        )
        for reason, found in look.out_of_sync.items():
            out.add(label("reason", reason), found.count)
            oldest.add(label("reason", reason), found.oldest_ms / 1000)
        totals = self._member.replication_totals
        changes = self._families.family(
            "muster_isr_changes_total", "ISR changes requested by this broker.", "counter"
        )
        for kind, count in (
            ("shrink", totals.shrinks),
            ("expand", totals.expands),
            ("refused", totals.failed_changes),
        ):
            changes.add(label("change", kind), count)
        self._families.plain(
            "muster_high_watermark_waiting_records",
            "Records above the high watermarks of partitions led by this broker.",
            look.waiting_records,
        )
        self._families.plain(
            "muster_high_watermark_stands_seconds",
            "Longest time that a high watermark has not advanced although records are above it.",
            look.stands_ms / 1000,
        )

    def _followed(self) -> None:
        look = self._look
        fetchers = self._families.family(
            "muster_replica_fetchers", "Connections of replica fetchers to leaders, by state."
        )
        fetchers.add(label("state", "fetching"), look.fetching)
        fetchers.add(label("state", "failing"), look.failing)
        self._families.plain(
            "muster_replica_fetch_stopped_partitions",
            "Partitions that this broker does not fetch until the controller announces a new"
            " leader epoch.",
            look.stopped,
        )
        records = self._families.family(
            "muster_replica_fetch_lag_records",
            "Largest lag of a replica on this broker behind the leader, in records.",
        )
        seconds = self._families.family(
            "muster_replica_fetch_lag_seconds",
            "Longest time that a replica on this broker has been behind the leader.",
        )
        for leader, lag in look.behind.items():
            records.add(label("leader", str(leader)), lag.records)
            seconds.add(label("leader", str(leader)), lag.oldest_ms / 1000)

    def _bytes(self) -> None:
        totals = self._member.replication_totals
        for name, meaning, taken, given in (
            ("replication", "Bytes replicated between brokers.", totals.bytes_in, totals.bytes_out),
            (
                "reassignment",
                "Bytes replicated between brokers, to replicas that a reassignment adds.",
                totals.reassignment_bytes_in,
                totals.reassignment_bytes_out,
            ),
        ):
            family = self._families.family(f"muster_{name}_bytes_total", meaning, "counter")
            family.add(label("direction", "in"), taken)
            family.add(label("direction", "out"), given)
        throttled = self._families.family(
            "muster_replication_throttled_bytes_total",
            "Replicated bytes of throttled replicas.",
            "counter",
        )
        throttled.add(label("direction", "in"), self._member.quotas.follower.throttled_bytes)
        throttled.add(label("direction", "out"), self._member.quotas.leader.throttled_bytes)

    def _controller(self) -> None:
        figures = self._member.controller_figures
        counts = figures.counts
        self._families.plain(
            "muster_controller_active",
            "1 if this broker is the controller.",
            int(figures.is_active),
        )
        for name, meaning, value in (
            ("brokers", "Live brokers.", counts.active_brokers),
            ("topics", "Topics of the cluster.", counts.topics),
            ("partitions", "Partitions of the cluster.", counts.partitions),
            ("partitions_offline", "Partitions without a leader.", counts.offline_partitions),
            (
                "partitions_imbalanced",
                "Partitions not led by their preferred replica.",
                counts.preferred_replica_imbalance,
            ),
        ):
            self._families.plain(f"muster_controller_{name}", meaning, value)
        doing = self._families.family(
            "muster_controller_doing", "Pending operations of the controller."
        )
        for kind in ("partitions", "writes", "retries", "calls"):
            doing.add(label("kind", kind), getattr(figures.doing, kind))
        waits = self._families.family(
            "muster_controller_waits",
            "Deletions, reassignments and elections that wait for a broker.",
        )
        oldest = self._families.family(
            "muster_controller_waits_seconds",
            "Longest time that a deletion, reassignment or election has waited for a broker.",
        )
        for what, waiting in figures.waiting.items():
            waits.add(label("what", what), waiting.count)
            oldest.add(label("what", what), waiting.oldest_ms / 1000)
        requests = self._families.family(
            "muster_controller_requests_waiting",
            "Controller requests to which the broker has not responded yet.",
        )
        for broker, count in figures.requests.items():
            requests.add(label("broker", str(broker)), count)

    def _leaders(self) -> None:
        totals = self._member.controller_totals
        changes = self._families.family(
            "muster_controller_leader_changes_total", "Leader changes by cause.", "counter"
        )
        for cause, count in totals.leader_changes.items():
            changes.add(label("cause", cause), count)
        self._families.plain(
            "muster_controller_terms_total",
            "Number of times that this broker became controller.",
            totals.terms,
            "counter",
        )
        self._families.plain(
            "muster_controller_leaderless_seconds_total",
            "Total time that partitions had no leader; each partition's time is added when a"
            " leader is elected.",
            totals.leaderless_ms / 1000,
            "counter",
        )

    def _session(self) -> None:
        sessions = self._member.sessions
        registered = int(self._member.broker_epoch() >= 0)
        self._families.plain(
            "muster_broker_registered", "1 while the broker is registered in ZooKeeper.", registered
        )
        state = self._families.family(
            "muster_zookeeper_session", "1 for the current state of the ZooKeeper session."
        )
        changes = self._families.family(
            "muster_zookeeper_session_changes_total",
            "Changes of the state of the ZooKeeper session.",
            "counter",
        )
        for each, count in sessions.changes.items():
            state.add(label("state", each.value), int(each is sessions.connection))
            changes.add(label("state", each.value), count)
        self._families.plain(
            "muster_zookeeper_disconnected_seconds",
            "Time since the broker lost its connection to ZooKeeper; 0 while connected.",
            sessions.lost_for_ms / 1000,
        )
        times = self._families.family(
            "muster_zookeeper_request_seconds",
            "Time from a request to ZooKeeper to its response.",
            "histogram",
        )
        member = self._member
        times.add_histogram("", member.joined.zookeeper.request_times, *_REQUEST_BITS, _NANOSECONDS)
