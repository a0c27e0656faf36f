"""The parts that the meters of one broker share."""

from __future__ import annotations

from typing import NamedTuple

from broker.apis.fetch.sessions import FetchSessions
from broker.net.limits.throttles import Throttles
from broker.net.request import ServedApi
from broker.net.required_acls import AMONG_BROKERS
from broker.quotas.client_quotas import ClientQuotas
from protocol.api_keys import WRITE_TXN_MARKERS


class Measures(NamedTuple):
    """The quotas, the throttled connections, the fetch sessions, and the clock for quotas."""

    quotas: ClientQuotas
    throttles: Throttles
    fetch_sessions: FetchSessions

    def now_ms(self) -> int:
        """Returns the time in ms of the monotonic clock for quotas."""
        return self.quotas.time.now().mono_ms


def is_of_brokers(row: ServedApi) -> bool:
    """True if an API is for brokers, which have no quota. A denied request counts against the
    client's quota.

    Operators may send WriteTxnMarkers too.
    """
    return row.rights is AMONG_BROKERS or row.api.key == WRITE_TXN_MARKERS
