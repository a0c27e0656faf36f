"""The limits on connections, from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.config.config import Config


@dataclass(frozen=True)
class Limits:
    """The limits on connections, in Kafka's units."""

    request_bytes: int = 104857600
    """socket.request.max.bytes"""
    idle_ms: int = 600000
    """connections.max.idle.ms"""
    connections: int = 2147483647
    """max.connections"""
    listener_connections: dict[str, int] = field(default_factory=dict)
    """max.connections of single listeners, by listener name"""
    connections_per_ip: int = 2147483647
    """max.connections.per.ip"""
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides, by address"""
    queued_bytes: int = -1
    """queued.max.request.bytes; -1 for no bound"""
    requests_in_flight: int = 500
    """queued.max.requests, applied to each connection"""
    send_buffer_bytes: int = 102400
    """socket.send.buffer.bytes; -1 for the system's"""
    receive_buffer_bytes: int = 102400
    """socket.receive.buffer.bytes; -1 for the system's"""
    backlog: int = 50
    """socket.listen.backlog.size"""
    output_bytes: int = 256 * 1024
    """Unsent bytes of replies above which the connection's further requests are not handled."""


def limits_of(config: Config, overrides: Mapping[str, int] = {}) -> Limits:
    """Reads the limits from the properties; ``overrides`` has the limits of single addresses."""
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
