"""Requests that alter and describe settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.wire import Wire

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)

Operation = tuple[str, int, str | None]
"""Name of the setting, code of the operation, and value."""


def alter(
    wire: Wire,
    name: str,
    *operations: Operation,
    kind: int = TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """Sends IncrementalAlterConfigs for one resource. Returns error code and message."""
    configs = [
        {"name": setting, "config_operation": operation, "value": value}
        for setting, operation, value in operations
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    request = {"resources": [resource], "validate_only": validate_only}
    return _only(wire.call("IncrementalAlterConfigs", version, request))


def replace(
    wire: Wire,
    name: str,
    configs: Mapping[str, str | None],
    *,
    kind: int = TOPIC,
    version: int = 2,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """Sends AlterConfigs for one resource. Returns error code and message."""
    pairs = [{"name": setting, "value": value} for setting, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": pairs}
    request = {"resources": [resource], "validate_only": validate_only}
    return _only(wire.call("AlterConfigs", version, request))


def _only(answer: dict[str, Any]) -> tuple[int, str | None]:
    (entry,) = answer["responses"]
    return entry["error_code"], entry["error_message"]


def described(wire: Wire, name: str, kind: int = TOPIC) -> dict[str, dict[str, Any]]:
    """Sends DescribeConfigs for one resource, with synonyms. Returns its entries by setting
    name."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    asked = {"resources": [resource], "include_synonyms": True}
    (result,) = wire.call("DescribeConfigs", 4, asked)["results"]
    assert result["error_code"] == 0, result["error_message"]
    return {entry["name"]: entry for entry in result["configs"]}


def value_of(wire: Wire, name: str, setting: str, kind: int = TOPIC) -> tuple[str, int]:
    """Returns the value of a setting and the code of its source."""
    entry = described(wire, name, kind)[setting]
    return entry["value"], entry["config_source"]


def synonyms_of(wire: Wire, name: str, setting: str, kind: int = TOPIC) -> list[Any]:
    entry = described(wire, name, kind)[setting]
    return [(each["name"], each["value"], each["source"]) for each in entry["synonyms"]]
