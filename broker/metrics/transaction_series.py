"""Makes the metric families about transactions, except families whose number of series grows with
the number of transactional ids or topics.

This module only writes what other modules have counted. docs/operate/metrics.md lists every name
with its labels and meaning.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.metrics.scan import Scan
from broker.metrics.shard_series import shards_by_phase
from broker.metrics.sources import Sources
from broker.metrics.text_format import Families
from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NAMES,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)

REFUSING = (INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, PRODUCER_FENCED)
"""The error codes with which transactional requests are most often rejected."""
FAILING = (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    TRANSACTION_ABORTABLE,
)
"""The error codes for batches that are rejected because their partition is not in an open
transaction of their producer."""
_COMPLETION_BITS = (0, 16)
"""The bounds of the first and last bucket in the histogram of completion times, as powers of 2 in
ms: 1 ms and 65 s."""


def transaction_families(sources: Sources, scan: Scan) -> Iterator[Metric]:
    """Yields the metric families about transactions, except the histogram of `add_completion`."""
    ids = GaugeMetricFamily(
        "muster_transactional_ids", "Transactional ids by state.", labels=["state"]
    )
    for state, count in scan.transactions.items():
        ids.add_metric([state], count)
    yield ids
    now_ms = sources.time.now().wall_ms
    oldest_ms = now_ms if scan.oldest_open_ms is None else scan.oldest_open_ms
    yield GaugeMetricFamily(
        "muster_transaction_oldest_open_seconds",
        "Age of the oldest open transaction; 0 if no transaction is open.",
        value=max(0, now_ms - oldest_ms) / 1000,
    )
    totals = sources.totals.transactions
    yield CounterMetricFamily(
        "muster_transactions_committed_total", "Transactions committed.", value=totals.committed
    )
    aborted = CounterMetricFamily(
        "muster_transactions_aborted_total", "Transactions aborted.", labels=["cause"]
    )
    for cause, count in totals.aborted.items():
        aborted.add_metric([cause.value], count)
    yield aborted
    yield by_error(
        "muster_transaction_requests_refused_total",
        "Requests refused with an error that is fatal to the producer.",
        dict.fromkeys(REFUSING, 0) | totals.refused,
    )
    yield by_error(
        "muster_transaction_verification_failures_total",
        "Batches refused because their partition is not in a transaction of their producer.",
        dict.fromkeys(FAILING, 0) | totals.verification_failures,
    )
    yield GaugeMetricFamily(
        "muster_producers", "Producer ids for which partitions keep state.", value=scan.producers
    )
    yield GaugeMetricFamily(
        "muster_offsets_pending",
        "Pending offsets of open transactions.",
        value=sum(
            hosted.core.view.offsets.pending_count() for hosted in sources.groups.hosted_shards
        ),
    )
    ended = CounterMetricFamily(
        "muster_transactional_offsets_total",
        "Offsets in ended transactions, by outcome: committed or dropped.",
        labels=["outcome"],
    )
    for committed, count in sources.totals.transactional_offsets.items():
        ended.add_metric(["committed" if committed else "dropped"], count)
    yield ended
    yield from _shards(sources)


def by_error(name: str, meaning: str, counts: dict[int, int]) -> Metric:
    """Returns a family of counters, labelled with the name of the error. ``counts`` is by error
    code."""
    found = CounterMetricFamily(name, meaning, labels=["error"])
    for code, count in counts.items():
        found.add_metric([NAMES.get(code, str(code))], count)
    return found


def _shards(sources: Sources) -> Iterator[Metric]:
    hosted_shards = sources.transactions.hosted_shards
    yield shards_by_phase(
        "muster_transaction_shards", "Partitions of __transaction_state by state.", hosted_shards
    )
    yield GaugeMetricFamily(
        "muster_transaction_load_seconds",
        "Time to load the transactional ids.",
        value=sum(max(0, hosted.load_ms) for hosted in hosted_shards) / 1000,
    )
    yield GaugeMetricFamily(
        "muster_transaction_load_records",
        "Records read to load the transactional ids.",
        value=sum(hosted.loaded_records for hosted in hosted_shards),
    )


def add_completion(sources: Sources, families: Families) -> None:
    """Adds the histogram of the times from the decision to commit or abort a transaction to its
    last marker."""
    completion = families.family(
        "muster_transaction_completion_seconds",
        "Time from the decision of a transaction's outcome to its last marker.",
        "histogram",
    )
    times = sources.totals.transactions.completion
    completion.add_histogram("", times, *_COMPLETION_BITS, 1000)
