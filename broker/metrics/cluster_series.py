"""Series of a broker in a cluster: its replicas, its fetchers, its session and the controller.

A broker by itself has none of them: nothing there can be out of sync. Nothing is counted here;
docs/metrics.md has names, labels and meanings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metrics.cluster_look import ClusterLook
from broker.metrics.text_format import Families, label

if TYPE_CHECKING:
    from broker.cluster.cluster_broker import ClusterBroker

_REQUEST_BITS = (17, 35)
"""131 us to 34 s."""
_NANOSECONDS = 1_000_000_000


class ClusterSeries:
    """Writes them all."""

    def __init__(self, member: ClusterBroker, look: ClusterLook, families: Families) -> None:
        self._member = member
        self._look = look
        self._families = families

    def write(self) -> None:
        """The series of one scrape."""
        self._replicas()
        self._followed()
        self._bytes()
        self._controller()
        self._leaders()
        self._session()

    def _replicas(self) -> None:
        look = self._look
        roles = self._families.family("muster_partitions", "Partitions here by role.")
        for role, count in look.roles.items():
            roles.add(label("role", role), count)
        for name, meaning, value in (
            ("under_replicated", "Led here, with a replica out of sync.", look.under_replicated),
            ("under_min_isr", "Led here, too few replicas in sync.", look.under_min_isr),
            ("at_min_isr", "Led here, no replica more in sync than needed.", look.at_min_isr),
            ("reassigning", "Led here, on their way to other replicas.", look.reassigning),
        ):
            self._families.plain(f"muster_partitions_{name}", meaning, value)
        out = self._families.family("muster_replicas_out_of_sync", "Replicas out of sync.")
        oldest = self._families.family(
            "muster_replicas_out_of_sync_seconds", "For how long the first of them has been."
        )
        for reason, found in look.out_of_sync.items():
            out.add(label("reason", reason), found.count)
            oldest.add(label("reason", reason), found.oldest_ms / 1000)
        totals = self._member.replication_totals
        changes = self._families.family(
            "muster_isr_changes_total", "Changes of in-sync replicas.", "counter"
        )
        for kind, count in (
            ("shrink", totals.shrinks),
            ("expand", totals.expands),
            ("refused", totals.failed_changes),
        ):
            changes.add(label("change", kind), count)
        self._families.plain(
            "muster_high_watermark_waiting_records",
            "Records above the high watermarks of what is led here.",
            look.waiting_records,
        )
        self._families.plain(
            "muster_high_watermark_stands_seconds",
            "For how long a high watermark has stood though records wait.",
            look.stands_ms / 1000,
        )

    def _followed(self) -> None:
        look = self._look
        fetchers = self._families.family("muster_replica_fetchers", "Connections to leaders.")
        fetchers.add(label("state", "fetching"), look.fetching)
        fetchers.add(label("state", "failing"), look.failing)
        self._families.plain(
            "muster_replica_fetch_stopped_partitions",
            "Partitions not fetched until the controller speaks.",
            look.stopped,
        )
        records = self._families.family(
            "muster_replica_fetch_lag_records", "Records behind a leader, at most."
        )
        seconds = self._families.family(
            "muster_replica_fetch_lag_seconds", "For how long behind a leader, at most."
        )
        for leader, lag in look.behind.items():
            records.add(label("leader", str(leader)), lag.records)
            seconds.add(label("leader", str(leader)), lag.oldest_ms / 1000)

    def _bytes(self) -> None:
        totals = self._member.replication_totals
        for name, meaning, taken, given in (
            ("replication", "Bytes of batches", totals.bytes_in, totals.bytes_out),
            (
                "reassignment",
                "Those for replicas that a reassignment adds",
                totals.reassignment_bytes_in,
                totals.reassignment_bytes_out,
            ),
        ):
            family = self._families.family(
                f"muster_{name}_bytes_total", f"{meaning}, between brokers.", "counter"
            )
            family.add(label("direction", "in"), taken)
            family.add(label("direction", "out"), given)
        throttled = self._families.family(
            "muster_replication_throttled_bytes_total", "Those of throttled replicas.", "counter"
        )
        throttled.add(label("direction", "in"), self._member.quotas.follower.throttled_bytes)
        throttled.add(label("direction", "out"), self._member.quotas.leader.throttled_bytes)

    def _controller(self) -> None:
        figures = self._member.controller_figures
        counts = figures.counts
        self._families.plain(
            "muster_controller_active", "1 at the controller.", int(figures.is_active)
        )
        for name, meaning, value in (
            ("brokers", "Brokers that live.", counts.active_brokers),
            ("topics", "Topics of the cluster.", counts.topics),
            ("partitions", "Partitions of the cluster.", counts.partitions),
            ("partitions_offline", "Partitions without a leader.", counts.offline_partitions),
            (
                "partitions_imbalanced",
                "Partitions that another than the preferred replica leads.",
                counts.preferred_replica_imbalance,
            ),
        ):
            self._families.plain(f"muster_controller_{name}", meaning, value)
        doing = self._families.family("muster_controller_doing", "What the controller is at.")
        for kind in ("partitions", "writes", "retries", "calls"):
            doing.add(label("kind", kind), getattr(figures.doing, kind))
        waits = self._families.family("muster_controller_waits", "What waits for brokers.")
        oldest = self._families.family(
            "muster_controller_waits_seconds", "For how long the first of them has waited."
        )
        for what, waiting in figures.waiting.items():
            waits.add(label("what", what), waiting.count)
            oldest.add(label("what", what), waiting.oldest_ms / 1000)
        requests = self._families.family(
            "muster_controller_requests_waiting", "Requests that a broker has still to answer."
        )
        for broker, count in figures.requests.items():
            requests.add(label("broker", str(broker)), count)

    def _leaders(self) -> None:
        totals = self._member.controller_totals
        changes = self._families.family(
            "muster_controller_leader_changes_total", "Partitions with another leader.", "counter"
        )
        for cause, count in totals.leader_changes.items():
            changes.add(label("cause", cause), count)
        self._families.plain(
            "muster_controller_terms_total", "Terms as the controller.", totals.terms, "counter"
        )
        self._families.plain(
            "muster_controller_leaderless_seconds_total",
            "For how long partitions had no leader that have one again.",
            totals.leaderless_ms / 1000,
            "counter",
        )

    def _session(self) -> None:
        sessions = self._member.sessions
        registered = int(self._member.broker_epoch() >= 0)
        self._families.plain(
            "muster_broker_registered", "1 while registered in ZooKeeper.", registered
        )
        state = self._families.family("muster_zookeeper_session", "1 for the state of the session.")
        changes = self._families.family(
            "muster_zookeeper_session_changes_total", "Changes of its state.", "counter"
        )
        for each, count in sessions.changes.items():
            state.add(label("state", each.value), int(each is sessions.connection))
            changes.add(label("state", each.value), count)
        self._families.plain(
            "muster_zookeeper_disconnected_seconds",
            "For how long there has been no connection to ZooKeeper.",
            sessions.lost_for_ms / 1000,
        )
        times = self._families.family(
            "muster_zookeeper_request_seconds", "From a request to its answer.", "histogram"
        )
        member = self._member
        times.add_histogram("", member.joined.zookeeper.request_times, *_REQUEST_BITS, _NANOSECONDS)
