"""StreamsGroupHeartbeat (88) and StreamsGroupDescribe (89) in a cluster, where the feature
streams.version decides whether brokers may write the records of streams groups (KIP-1071,
KIP-584)."""

from __future__ import annotations

from broker.apis.in_cluster.feature_guard import guarded, refuse_each_group, refuse_heartbeat
from broker.apis.streams_group_describe import SERVED as DESCRIBE
from broker.apis.streams_group_heartbeat import SERVED as HEARTBEAT
from broker.config.config_table import STREAMS_VERSION

_OTHERWISE = ", or use group.protocol=classic"

STREAMS_ROWS = (
    guarded(DESCRIBE, STREAMS_VERSION, refuse_each_group, otherwise=_OTHERWISE),
    guarded(HEARTBEAT, STREAMS_VERSION, refuse_heartbeat, otherwise=_OTHERWISE),
)
"""The rows of streams groups that differ from the rows of a standalone broker."""
