"""The settings with which a broker replicates partitions."""

from __future__ import annotations

from dataclasses import dataclass

from broker.cluster.peers.inter_broker import InterBroker
from broker.cluster.peers.peer import Connect, connect
from broker.config.config import Config


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The settings of replication, which do not change while the broker runs."""

    node_id: int
    spoken: InterBroker
    listener: str
    """The name of the inter-broker listener."""
    fetchers: int = 1
    """The value of ``num.replica.fetchers``: the maximum number of connections to each leader."""
    wait_max_ms: int = 500
    """The value of ``replica.fetch.wait.max.ms``: how long a leader waits for new records before it
    responds."""
    min_bytes: int = 1
    """The value of ``replica.fetch.min.bytes``."""
    max_bytes: int = 10 << 20
    """The value of ``replica.fetch.response.max.bytes``."""
    partition_max_bytes: int = 1 << 20
    """The value of ``replica.fetch.max.bytes``."""
    backoff_ms: int = 1_000
    """The value of ``replica.fetch.backoff.ms``: how long a partition is not fetched after an
    error."""
    socket_timeout_ms: int = 30_000
    """The value of ``replica.socket.timeout.ms``."""
    request_timeout_ms: int = 30_000
    """The value of ``request.timeout.ms``."""
    lag_time_max_ms: int = 30_000
    """The value of ``replica.lag.time.max.ms``."""
    checkpoint_ms: int = 5_000
    """The value of ``replica.high.watermark.checkpoint.interval.ms``."""
    connect: Connect = connect
    """The function that connects to another broker."""


def replication_settings(
    config: Config,
    node_id: int,
    spoken: InterBroker,
    listener: str,
    connect: Connect = connect,
) -> ReplicationSettings:
    return ReplicationSettings(
        node_id,
        spoken,
        listener,
        config["num.replica.fetchers"],
        config["replica.fetch.wait.max.ms"],
        config["replica.fetch.min.bytes"],
        config["replica.fetch.response.max.bytes"],
        config["replica.fetch.max.bytes"],
        config["replica.fetch.backoff.ms"],
        config["replica.socket.timeout.ms"],
        config["request.timeout.ms"],
        config["replica.lag.time.max.ms"],
        config["replica.high.watermark.checkpoint.interval.ms"],
        connect,
    )
