"""The settings that a consumer group can override (KIP-848; resource type 32, GROUP).

Each value is within the bounds that the broker's settings define. If the bounds were changed after
a value was stored and the value is now outside, the nearest bound applies (KIP-1240).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.config.config import Config
from broker.config.config_table import INT, Setting
from broker.config.config_value import BadValue, parse_value
from coordinator.config import ConsumerSettings

SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"

_GROUP: Final = (
    Setting(
        ASSIGNMENT_INTERVAL_MS,
        INT,
        1000,
        "[0,...]",
        "The minimum time between two target assignments of the group; 0: each change"
        " computes a target assignment.",
    ),
    Setting(
        HEARTBEAT_INTERVAL_MS,
        INT,
        5000,
        "[1,...]",
        "How often a member of the group sends a heartbeat.",
    ),
    Setting(
        SESSION_TIMEOUT_MS,
        INT,
        45000,
        "[1,...]",
        "A member of the group that sends no heartbeat for this long is removed.",
    ),
)
GROUP: Final[dict[str, Setting]] = {setting.name: setting for setting in _GROUP}
"""The settings of a group by name."""


def broker_name(name: str) -> str:
    """Returns the name of the broker's setting that applies to groups without a value of their
    own."""
    return f"group.{name}"


def _bound(name: str, side: str) -> str:
    """Returns the broker's setting with the minimum (``side`` is "min") or maximum ("max") for a
    group's setting."""
    return f"group.{name.replace('consumer.', f'consumer.{side}.', 1)}"


def group_setting(name: str) -> Setting:
    """Returns the row of a group setting. Raises BadValue for an unknown name."""
    if name not in GROUP:
        raise BadValue(f"Unknown group config name: {name}")
    return GROUP[name]


def group_values(config: Config, own: Mapping[str, str]) -> dict[str, Any]:
    """Returns the typed value of every group setting: the group's own value, otherwise the broker's
    value.

    Raises BadValue for an unknown name, for an invalid value, and for a value outside of the
    broker's bounds.
    """
    values = {name: config[broker_name(name)] for name in GROUP}
    for name, text in own.items():
        value = values[name] = parse_value(group_setting(name), text)
        low, high = config[_bound(name, "min")], config[_bound(name, "max")]
        if not low <= value <= high:
            raise BadValue(
                f"Invalid value {value} for configuration {name}: it must be between"
                f" {_bound(name, 'min')}={low} and {_bound(name, 'max')}={high}"
            )
    if values[SESSION_TIMEOUT_MS] <= values[HEARTBEAT_INTERVAL_MS]:
        raise BadValue(
            f"Invalid value {values[SESSION_TIMEOUT_MS]} for configuration {SESSION_TIMEOUT_MS}:"
            f" it must be greater than {HEARTBEAT_INTERVAL_MS}={values[HEARTBEAT_INTERVAL_MS]}"
        )
    return values


def consumer_settings(config: Config, own: Mapping[str, str]) -> ConsumerSettings:
    """Returns the settings in effect for a group; stored values are limited to the broker's
    bounds."""
    values = {}
    for name, setting in GROUP.items():
        value = parse_value(setting, own[name]) if name in own else config[broker_name(name)]
        low, high = config[_bound(name, "min")], config[_bound(name, "max")]
        values[name] = min(max(value, low), high)
    return ConsumerSettings(
        values[SESSION_TIMEOUT_MS], values[HEARTBEAT_INTERVAL_MS], values[ASSIGNMENT_INTERVAL_MS]
    )
