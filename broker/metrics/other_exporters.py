"""Writes series under the names of other exporters, for dashboards that were made for them
(``metrics.compat``).

Each view writes the same numbers as labelled_series.py, under the names and labels of one exporter:
KMinion, kafka-lag-exporter, or jmx_exporter with its usual rules for Kafka. docs/operate/metrics.md
lists the names that Muster writes, and the names that it omits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from broker.metrics.cluster_look import ClusterLook
from broker.metrics.kafka_cluster_names import KafkaClusterNames
from broker.metrics.lag import MemberLag, PartitionLag, TopicPartition
from broker.metrics.scan import Scan, Seen, View, is_led
from broker.metrics.sources import Sources
from broker.metrics.text_format import Families, label, labels
from broker.topics.partition import Partition
from broker.topics.topic_logs import TopicLogs
from coordinator.classic.states import State
from coordinator.read_only import MemberView
from protocol.messages import BY_KEY

LATE_MS = 300_000
"""A transaction counts as late if it has been open for this number of ms longer than
transaction.max.timeout.ms, as in Kafka."""
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class _View(View):
    def __init__(self, sources: Sources, families: Families) -> None:
        self.sources = sources
        self.families = families


class KMinion(_View):
    """Writes KMinion's series, with its default prefix."""

    def __init__(self, sources: Sources, families: Families) -> None:
        super().__init__(sources, families)

        def gauge(name: str, meaning: str) -> None:
            families.family(f"kminion_kafka_{name}", meaning)

        gauge("cluster_info", "Always 1; the labels describe the cluster.")
        gauge("broker_info", "Always 1; the labels name each broker.")
        gauge("consumer_group_info", "1 while the group is Stable.")
        gauge("consumer_group_members", "Members of the group.")
        gauge("consumer_group_empty_members", "Members without a partition.")
        gauge("consumer_group_topic_members", "Members with a partition of the topic.")
        gauge("consumer_group_topic_assigned_partitions", "Partitions assigned to a member.")
        gauge(
            "consumer_group_topic_offset_sum", "Sum of the group's committed offsets in the topic."
        )
        gauge("consumer_group_topic_lag", "Sum of the group's lags in the topic.")
        gauge("consumer_group_topic_partition_lag", "Lag in records.")
        gauge("topic_partition_low_water_mark", "Log start offset of the partition.")
        gauge("topic_partition_high_water_mark", "Log end offset of the partition.")
        gauge("topic_low_water_mark_sum", "Sum of the log start offsets of the topic.")
        gauge("topic_high_water_mark_sum", "Sum of the log end offsets of the topic.")
        gauge("topic_log_dir_size_total_bytes", "Size of the topic's segments.")
        gauge("broker_log_dir_size_total_bytes", "Size of all segments of the broker.")
        self._seen: Seen
        self._group = ""
        self._assigned: Counter[str] = Counter()
        self._having: Counter[str] = Counter()
        self._busy: set[str] = set()
        self._offset_sum = self._lag_sum = self._low = self._high = self._size = self._total = 0

    def _add(self, name: str, at: str, value: int) -> None:
        self.families[f"kminion_kafka_{name}"].add(at, value)

    def begin_group(self, seen: Seen) -> None:
        self._seen = seen
        self._group = label("group_id", seen.group_id)
        group = seen.group
        if group is None or not self.families.has_room(2):
            return
        pairs = {
            "group_id": seen.group_id,
            "protocol": group.protocol_name or "",
            "protocol_type": group.protocol_type or "",
            "state": group.state.value,
            "coordinator_id": str(self.sources.registry.node_id),
        }
        self._add(
            "consumer_group_info", labels(pairs), int(group.state.value == State.STABLE.value)
        )
        self._add("consumer_group_members", self._group, len(group.members))

    def offsets(
        self,
        lags: Sequence[PartitionLag],
        owners: dict[TopicPartition, MemberView],  # noqa: ARG002 - other views need them
    ) -> None:
        self._offset_sum += sum([lag.offset for lag in lags])
        self._lag_sum += sum([lag.records or 0 for lag in lags])
        if self.families.has_room(len(lags)):
            at = f"{self._group},{label('topic_name', lags[0].topic)}"
            for lag in lags:
                if lag.records is not None:
                    each = f'{at},partition_id="{lag.partition}"'
                    self._add("consumer_group_topic_partition_lag", each, lag.records)

    def end_topic(self, topic: str) -> None:
        if self.families.has_room(2):
            at = f"{self._group},{label('topic_name', topic)}"
            self._add("consumer_group_topic_offset_sum", at, self._offset_sum)
            self._add("consumer_group_topic_lag", at, self._lag_sum)
        self._offset_sum = self._lag_sum = 0

    def members(self, lags: Sequence[MemberLag]) -> None:
        for lag in lags:
            if lag.partitions:
                self._busy.add(lag.member.member_id)
            for topic, count in lag.topics.items():
                self._assigned[topic] += count
                self._having[topic] += 1

    def end_group(self) -> None:
        group = self._seen.group
        if group is not None and self.families.has_room(1 + 2 * len(self._assigned)):
            idle = len(group.members) - len(self._busy)
            self._add("consumer_group_empty_members", self._group, idle)
            for topic, count in self._assigned.items():
                at = f"{self._group},{label('topic_name', topic)}"
                self._add("consumer_group_topic_assigned_partitions", at, count)
                self._add("consumer_group_topic_members", at, self._having[topic])
        self._busy.clear()
        self._assigned.clear()
        self._having.clear()

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:
        has_room = self.families.has_room(2 * len(partitions))
        topic = label("topic_name", entry.topic.name)
        for partition in partitions:
            self._size += partition.log.size_bytes
            if not is_led(partition):
                continue
            low, high = partition.log.log_start_offset, partition.high_watermark
            self._low += low
            self._high += high
            if has_room:
                at = f'{topic},partition_id="{partition.index}"'
                self._add("topic_partition_low_water_mark", at, low)
                self._add("topic_partition_high_water_mark", at, high)

    def topic(self, entry: TopicLogs) -> None:
        if self.families.has_room(3):
            topic = label("topic_name", entry.topic.name)
            self._add("topic_low_water_mark_sum", topic, self._low)
            self._add("topic_high_water_mark_sum", topic, self._high)
            self._add("topic_log_dir_size_total_bytes", topic, self._size)
        self._total += self._size
        self._low = self._high = self._size = 0

    def end(self, scan: Scan) -> None:  # noqa: ARG002
        node_id = str(self.sources.registry.node_id)
        host, port = self.sources.advertised.first
        listener = self.sources.advertised.endpoints[0].name
        rack = self.sources.config["broker.rack"] or ""
        place = {"broker_id": node_id, "address": host, "port": str(port), "rack_id": rack}
        controller_id = self.sources.cluster.controller_id
        is_controller = str(controller_id == self.sources.registry.node_id).lower()
        self._add("broker_info", labels({**place, "is_controller": is_controller}), 1)
        self._add("broker_log_dir_size_total_bytes", labels(place), self._total)
        cluster = {
            "cluster_version": "v3.9",
            "broker_count": str(len(self.sources.cluster.brokers(listener))),
            "controller_id": str(controller_id),
            "cluster_id": self.sources.registry.cluster_id,
        }
        self._add("cluster_info", labels(cluster), 1)


