"""The rules that combinations of ``group.*`` and ``offsets.*`` settings must satisfy.

Source: Kafka 4.3.1 ``GroupCoordinatorConfig`` and ``ShareGroupConfig``, Kafka 3.9 ``KafkaConfig``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from broker.config.config_value import Fault

_AT_MOST = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.assignment.interval.ms",
    ),
    (
        "group.consumer.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    ("group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ("group.share.min.delivery.count.limit", "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", "group.share.max.delivery.count.limit"),
    ("group.share.min.partition.max.record.locks", "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"),
    ("group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.min.assignment.interval.ms", "group.streams.assignment.interval.ms"),
    ("group.streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
"""Pairs of settings. The first setting must not be greater than the second."""

_ASSIGNORS = frozenset(
    name
    for short in ("Uniform", "Range")
    for name in (f"org.apache.kafka.coordinator.group.assignor.{short}Assignor", short.lower())
)
_CODECS = (
    "offsets.topic.compression.codec",
    "share.coordinator.state.topic.compression.codec",
)
_SHARE_ASSIGNORS = frozenset(
    ("org.apache.kafka.coordinator.group.assignor.SimpleAssignor", "simple")
)
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
_PROTOCOLS = "group.coordinator.rebalance.protocols"


class Settings(Protocol):
    """Gives access to typed values of settings, by Kafka's names."""

    def __getitem__(self, name: str) -> Any: ...

    def is_given(self, name: str) -> bool:
        """Returns True if a file, a variable or an option has set the setting."""


def group_faults(config: Settings) -> Iterator[Fault]:
    for low, high in _AT_MOST:
        if config[low] > config[high]:
            yield Fault(
                (low, high),
                f"{_shown(config, low)} must not be above {_shown(config, high)}",
            )
    for name in _CODECS:
        if not 0 <= config[name] <= 4:
            yield Fault(
                (name,),
                f"{_shown(config, name)}: it must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or"
                " 4 (zstd)",
            )
    name = "offsets.commit.required.acks"
    if config[name] not in (-1, 0, 1):
        yield Fault((name,), f"{_shown(config, name)}: it must be -1, 0 or 1")
    yield from _protocol_faults(config)
    name = "group.consumer.assignors"
    for each in _parts(config[name]):
        if each not in _ASSIGNORS:
            yield Fault(
                (name,),
                f"{name}={each}: unknown assignor; remove the setting, or set it to uniform or"
                " range",
            )
    name = "group.share.assignors"
    for each in _parts(config[name]):
        if each not in _SHARE_ASSIGNORS:
            yield Fault(
                (name,), f"{name}={each}: unknown assignor; remove the setting, or set it to simple"
            )


def _protocol_faults(config: Settings) -> Iterator[Fault]:
    name = _PROTOCOLS
    protocols = set(_parts(config[name]))
    others = sorted(protocols - {CLASSIC, CONSUMER, SHARE, STREAMS})
    if CLASSIC not in protocols:
        yield Fault((name,), f"{name}={config[name]}: the classic protocol can't be disabled")
    elif others:
        yield Fault(
            (name,),
            f"{name}={config[name]}: Muster serves the classic, consumer, share and streams"
            f" protocols, not {' or '.join(others)}: set {name}=classic,consumer,share,streams",
        )
    for kind in (CONSUMER, SHARE, STREAMS):
        low, high = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if config[low] >= config[high]:
            yield Fault((low, high), f"{_shown(config, low)} must be below {_shown(config, high)}")


def serves_consumer_groups(config: Settings) -> bool:
    """Returns True if the broker serves consumer groups (KIP-848)."""
    return CONSUMER in _parts(config[_PROTOCOLS])


def serves_share_groups(config: Settings) -> bool:
    """Returns True if the broker serves share groups (KIP-932)."""
    return SHARE in _parts(config[_PROTOCOLS])


def serves_streams_groups(config: Settings) -> bool:
    """True if the broker serves streams groups of KIP-1071."""
    return STREAMS in _parts(config[_PROTOCOLS])


def consumer_assignors(config: Settings) -> tuple[str, ...]:
    """Returns the assignors in ``group.consumer.assignors``, in order, by their short names."""
    return tuple(
        each.rpartition(".")[2].removesuffix("Assignor").lower()
        for each in _parts(config["group.consumer.assignors"])
    )


def _parts(text: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in text.split(",")))


def _shown(config: Settings, name: str) -> str:
    """Returns the setting and its value as text, with a note if the value is the default."""
    return f"{name}={config[name]}" + ("" if config.is_given(name) else " (the default)")
