"""Settings that Muster accepts but does not follow, although an operator who sets them expects a
cluster or a guarantee.

Other settings without effect, such as a thread pool or a timer of Kafka's implementation, do not
matter to an operator, and are not listed here. The log at the start and `muster config check`
report what Muster does instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_ALONE: Final = "this broker runs standalone"


class NotFollowed(NamedTuple):
    """The values of a setting that Muster does not follow, and a text that says what Muster does
    instead."""

    asks: Callable[[str], bool]
    when: str
    instead: str
    unless: str = ""
    """The name of a second setting, or "". Muster supports the setting of this row if the second
    setting is set."""


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _has_value(text: str) -> bool:
    return text.strip() != ""


_NO_CLASSES = NotFollowed(
    _has_value, "a value is set", "Muster does not load Java classes; its metrics are at /metrics"
)

NOT_FOLLOWED: Final[Mapping[str, NotFollowed]] = {
    "allow.everyone.if.no.acl.found": NotFollowed(
        lambda text: text.strip().lower() == "false",
        "the value is false",
        "no effect without authorizer.class.name: every client may do everything",
        unless="authorizer.class.name",
    ),
    "config.providers": NotFollowed(
        _has_value,
        "a value is set",
        "Muster does not have config providers: with a value such as ${file:/path:key}, the broker"
        " does not start",
    ),
    "controller.quorum.bootstrap.servers": NotFollowed(
        lambda text: len(_parts(text)) > 1,
        "the list has more than one entry",
        f"Muster does not join a quorum: {_ALONE}",
    ),
    "controller.quorum.voters": NotFollowed(
        lambda text: len(_parts(text)) > 1,
        "the list has more than one entry",
        f"Muster does not join a quorum: {_ALONE}",
    ),
    "kafka.metrics.reporters": _NO_CLASSES,
    "metric.reporters": _NO_CLASSES,
    "min.insync.replicas": NotFollowed(
        lambda text: text.strip() != "1",
        "the value is above 1",
        "a partition of a standalone broker has one replica, and acks=all waits only for that"
        " replica",
        unless="zookeeper.connect",
    ),
    "process.roles": NotFollowed(
        lambda text: len(_parts(text)) == 1,
        "the value lists only one role",
        f"Muster neither connects to a KRaft controller nor can be one: {_ALONE}",
    ),
    "replica.selector.class": NotFollowed(
        _has_value,
        "a value is set",
        "consumers fetch from the leader, not from the nearest replica (KIP-392)",
    ),
    "remote.log.storage.system.enable": NotFollowed(
        lambda text: text.strip().lower() == "true",
        "the value is true",
        "Muster does not have tiered storage: segments stay in log.dirs until retention"
        " removes them",
    ),
}
"""The settings that Muster does not follow, by name. The functions receive the value as text."""

_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


def not_followed(name: str | None, text: str, given: Mapping[str, str]) -> str | None:
    """Returns a text that says what Muster does instead of following the setting; None if Muster
    follows it. ``given`` has all settings as they were written."""
    found = None if name is None else NOT_FOLLOWED.get(name)
    if found is not None and given.get(found.unless, "").strip():
        return None
    return found.instead if found is not None and found.asks(text) else None


def refers_to_provider(text: str) -> bool:
    """Returns True if Kafka would replace this value when config.providers is set."""
    return _REFERENCE.search(text) is not None