class LagExporter(_View):
    """Writes kafka-lag-exporter's series. The value of the label ``cluster_name`` is the cluster
    id."""

    def __init__(self, sources: Sources, families: Families) -> None:
        super().__init__(sources, families)
        group = "kafka_consumergroup_group_"
        family = families.family
        self._offset = family(f"{group}offset", "Committed offset.")
        self._lag = family(f"{group}lag", "Lag in records.")
        self._seconds = family(f"{group}lag_seconds", "Age of the first unread record.")
        self._max = family(
            f"{group}max_lag", "Largest lag of a partition of the group, in records."
        )
        self._max_seconds = family(
            f"{group}max_lag_seconds", "Age of the oldest unread record of the group."
        )
        self._sum = family(f"{group}sum_lag", "Sum of the group's lags.")
        self._topic_sum = family(f"{group}topic_sum_lag", "Sum of the group's lags in the topic.")
        self._latest = family("kafka_partition_latest_offset", "Log end offset of the partition.")
        self._earliest = family(
            "kafka_partition_earliest_offset", "Log start offset of the partition."
        )
        self._cluster = label("cluster_name", sources.registry.cluster_id)
        self._group = ""
        self._simple = "false"
        self._in_topic = self._in_group = self._most = 0
        self._oldest: float | None = None

    def begin_group(self, seen: Seen) -> None:
        self._group = f"{self._cluster},{label('group', seen.group_id)}"
        self._simple = "false" if seen.group is not None and seen.group.protocol_type else "true"
        self._in_group = self._most = 0
        self._oldest = None

    def offsets(
        self, lags: Sequence[PartitionLag], owners: dict[TopicPartition, MemberView]
    ) -> None:
        has_room = self.families.has_room(3 * len(lags))
        topic = label("topic", lags[0].topic)
        for lag in lags:
            records = lag.records or 0
            self._in_topic += records
            self._most = max(self._most, records)
            if lag.seconds is not None:
                self._oldest = max(self._oldest or 0.0, lag.seconds)
            if not has_room:
                continue
            owner = owners.get((lag.topic, lag.partition))
            whose = ("", "", "")
            if owner is not None:
                whose = (owner.client_host, owner.member_id, owner.client_id)
            names = ("member_host", "consumer_id", "client_id")
            at = (
                f'{self._group},{topic},partition="{lag.partition}",'
                f"{labels(dict(zip(names, whose, strict=True)))}"
            )
            self._offset.add(at, lag.offset)
            if lag.records is not None:
                self._lag.add(at, lag.records)
            if lag.seconds is not None:
                self._seconds.add(at, lag.seconds)

    def end_topic(self, topic: str) -> None:
        if self.families.has_room(1):
            self._topic_sum.add(f"{self._group},{label('topic', topic)}", self._in_topic)
        self._in_group += self._in_topic
        self._in_topic = 0

    def end_group(self) -> None:
        if self.families.has_room(3):
            at = f'{self._group},is_simple_consumer="{self._simple}"'
            self._sum.add(self._group, self._in_group)
            self._max.add(at, self._most)
            if self._oldest is not None:
                self._max_seconds.add(at, self._oldest)

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:
        if self.families.has_room(2 * len(partitions)):
            topic = label("topic", entry.topic.name)
            for partition in filter(is_led, partitions):
                at = f'{self._cluster},{topic},partition="{partition.index}"'
                self._latest.add(at, partition.high_watermark)
                self._earliest.add(at, partition.log.log_start_offset)

    def end(self, scan: Scan) -> None:
        """Does nothing, since kafka-lag-exporter has no series of a broker."""


