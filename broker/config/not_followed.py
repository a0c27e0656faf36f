"""Settings that ask for what Muster does not do, though it starts with them.

Most settings without effect ask for nothing that is missed: a pool's threads, a timer of Kafka's
own. These do: whoever sets them expects a cluster, or a promise. The start's log and `muster config
check` say what is so instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_ALONE: Final = "it runs standalone"


class NotFollowed(NamedTuple):
    """When a setting asks for something, and what is so instead."""

    asks: Callable[[str], bool]
    when: str
    instead: str
    unless: str = ""
    """The setting with which it is followed: for a cluster's, that which joins one."""


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _has_value(text: str) -> bool:
    return text.strip() != ""


_NO_CLASSES = NotFollowed(
    _has_value, "to any value", "Muster does not load Java classes; its metrics are at /metrics"
)

NOT_FOLLOWED: Final[Mapping[str, NotFollowed]] = {
    "allow.everyone.if.no.acl.found": NotFollowed(
        lambda text: text.strip().lower() == "false",
        "to false",
        "no effect without authorizer.class.name: every client may do everything",
        unless="authorizer.class.name",
    ),
    "config.providers": NotFollowed(
        _has_value,
        "to any value",
        "Muster does not have config providers: a start with a value such as"
        " ${file:/path:key} is refused",
    ),
    "controller.quorum.bootstrap.servers": NotFollowed(
        lambda text: len(_parts(text)) > 1,
        "to more than one",
        f"Muster does not join a quorum: {_ALONE}",
    ),
    "controller.quorum.voters": NotFollowed(
        lambda text: len(_parts(text)) > 1,
        "to more than one",
        f"Muster does not join a quorum: {_ALONE}",
    ),
    "kafka.metrics.reporters": _NO_CLASSES,
    "metric.reporters": _NO_CLASSES,
    "min.insync.replicas": NotFollowed(
        lambda text: text.strip() != "1",
        "to more than 1",
        "a partition has one replica, and acks=all waits for that replica",
        unless="zookeeper.connect",
    ),
    "process.roles": NotFollowed(
        lambda text: len(_parts(text)) == 1,
        "to broker only or controller only",
        f"Muster does not join a controller, nor is it one for others: {_ALONE}",
    ),
    "replica.selector.class": NotFollowed(
        _has_value,
        "to any value",
        "consumers fetch from the leader, not from the nearest replica (KIP-392)",
    ),
    "remote.log.storage.system.enable": NotFollowed(
        lambda text: text.strip().lower() == "true",
        "to true",
        "Muster does not have tiered storage: segments stay in log.dirs until retention"
        " removes them",
    ),
}
"""By name; the value passed is as it was written."""

_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


def not_followed(name: str | None, text: str, given: Mapping[str, str]) -> str | None:
    """How the broker differs from what the setting asks for; None where it does not.

    ``given`` has all settings as they were written.
    """
    found = None if name is None else NOT_FOLLOWED.get(name)
    if found is not None and given.get(found.unless, "").strip():
        return None
    return found.instead if found is not None and found.asks(text) else None


def refers_to_provider(text: str) -> bool:
    """Whether Kafka, with config.providers, would put another value in the place of this one."""
    return _REFERENCE.search(text) is not None
