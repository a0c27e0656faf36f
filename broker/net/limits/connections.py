"""Reads the limits on connections from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.config.config import Config


@dataclass(frozen=True)
class Limits:
    """The limits on connections, in the units of Kafka's settings."""

    request_bytes: int = 104857600
    """The value of socket.request.max.bytes."""
    idle_ms: int = 600000
    """The value of connections.max.idle.ms."""
    connections: int = 2147483647
    """The value of max.connections."""
    listener_connections: dict[str, int] = field(default_factory=dict)
    """The values of max.connections for single listeners, by listener name."""
    connections_per_ip: int = 2147483647
    """The value of max.connections.per.ip."""
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """The values of max.connections.per.ip.overrides, by address."""
    queued_bytes: int = -1
    """The value of queued.max.request.bytes; -1 means no limit."""
    requests_in_flight: int = 500
    """The value of queued.max.requests, which limits each connection separately."""
    send_buffer_bytes: int = 102400
    """The value of socket.send.buffer.bytes; -1 means the default of the system."""
    receive_buffer_bytes: int = 102400
    """The value of socket.receive.buffer.bytes; -1 means the default of the system."""
    backlog: int = 50
    """The value of socket.listen.backlog.size."""
    output_bytes: int = 256 * 1024
    """The number of bytes of unsent replies above which further requests of the connection are not
    handled."""


def limits_of(config: Config, overrides: Mapping[str, int] = {}) -> Limits:
    """Reads the limits from the properties; ``overrides`` contains the limits of single
    addresses."""
    return Limits(
        request_bytes=config["socket.request.max.bytes"],
        idle_ms=config["connections.max.idle.ms"],
        connections=config["max.connections"],
        listener_connections={
            endpoint.name: own
            for endpoint in config.listeners
            if (own := config.of_listener(endpoint.name).own("max.connections")) is not None
        },
        connections_per_ip=config["max.connections.per.ip"],
        connections_per_ip_overrides=overrides,
        queued_bytes=config["queued.max.request.bytes"],
        requests_in_flight=config["queued.max.requests"],
        send_buffer_bytes=config["socket.send.buffer.bytes"],
        receive_buffer_bytes=config["socket.receive.buffer.bytes"],
        backlog=config["socket.listen.backlog.size"],
    )