class Jmx(_View):
    """Writes the series of jmx_exporter's rules kafka-2_0_0.yml, as far as Muster has the
    numbers."""

    def __init__(self, sources: Sources, families: Families, look: ClusterLook) -> None:
        super().__init__(sources, families)
        self._cluster = KafkaClusterNames(sources, look, families, QUANTILES)
        topics = "kafka_server_brokertopicmetrics_"
        self._records = families.family(f"{topics}messagesin_total", "Records.", "counter")
        self._in = families.family(f"{topics}bytesin_total", "Bytes produced.", "counter")
        self._out = families.family(f"{topics}bytesout_total", "Bytes fetched.", "counter")

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:
        self._cluster.partitions(label("topic", entry.topic.name), partitions)

    def topic(self, entry: TopicLogs) -> None:
        if self.families.has_room(3):
            topic = label("topic", entry.topic.name)
            led = filter(is_led, entry.partitions)
            self._records.add(topic, sum([each.high_watermark for each in led]))
            self._in.add(topic, entry.bytes_in)
            self._out.add(topic, entry.bytes_out)

    def end(self, scan: Scan) -> None:
        """Adds the series of groups, transactions, requests and the cluster.

        The series of groups count only classic groups, like the metrics of ``GroupMetadataManager``
        in Kafka 4.
        """
        manager = "kafka_coordinator_group_groupmetadatamanager_num"
        offsets = sum(
            hosted.core.view.offsets.count() for hosted in self.sources.groups.hosted_shards
        )
        states = scan.classic_states
        counts = {"offsets": offsets, "groups": sum(states.values())}
        counts |= {f"groups{state.lower()}": count for state, count in states.items()}
        for name, count in counts.items():
            self.families.plain(f"{manager}{name}", f"Number of {name}.", count)
        self._transactions(scan)
        self._cluster.write()
        network = "kafka_network_requestmetrics_"
        family = self.families.family
        times = family(f"{network}totaltimems", "Time per request in milliseconds.")
        count_of = family(f"{network}totaltimems_count", "Requests timed.", "untyped")
        requests = family(f"{network}requests_total", "Requests answered.", "counter")
        for key, histogram in self.sources.server.times.items():
            if not histogram.total:
                continue
            at = label("request", BY_KEY[key].name)
            for share, value in zip(QUANTILES, histogram.quantiles(QUANTILES), strict=True):
                times.add(f'{at},quantile="{share}"', value / 1_000_000)
            count_of.add(at, histogram.count)
            requests.add(at, sum(self.sources.server.errors[key].values()))

    def _transactions(self, scan: Scan) -> None:
        now_ms = self.sources.time.now().wall_ms
        longest_ms = self.sources.config["transaction.max.timeout.ms"] + LATE_MS
        late = sum(now_ms - since_ms > longest_ms for since_ms in scan.held_since_ms)
        failures = sum(self.sources.totals.transactions.verification_failures.values())
        manager = "kafka_server_replicamanager_"
        for name, meaning, kind, value in (
            (
                f"{manager}partitionswithlatetransactionscount",
                "Partitions with a transaction older than transaction.max.timeout.ms plus 5 min.",
                "gauge",
                late,
            ),
            (
                f"{manager}produceridcount",
                "Producer ids for which partitions keep state.",
                "gauge",
                scan.producers,
            ),
            (
                "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count",
                "Batches refused by transaction verification.",
                "untyped",
                failures,
            ),
        ):
            self.families.plain(name, meaning, value, kind)


Compat = KMinion | LagExporter | Jmx


def compat_views(sources: Sources, families: Families, look: ClusterLook) -> list[Compat]:
    """Returns a view for each exporter that the setting ``metrics.compat`` names."""
    wanted = [each for each in str(sources.config["metrics.compat"] or "").split(",") if each]
    made: dict[str, Callable[[], Compat]] = {
        "jmx": lambda: Jmx(sources, families, look),
        "kminion": lambda: KMinion(sources, families),
        "lag_exporter": lambda: LagExporter(sources, families),
    }
    return [made[each]() for each in dict.fromkeys(wanted)]


def wants_look(views: Sequence[View]) -> bool:
    """Returns True if one of ``views`` needs the counts of `ClusterLook`."""
    return any(isinstance(view, Jmx) for view in views)


def wants_owners(views: Sequence[View]) -> bool:
    """Returns True if one of ``views`` needs to know which member owns each partition."""
    return any(isinstance(view, LagExporter) for view in views)
