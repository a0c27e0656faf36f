"""The quotas, throttled connections and fetch sessions that all meters of a broker share."""

from __future__ import annotations

from typing import NamedTuple

from broker.apis.fetch.sessions import FetchSessions
from broker.net.limits.throttles import Throttles
from broker.net.request import ServedApi
from broker.net.required_acls import AMONG_BROKERS
from broker.quotas.client_quotas import ClientQuotas
from protocol.api_keys import WRITE_TXN_MARKERS


class Measures(NamedTuple):
    """The objects that all meters use: the quotas, the throttled connections, and the fetch
    sessions."""

    quotas: ClientQuotas
    throttles: Throttles
    fetch_sessions: FetchSessions

    def now_ms(self) -> int:
        """Returns the monotonic time of the quotas' clock, in ms."""
        return self.quotas.time.now().mono_ms


def is_of_brokers(row: ServedApi) -> bool:
    """Returns True if only brokers send requests of this API, so that quotas do not apply.

    WriteTxnMarkers is included, although operators may send it too. The caller still counts a
    denied request against the client's quota.
    """
    return row.rights is AMONG_BROKERS or row.api.key == WRITE_TXN_MARKERS
