"""Changes settings of one topic or broker, with the newest API that the broker supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cli.client.cluster import Connection
from cli.client.configs import Entry, Resource, own_settings
from cli.errors import CommandError, refused

SET, DELETE, APPEND, SUBTRACT = range(4)


class Operation(NamedTuple):
    """One change of one setting; ``value`` is None for the operation DELETE."""

    setting: str
    operation: int
    value: str | None


def alter(
    connection: Connection,
    resource: Resource,
    operations: Sequence[Operation],
    before: Mapping[str, Entry],
    validate_only: bool = False,
) -> None:
    """Makes the changes atomically. ``before`` contains the current settings. Raises CommandError
    if the broker rejects the changes."""
    if connection.supports("IncrementalAlterConfigs", 0):
        api = "IncrementalAlterConfigs"
        configs: list[dict[str, Any]] = [
            {"name": name, "config_operation": operation, "value": value}
            for name, operation, value in operations
        ]
    else:  # Kafka before 2.3 replaces all settings of a resource at once
        api = "AlterConfigs"
        configs = [
            {"name": name, "value": value}
            for name, value in all_after(resource, operations, before).items()
        ]
    asked = {"resource_type": resource.kind, "resource_name": resource.name, "configs": configs}
    answer = connection.call(api, {"resources": [asked], "validate_only": validate_only})
    result = answer["responses"][0]
    if result["error_code"]:
        raise refused(f"settings of {resource}", result["error_code"], result["error_message"])


def list_after(operation: Operation, entry: Entry | None) -> list[str]:
    """Returns the elements of a list setting after the operation APPEND or SUBTRACT."""
    there = [part for part in ((entry or {}).get("value") or "").split(",") if part]
    parts = (operation.value or "").split(",")
    if operation.operation == APPEND:
        return there + [part for part in parts if part not in there]
    return [part for part in there if part not in parts]


def all_after(
    resource: Resource, operations: Sequence[Operation], before: Mapping[str, Entry]
) -> dict[str, str]:
    """Returns all own settings that the resource has after the operations. An AlterConfigs request
    must contain all of them, because it replaces all settings."""
    own = own_settings(resource, before)
    hidden = [name for name, entry in own.items() if entry["is_sensitive"]]
    if hidden:
        raise CommandError(
            f"{resource}: the broker is older than Kafka 2.3, so any change would delete the hidden"
            f" setting {hidden[0]}; use the tools of that Kafka version"
        )
    whole = {name: str(entry["value"]) for name, entry in own.items()}
    for operation in operations:
        if operation.operation == DELETE:
            whole.pop(operation.setting, None)
        elif operation.operation == SET:
            whole[operation.setting] = operation.value or ""
        else:
            whole[operation.setting] = ",".join(
                list_after(operation, before.get(operation.setting))
            )
    return whole
