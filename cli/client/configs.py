"""The settings of topics and brokers, as a broker describes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from cli.client.cluster import Connection
from cli.errors import refused
from protocol.errors import UNKNOWN_TOPIC_OR_PARTITION

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

Entry = dict[str, Any]
"""One setting, with the fields of DescribeConfigs."""


class Resource(NamedTuple):
    """What has settings: a topic, a broker, or (a broker without a name) every broker."""

    kind: int
    name: str

    def __str__(self) -> str:
        if self.kind == TOPIC_RESOURCE:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "every broker"


def describe(
    connection: Connection, resource: Resource, names: list[str] | None = None
) -> dict[str, Entry]:
    """The settings of a resource by name; all of them where no names are given."""
    asked = {
        "resource_type": resource.kind,
        "resource_name": resource.name,
        "configuration_keys": names,
    }
    answer = connection.call(
        "DescribeConfigs",
        {"resources": [asked], "include_synonyms": True, "include_documentation": True},
    )
    result = answer["results"][0]
    code = result["error_code"]
    if code:
        message = None if code == UNKNOWN_TOPIC_OR_PARTITION else result["error_message"]
        raise refused(f"settings of {resource}", code, message)
    return {
        entry["name"]: entry for entry in sorted(result["configs"], key=lambda e: str(e["name"]))
    }
