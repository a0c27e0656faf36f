"""Shell completion of names: topics, groups, members, ids, settings. The names come from the broker
of --bootstrap in the command line, or of MUSTER_BOOTSTRAP. If the broker does not respond within a
second, the completion is empty, without an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from cli import clock
from cli.client.cluster import Cluster
from cli.client.configs import BROKER_RESOURCE, TOPIC_RESOURCE, Resource, describe
from cli.client.group_reads import TYPES, list_groups, read_group
from cli.client.transaction_reads import list_transactions

WITHIN_S = 1.0

Given = Mapping[str, Any]
"""The parameters that the user has typed so far, by parameter name."""
Source = Callable[[Cluster, Given], list[str]]


def _topics(cluster: Cluster, _: Given) -> list[str]:
    return [topic["name"] for topic in cluster.metadata(None)["topics"] if not topic["is_internal"]]


def _groups(cluster: Cluster, _: Given) -> list[str]:
    return [row["group"] for row in list_groups(cluster)]


def _transactional_ids(cluster: Cluster, _: Given) -> list[str]:
    return [each.transactional_id for each in list_transactions(cluster)]


def _members(cluster: Cluster, given: Given) -> list[str]:
    return [row["member"] for row in read_group(cluster, given["group"]).members]


def _instances(cluster: Cluster, given: Given) -> list[str]:
    members = read_group(cluster, given["group"]).members
    return [row["instance"] for row in members if row["instance"]]


def _settings(cluster: Cluster, given: Given) -> list[str]:
    return list(_described(cluster, given))


def _settings_with_values(cluster: Cluster, given: Given) -> list[str]:
    found = _described(cluster, given)
    return [f"{name}={entry['value'] or ''}" for name, entry in found.items()]


def _described(cluster: Cluster, given: Given) -> dict[str, Any]:
    """Returns the settings that can be changed for the topic or broker that the user has typed."""
    if given.get("topic"):
        found = describe(cluster.any, Resource(TOPIC_RESOURCE, given["topic"]))
    elif given.get("broker") is not None:
        node = given["broker"]
        found = describe(cluster.broker(node), Resource(BROKER_RESOURCE, str(node)))
    else:
        return {}
    return {name: entry for name, entry in found.items() if not entry["read_only"]}


_SOURCES: dict[str, Source] = {
    "topic": _topics,
    "topics": _topics,
    "partitions": _topics,
    "group": _groups,
    "groups": _groups,
    "id": _transactional_ids,
    "ids": _transactional_ids,
    "members": _members,
    "instance": _instances,
    "settings": _settings,
    "delete": _settings,
}
"""By parameter of a command: the function that lists names for shell completion."""
_OTHERWISE: dict[tuple[str, str], Source | None] = {
    ("create", "topics"): None,  # new names
    ("grow", "partitions"): None,  # a number
    ("set", "settings"): _settings_with_values,
}
"""Exceptions to _SOURCES, by command and parameter. None means no completion."""
_CHOICES = {
    "isolation": ["read_committed", "read_uncommitted"],
    "compression": ["none", "gzip", "snappy", "lz4", "zstd"],
    "acks": ["1", "all"],
    "kind": list(TYPES),
}


def with_names(command: Any) -> Any:
    """Adds the completion of names to a typer command and all its subcommands. Returns the
    command."""
    for name, below in getattr(command, "commands", {}).items():
        with_names(below)
        parameters = {each.name: each for each in below.params}
        if "bootstrap" not in parameters:
            continue
        for wanted, parameter in parameters.items():
            source = _OTHERWISE.get((name, wanted), _SOURCES.get(wanted))
            if source is not None:
                parameter._custom_shell_complete = _completer(source)
            elif wanted in _CHOICES:
                parameter._custom_shell_complete = _chooser(_CHOICES[wanted])
    return command


def _completer(source: Source) -> Callable[[Any, Any, str], list[str]]:
    def completed(context: Any, _: Any, incomplete: str) -> list[str]:
        found: list[str] = []

        def ask() -> None:
            with suppress(Exception):  # a completion's errors are not shown
                cluster = Cluster(context.params["bootstrap"], timeout_s=WITHIN_S)
                found.extend(source(cluster, context.params))

        clock.join(clock.start_thread(ask), WITHIN_S)
        return _beginning(incomplete, found)

    return completed


def _chooser(choices: list[str]) -> Callable[[Any, Any, str], list[str]]:
    return lambda _context, _parameter, incomplete: _beginning(incomplete, choices)


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
