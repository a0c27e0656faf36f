"""The settings of topics and brokers, as returned by DescribeConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cli.client.cluster import Connection
from cli.errors import refused
from protocol.errors import UNKNOWN_TOPIC_OR_PARTITION

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

TOPIC_SOURCE, BROKER_SOURCE, EVERY_BROKER_SOURCE = 1, 2, 3
"""Values of the field config_source in DescribeConfigs v1 and later (KIP-226)."""
UNKNOWN_SOURCE = -1
"""The value of config_source for each setting of a DescribeConfigs v0 response, which does not have
this field."""

Entry = dict[str, Any]
"""One setting, with the fields of a DescribeConfigs response."""


class Resource(NamedTuple):
    """A resource with settings: a topic, one broker, or the defaults of all brokers
    (BROKER_RESOURCE with the name "")."""

    kind: int
    name: str

    def __str__(self) -> str:
        if self.kind == TOPIC_RESOURCE:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "every broker"


def describe(
    connection: Connection,
    resource: Resource,
    names: list[str] | None = None,
    timeout_s: float | None = None,
) -> dict[str, Entry]:
    """Returns the settings of a resource, by name. If ``names`` is None, returns all settings."""
    return describe_each(connection, [resource], names, timeout_s)[resource]


def describe_each(
    connection: Connection,
    resources: Sequence[Resource],
    names: list[str] | None = None,
    timeout_s: float | None = None,
    explained: bool = True,
) -> dict[Resource, dict[str, Entry]]:
    """Returns the settings of several resources, with one request. Raises CommandError for the
    first resource that is rejected. ``explained`` adds synonyms and documentation, which make up
    most of a response."""
    asked = [
        {
            "resource_type": resource.kind,
            "resource_name": resource.name,
            "configuration_keys": names,
        }
        for resource in resources
    ]
    answer = connection.call(
        "DescribeConfigs",
        {
            "resources": asked,
            "include_synonyms": explained,
            "include_documentation": explained,
        },
        timeout_s,
    )
    found = {}
    for result in answer["results"]:
        resource = Resource(result["resource_type"], result["resource_name"])
        code = result["error_code"]
        if code:
            message = None if code == UNKNOWN_TOPIC_OR_PARTITION else result["error_message"]
            raise refused(f"settings of {resource}", code, message)
        entries = sorted(result["configs"], key=lambda entry: str(entry["name"]))
        found[resource] = {entry["name"]: entry for entry in entries}
    return found


def own_settings(resource: Resource, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Returns the settings that are set on the topic itself, or dynamically on the broker."""
    if resource.kind == TOPIC_RESOURCE:
        sources = {TOPIC_SOURCE, UNKNOWN_SOURCE}
    else:
        sources = {BROKER_SOURCE if resource.name else EVERY_BROKER_SOURCE}
    return {
        name: entry
        for name, entry in entries.items()
        if entry["config_source"] in sources and not entry["is_default"]
    }
