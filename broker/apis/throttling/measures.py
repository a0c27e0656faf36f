"""What measured requests of one broker ask for."""

from __future__ import annotations

from typing import NamedTuple

from broker.apis.fetch.sessions import FetchSessions
from broker.net.limits.throttles import Throttles
from broker.net.request import ServedApi
from broker.net.required_acls import AMONG_BROKERS
from broker.quotas.client_quotas import ClientQuotas
from protocol.api_keys import WRITE_TXN_MARKERS


class Measures(NamedTuple):
    """See the module."""

    quotas: ClientQuotas
    throttles: Throttles
    fetch_sessions: FetchSessions

    def now_ms(self) -> int:
        """The clock by which quotas are held, monotonic."""
        return self.quotas.time.now().mono_ms


def is_of_brokers(row: ServedApi) -> bool:
    """Whether brokers send it, whom no quota bounds: it bounds those who are denied it.

    WriteTxnMarkers operators may send too.
    """
    return row.rights is AMONG_BROKERS or row.api.key == WRITE_TXN_MARKERS
