"""Series of rights: what was denied, and how many entries there are to judge by."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.metrics.sources import Sources
from security.acls.model import spelled


def rights_families(sources: Sources) -> Iterator[Metric]:
    """Without an authorizer nothing is denied, and there are no entries."""
    denied = CounterMetricFamily(
        "muster_authorization_denied_total",
        "Uses of resources that were denied.",
        labels=["api", "operation", "resource_type"],
    )
    for (api, operation, kind), count in sources.audit.counts.items():
        denied.add_metric([api, spelled(operation), spelled(kind)], count)
    yield denied
    entries = 0 if sources.acls is None else len(sources.acls.index)
    yield GaugeMetricFamily("muster_acls", "Access control entries.", value=entries)
