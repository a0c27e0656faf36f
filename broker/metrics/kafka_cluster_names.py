"""Writes the metrics about replicas, fetchers, controller and ZooKeeper under the names that
jmx_exporter, with its usual rules, gives to Kafka's metrics.

A standalone broker has no metrics about ZooKeeper and fetchers. Its other metrics are those of an
Apache Kafka broker that is the only broker of its cluster. Only the leader of a partition exports
the partition's metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.cluster.zookeeper.zookeeper import Connection
from broker.metrics.cluster_look import ClusterLook, is_under_replicated
from broker.metrics.scan import is_led
from broker.metrics.sources import Sources
from broker.metrics.text_format import Families, label
from broker.topics.partition import Partition
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.replication_totals import ReplicationTotals
from broker.topics.replicas.roles import Role
from controller.view import Counts

if TYPE_CHECKING:
    from broker.cluster.replicas.fetcher import Fetcher
    from broker.cluster.replicas.followed import Followed

_NANOSECONDS_PER_MS = 1_000_000
_REPLICA = label("clientId", "Replica")


class KafkaClusterNames:
    """Writes the series of replicas, fetchers, controller and ZooKeeper for one scrape."""

    def __init__(
        self,
        sources: Sources,
        look: ClusterLook,
        families: Families,
        quantiles: Sequence[float],
    ) -> None:
        self._sources = sources
        self._look = look
        self._families = families
        self._quantiles = quantiles
        if sources.member is not None:
            self._lag = families.family(
                "kafka_server_fetcherlagmetrics_consumerlag", "Records behind the leader."
            )
            look.followed_by = self._followed
        of_partition = "kafka_cluster_partition_"
        family = families.family
        self._under = family(
            f"{of_partition}underreplicated", "1 if a replica of the partition is out of sync."
        )
        self._under_min = family(
            f"{of_partition}underminisr", "1 if the partition is below min.insync.replicas."
        )
        self._at_min = family(
            f"{of_partition}atminisr", "1 if the partition is at min.insync.replicas."
        )
        self._in_sync = family(f"{of_partition}insyncreplicascount", "Replicas in sync.")
        self._replicas = family(f"{of_partition}replicascount", "Replicas.")
        self._stable_lag = family(
            f"{of_partition}laststableoffsetlag",
            "Number of offsets from the last stable offset to the log end offset.",
        )

    def partitions(self, topic: str, partitions: Sequence[Partition]) -> None:
        for each in filter(is_led, partitions):
            if not self._families.has_room(6):
                continue
            at = f'{topic},partition="{each.index}"'
            led = each.led if isinstance(each, Replica) else None
            in_sync = 1 if led is None else len(led.state.isr)
            minimum = 1 if led is None else led.min_isr
            self._under.add(at, 0 if led is None else int(is_under_replicated(led)))
            self._under_min.add(at, int(in_sync < minimum))
            self._at_min.add(at, int(in_sync == minimum))
            self._in_sync.add(at, in_sync)
            self._replicas.add(at, 1 if led is None else len(led.state.replicas))
            self._stable_lag.add(at, each.high_watermark - each.last_stable_offset)

    def _followed(self, fetcher: Fetcher, followed: Followed) -> None:
        if self._families.has_room(1):
            topic, index = followed.place
            client = f"ReplicaFetcherThread-{fetcher.number}-{fetcher.leader}"
            at = f'{label("clientId", client)},{label("topic", topic)},partition="{index}"'
            self._lag.add(at, followed.lag)

    def write(self) -> None:
        """Writes the series that describe the whole broker."""
        self._replica_manager()
        self._controller()
        self._fetchers()
        self._bytes()
        self._zookeeper()

    def _gauges(self, prefix: str, values: dict[str, int]) -> None:
        for name, value in values.items():
            self._families.plain(f"{prefix}{name}", f"Kafka's {name}.", value)

    def _counters(self, prefix: str, values: dict[str, int]) -> None:
        for name, value in values.items():
            self._families.plain(f"{prefix}{name}_total", f"Kafka's {name}.", value, "counter")

    @property
    def _totals(self) -> ReplicationTotals:
        member = self._sources.member
        return ReplicationTotals() if member is None else member.replication_totals

    def _replica_manager(self) -> None:
        look, totals = self._look, self._totals
        prefix = "kafka_server_replicamanager_"
        values = {
            "leadercount": look.roles[Role.LEADER.value],
            "partitioncount": sum(look.roles.values()),
            "offlinereplicacount": look.roles[Role.OFFLINE.value],
            "underreplicatedpartitions": look.under_replicated,
            "underminisrpartitioncount": look.under_min_isr,
            "atminisrpartitioncount": look.at_min_isr,
            "reassigningpartitions": look.reassigning,
        }
        self._gauges(prefix, values)
        counts = {
            "isrshrinks": totals.shrinks,
            "isrexpands": totals.expands,
            "failedisrupdates": totals.failed_changes,
        }
        self._counters(prefix, counts)

    def _controller(self) -> None:
        sources = self._sources
        member = sources.member
        if member is None:
            topics = list(sources.logs.topics.values())
            counts = Counts(1, len(topics), sum([each.topic.partitions for each in topics]))
            is_active, unclean = True, 0
        else:
            figures = member.controller_figures
            counts, is_active = figures.counts, figures.is_active
            unclean = member.controller_totals.leader_changes["unclean"]
        values = {
            "activecontrollercount": int(is_active),
            "activebrokercount": counts.active_brokers,
            "fencedbrokercount": 0,
            "globaltopiccount": counts.topics,
            "globalpartitioncount": counts.partitions,
            "offlinepartitionscount": counts.offline_partitions,
            "preferredreplicaimbalancecount": counts.preferred_replica_imbalance,
            "topicstodeletecount": counts.topics_to_delete,
            "topicsineligibletodeletecount": counts.topics_ineligible_to_delete,
            "replicastodeletecount": counts.replicas_to_delete,
            "replicasineligibletodeletecount": counts.replicas_ineligible_to_delete,
        }
        self._gauges("kafka_controller_kafkacontroller_", values)
        self._counters("kafka_controller_controllerstats_", {"uncleanleaderelections": unclean})

    def _fetchers(self) -> None:
        look = self._look
        values = {
            "maxlag": max([each.records for each in look.behind.values()], default=0),
            "failedpartitionscount": look.stopped,
            "deadthreadcount": 0,
        }
        for name, value in values.items():
            family = self._families.family(
                f"kafka_server_replicafetchermanager_{name}", f"Kafka's {name}."
            )
            family.add(_REPLICA, value)

    def _bytes(self) -> None:
        totals = self._totals
        counts = {
            "replicationbytesin": totals.bytes_in,
            "replicationbytesout": totals.bytes_out,
            "reassignmentbytesin": totals.reassignment_bytes_in,
            "reassignmentbytesout": totals.reassignment_bytes_out,
        }
        self._counters("kafka_server_brokertopicmetrics_", counts)
        member = self._sources.member
        if member is not None:
            for side, quota in member.quotas._asdict().items():
                name = f"kafka_server_{side}replication_byte_rate"
                meaning = "Replication rate of throttled replicas in bytes per second."
                self._families.plain(name, meaning, quota.bytes_per_second)

    def _zookeeper(self) -> None:
        member = self._sources.member
        if member is None:
            return
        changes = member.sessions.changes
        counts = {
            "zookeepersyncconnects": changes[Connection.CONNECTED],
            "zookeeperdisconnects": changes[Connection.SUSPENDED],
            "zookeeperexpires": changes[Connection.EXPIRED],
        }
        self._counters("kafka_server_sessionexpirelistener_", counts)
        times = member.joined.zookeeper.request_times
        name = "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms"
        latency = self._families.family(name, "Time per request in milliseconds.")
        shares = times.quantiles(self._quantiles)
        for share, value in zip(self._quantiles, shares, strict=True):
            latency.add(f'quantile="{share}"', value / _NANOSECONDS_PER_MS)
        self._families.plain(f"{name}_count", "Number of requests.", times.count, "untyped")
