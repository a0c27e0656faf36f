"""``/brokers/ids/<id>``, the registration of a broker, and ``/brokers/seqid``, which generates
broker ids.

Kafka writes version 5 (with features) since 2.7, and version 4 (with a listener map) since 0.10.2.
Version 3 added the rack, version 2 the endpoints. Version 1 had only a host and a port. ``host``
and ``port`` are those of the first PLAINTEXT endpoint, for old clients; null and -1 if no endpoint
is PLAINTEXT. Source: KIP-4, KIP-103, KIP-584.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol.znodes.fields import INT64_MAX, BadNode, Fields, encode

IDS = "/brokers/ids"
SEQUENCE_IDS = "/brokers/seqid"
VERSION = 5
VERSION_BEFORE_FEATURES = 4
PLAINTEXT = "PLAINTEXT"
_ENDPOINT = re.compile(r"([A-Za-z0-9_]+)://\[?([^\]]*?)\]?:(\d+)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address at which a broker listens."""

    listener: str
    host: str
    port: int
    security_protocol: str = PLAINTEXT

    @property
    def text(self) -> str:
        """The endpoint in Kafka's notation: ``LISTENER://host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """The content of a broker's registration node."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    jmx_port: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The minimum and the maximum level of each feature, by feature name."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Returns the endpoint of a listener; None if the broker has no such listener."""
        return next((each for each in self.endpoints if each.listener == listener), None)


def path(broker_id: int) -> str:
    """Returns the path of a broker's registration."""
    return f"{IDS}/{broker_id}"


def encode_registration(broker: Registration, version: int = VERSION) -> bytes:
    """Returns the data of the node, in version 4 or 5."""
    plain = next((each for each in broker.endpoints if each.security_protocol == PLAINTEXT), None)
    value: dict[str, Any] = {}
    if version >= VERSION:
        value["features"] = {
            name: {"min_version": low, "max_version": high}
            for name, (low, high) in broker.features.items()
        }
    value["listener_security_protocol_map"] = {
        each.listener: each.security_protocol for each in broker.endpoints
    }
    value["endpoints"] = [each.text for each in broker.endpoints]
    value["jmx_port"] = broker.jmx_port
    value["port"] = -1 if plain is None else plain.port
    value["host"] = None if plain is None else plain.host
    value["version"] = version
    value["timestamp"] = str(broker.timestamp_ms)
    if broker.rack is not None:
        value["rack"] = broker.rack
    return encode(value)


def decode_registration(broker_id: int, data: bytes) -> Registration:
    """Returns the registration in a node. Raises BadNode."""
    fields = Fields(path(broker_id), data)
    version = fields.number("version")
    if version < 1:
        raise fields.bad("version", "1 or more")
    protocols = fields.texts("listener_security_protocol_map")
    if version == 1:
        endpoints = [Endpoint(PLAINTEXT, fields.text("host"), fields.number("port"))]
    else:
        written = fields.all.get("endpoints")
        if not isinstance(written, list):
            raise fields.bad("endpoints", "a list")
        endpoints = [_endpoint(broker_id, each, protocols) for each in written]
    return Registration(
        broker_id,
        tuple(endpoints),
        fields.text_or_none("rack"),
        fields.number("timestamp", 0, INT64_MAX),
        fields.number("jmx_port", -1),
        _features(fields),
    )


def _endpoint(broker_id: int, text: Any, protocols: Mapping[str, str]) -> Endpoint:
    found = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadNode(path(broker_id), f"has {str(text)[:100]!r}, which is not an endpoint")
    listener = found[1]
    return Endpoint(listener, found[2], int(found[3]), protocols.get(listener, listener))


def _features(fields: Fields) -> dict[str, tuple[int, int]]:
    features = fields.all.get("features") or {}
    try:
        return {
            name: (int(level["min_version"]), int(level["max_version"]))
            for name, level in features.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise fields.bad("features", "an object with the level of each feature") from None
