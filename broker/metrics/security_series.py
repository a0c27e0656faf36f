"""Makes the metric families about security: authentication, quotas, TLS, denied operations and
ACLs."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.authentication.logins import RESULTS, Logins, Result
from broker.metrics.sources import Sources
from broker.net.tls.certificates import Certificates
from security.acls.model import spelled


def security_families(sources: Sources) -> Iterator[Metric]:
    """Yields the metric families about security, except those of `rights_families`."""
    yield from _logins(sources.logins)
    yield from _quotas(sources)
    yield from _tls(sources.certificates)


def _logins(logins: Logins) -> Iterator[Metric]:
    authentication = CounterMetricFamily(
        "muster_authentication_total",
        "SASL logins and reauthentications.",
        labels=["listener", "mechanism", "result"],
    )
    known = {
        Result(listener, mechanism, result)
        for listener, mechanism in logins.offered
        for result in RESULTS
    }
    for each in sorted(known | logins.counts.keys()):
        authentication.add_metric(each, logins.counts[each])
    yield authentication
    yield GaugeMetricFamily(
        "muster_connections_before_login",
        "Connections that have not logged in yet.",
        value=logins.strangers,
    )


def _quotas(sources: Sources) -> Iterator[Metric]:
    quotas = sources.quotas
    times = CounterMetricFamily(
        "muster_throttles_total", "Responses throttled because of a quota.", labels=["kind"]
    )
    seconds = CounterMetricFamily(
        "muster_throttle_seconds_total",
        "Total time for which responses were throttled.",
        labels=["kind"],
    )
    for kind, throttled in quotas.throttled.items():
        times.add_metric([kind], throttled.times)
        seconds.add_metric([kind], throttled.ms / 1000)
    yield from (times, seconds)
    by_user = CounterMetricFamily(
        "muster_user_throttle_seconds_total",
        "Sum of throttle times of the user's clients.",
        labels=["user"],
    )
    for user, theirs in quotas.throttled_users.items():
        by_user.add_metric([user], theirs.ms / 1000)
    yield by_user
    yield GaugeMetricFamily(
        "muster_throttled_connections",
        "Connections that are muted because of a quota.",
        value=len(sources.server.throttles),
    )


def _tls(certificates: Certificates) -> Iterator[Metric]:
    handshakes = CounterMetricFamily(
        "muster_tls_handshakes_total", "TLS handshakes.", labels=["listener", "result"]
    )
    for tls in certificates.listeners():
        handshakes.add_metric([tls.endpoint.name, "success"], tls.done)
        handshakes.add_metric([tls.endpoint.name, "failure"], tls.failed)
    yield handshakes
    expiry = GaugeMetricFamily(
        "muster_certificate_expiry_seconds",
        "Time until the certificate of the listener expires; negative if it has expired.",
        labels=["listener"],
    )
    for listener, left_s in certificates.seconds_left().items():
        expiry.add_metric([listener], left_s)
    yield expiry


def rights_families(sources: Sources) -> Iterator[Metric]:
    """Yields the metric families about denied operations and ACLs. Without an authorizer, their
    values are 0."""
    denied = CounterMetricFamily(
        "muster_authorization_denied_total",
        "Denied operations on resources.",
        labels=["api", "operation", "resource_type"],
    )
    for (api, operation, kind), count in sources.audit.counts.items():
        denied.add_metric([api, spelled(operation), spelled(kind)], count)
    yield denied
    entries = 0 if sources.acls is None else len(sources.acls.index)
    yield GaugeMetricFamily("muster_acls", "Access control entries.", value=entries)
