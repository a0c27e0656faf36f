"""Connected clients with their principals and listeners, and denied operations.

docs/use/http-api.md describes the fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from broker.authorizer.audit import Denial, resource_text
from broker.metrics.sources import Sources
from broker.net.clients.totals import Client
from broker.net.peer import display_client_id
from security.acls.model import spelled

View = dict[str, Any]

SESSIONS_MAX = 10
"""The maximum number of pairs of principal and listener that are shown for one client."""

Session = tuple[str, str, str]
"""The properties by which connections of a client are counted: principal, listener, and the
listener's security protocol."""


def sessions(sources: Sources, read_max: int | None = None) -> dict[Client, Counter[Session]]:
    """Returns, for each client, the number of its connections per `Session` (principal, listener
    and security protocol). Reads at most ``read_max`` connections."""
    found: dict[Client, Counter[Session]] = {}
    for each in list(islice(sources.server.connections, read_max)):
        client = (display_client_id(each.client_id), each.client_host)
        session = (str(each.principal), each.listener.name, each.listener.protocol)
        counts = found.get(client)
        if counts is None:
            counts = found[client] = Counter()
        if session in counts or len(counts) < SESSIONS_MAX:
            counts[session] += 1
    return found


def session_views(counts: Counter[Session]) -> list[View]:
    """Returns the number of connections for each principal, listener and protocol."""
    return [
        {"principal": who, "listener": listener, "protocol": protocol, "connections": count}
        for (who, listener, protocol), count in sorted(counts.items())
    ]


def denial_view(denial: Denial) -> View:
    """Returns the view of one denied operation of one client, with its number of denials."""
    return {
        "principal": denial.principal,
        "host": denial.host,
        "client": denial.client_id,
        "api": denial.api,
        "operation": spelled(denial.operation),
        "resource_type": spelled(denial.kind),
        "name": denial.name or None,
        "resource": resource_text(denial.kind, denial.name),
        "rule": denial.rule,
        "count": denial.count,
        "first_ms": denial.first_ms,
        "last_ms": denial.last_ms,
    }


def denial_rows(sources: Sources) -> Iterator[View]:
    for denial in sources.audit.denials():
        yield denial_view(denial)
