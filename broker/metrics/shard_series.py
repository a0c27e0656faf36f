"""Makes the metric families about the shards of all coordinators: their phases and the progress of
their loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.cores.hosted_shard import HostedShard, Phase
from broker.metrics.sources import Sources


def shard_families(sources: Sources) -> Iterator[Metric]:
    """Yields the metric families about the shards of all coordinators."""
    hosted_shards = sources.groups.hosted_shards
    yield shards_by_phase(
        "muster_shards", "Partitions of __consumer_offsets by state.", hosted_shards
    )
    yield shards_by_phase(
        "muster_share_state_shards",
        "Partitions of __share_group_state by state.",
        sources.share_states.hosted_shards,
    )
    every: list[HostedShard[Any]] = [*hosted_shards]
    every += sources.transactions.hosted_shards
    every += sources.share_states.hosted_shards
    ends = [(hosted.log.log_start_offset, hosted.log.log_end_offset, hosted) for hosted in every]
    total = sum(end - start for start, end, _ in ends)
    left = sum(
        end - max(start, hosted.loaded_to)
        for start, end, hosted in ends
        if hosted.phase is Phase.LOADING
    )
    yield GaugeMetricFamily(
        "muster_load_progress_ratio",
        "Loaded fraction, 0 to 1, of the logs of __consumer_offsets, __transaction_state and"
        " __share_group_state.",
        value=1 - left / total if total else 1,
    )
    yield GaugeMetricFamily(
        "muster_load_seconds",
        "Time to load groups, transactional ids and share partitions.",
        value=sum(max(0, hosted.load_ms) for hosted in every) / 1000,
    )
    yield GaugeMetricFamily(
        "muster_load_records",
        "Records read to load groups, transactional ids and share partitions.",
        value=sum(hosted.loaded_records for hosted in every),
    )


def shards_by_phase(name: str, meaning: str, shards: Iterable[HostedShard[Any]]) -> Metric:
    """Returns a metric family with the number of shards in each phase, including phases without
    shards."""
    phases = Counter({phase.value: 0 for phase in Phase})
    phases.update(hosted.phase.value for hosted in shards)
    found = GaugeMetricFamily(name, meaning, labels=["state"])
    for phase, count in phases.items():
        found.add_metric([phase], count)
    return found
