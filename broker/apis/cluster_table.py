"""The table of APIs that a broker serves in a cluster: those of a broker alone, and more.

It is a module of its own, so that a broker alone starts without what stands behind these.
"""

from __future__ import annotations

from broker.apis.leader_and_isr import SERVED as LEADER_AND_ISR
from broker.apis.stop_replica import SERVED as STOP_REPLICA
from broker.apis.table import SERVED, by_key
from broker.apis.update_metadata import SERVED as UPDATE_METADATA

_AMONG_BROKERS = (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
)

SERVED_IN_CLUSTER = by_key(*SERVED.values(), *_AMONG_BROKERS)
"""API key to how it is served by a broker of a cluster, which other brokers ask too."""
