"""Settings that ask for what Muster does not do, though it starts with them.

Most settings without effect ask for nothing that is missed: a pool's threads, a timer of Kafka's
own. These do: whoever sets them expects a cluster, or a promise. The start's log and `muster config
check` say what is so instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_ALONE: Final = "it starts as a broker by itself"


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
    _has_value, "to anything", "Muster loads no Java classes; /metrics has its metrics"
)

NOT_FOLLOWED: Final[Mapping[str, NotFollowed]] = {
    "allow.everyone.if.no.acl.found": NotFollowed(
        lambda text: text.strip().lower() == "false",
        "to false",
        "it has no effect without authorizer.class.name: everybody may do everything",
        unless="authorizer.class.name",
    ),
    "config.providers": NotFollowed(
        _has_value,
        "to anything",
        "Muster has no config providers: a value such as ${file:/path:key} ends the start",
    ),
    "controller.quorum.bootstrap.servers": NotFollowed(
        lambda text: len(_parts(text)) > 1, "to more than one", f"Muster joins no quorum: {_ALONE}"
    ),
    "controller.quorum.voters": NotFollowed(
        lambda text: len(_parts(text)) > 1, "to more than one", f"Muster joins no quorum: {_ALONE}"
    ),
    "kafka.metrics.reporters": _NO_CLASSES,
    "metric.reporters": _NO_CLASSES,
    "min.insync.replicas": NotFollowed(
        lambda text: text.strip() != "1",
        "to more than 1",
        "every partition has one replica, and acks=all waits for that one",
        unless="zookeeper.connect",
    ),
    "process.roles": NotFollowed(
        lambda text: len(_parts(text)) == 1,
        "to broker alone or controller alone",
        f"Muster joins no controller and is none for others: {_ALONE}",
    ),
    "replica.selector.class": NotFollowed(
        _has_value,
        "to anything",
        "consumers read from the leader, wherever they are (KIP-392)",
    ),
    "remote.log.storage.system.enable": NotFollowed(
        lambda text: text.strip().lower() == "true",
        "to true",
        "Muster has no tiered storage: segments stay in log.dirs until retention removes them",
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
