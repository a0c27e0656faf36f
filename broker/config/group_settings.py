"""The settings that a consumer, share or streams group can have of its own (KIP-848, KIP-932,
KIP-1071; resource type 32, GROUP).

A new value must be within bounds that the broker's settings define. If the bounds change later, and
a stored value is then out of bounds, the nearest bound applies (KIP-1240). Some settings of share
groups have no corresponding broker setting. These settings have a fixed default and no bounds. Two
settings of streams groups have no minimum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from broker.config.config import Config
from broker.config.config_table import BOOLEAN, INT, STRING, Setting
from broker.config.config_value import BadValue, parse_value
from coordinator.config import ConsumerSettings, ShareSettings, StreamsSettings

SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT_MS: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL_MS: Final = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT_INTERVAL_MS: Final = "share.assignment.interval.ms"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
RENEW_ACKNOWLEDGE: Final = "share.renew.acknowledge.enable"
STREAMS_SESSION_TIMEOUT_MS: Final = "streams.session.timeout.ms"
STREAMS_HEARTBEAT_INTERVAL_MS: Final = "streams.heartbeat.interval.ms"
STREAMS_ASSIGNMENT_INTERVAL_MS: Final = "streams.assignment.interval.ms"
NUM_STANDBY_REPLICAS: Final = "streams.num.standby.replicas"
INITIAL_REBALANCE_DELAY_MS: Final = "streams.initial.rebalance.delay.ms"

_INTERVAL_DOC = (
    "The minimum time between two target assignments of the group; 0: each change computes a target"
    " assignment."
)
_HEARTBEAT_DOC = "How often a member of the group sends a heartbeat."
_SESSION_DOC = "A member of the group that sends no heartbeat for this long is removed."
_GROUP: Final = (
    Setting(ASSIGNMENT_INTERVAL_MS, INT, 1000, "[0,...]", _INTERVAL_DOC),
    Setting(HEARTBEAT_INTERVAL_MS, INT, 5000, "[1,...]", _HEARTBEAT_DOC),
    Setting(SESSION_TIMEOUT_MS, INT, 45000, "[1,...]", _SESSION_DOC),
    Setting(SHARE_ASSIGNMENT_INTERVAL_MS, INT, 1000, "[0,...]", _INTERVAL_DOC),
    Setting(
        AUTO_OFFSET_RESET,
        STRING,
        "latest",
        "",
        "Where a new share group begins to read a partition: latest, earliest, or"
        " by_duration:DURATION with an ISO 8601 duration (by_duration:PT1H begins an hour ago).",
    ),
    Setting(
        "share.delivery.count.limit",
        INT,
        5,
        "[2,...]",
        "The maximum number of times that the group delivers a record to its members.",
    ),
    Setting(SHARE_HEARTBEAT_INTERVAL_MS, INT, 5000, "[1,...]", _HEARTBEAT_DOC),
    Setting(
        ISOLATION_LEVEL,
        STRING,
        "read_uncommitted",
        "[read_committed, read_uncommitted]",
        "read_uncommitted: members also get records of open and aborted transactions.",
    ),
    Setting(
        "share.partition.max.record.locks",
        INT,
        2000,
        "[100,...]",
        "The maximum number of records of one partition that the group has in flight.",
    ),
    Setting(
        "share.record.lock.duration.ms",
        INT,
        30000,
        "[1000,...]",
        "How long a member of the group has a record before the record is delivered again.",
    ),
    Setting(
        RENEW_ACKNOWLEDGE,
        BOOLEAN,
        True,
        "",
        "Whether a member may renew the lock of a record.",
    ),
    Setting(SHARE_SESSION_TIMEOUT_MS, INT, 45000, "[1,...]", _SESSION_DOC),
    Setting(STREAMS_ASSIGNMENT_INTERVAL_MS, INT, 1000, "[0,...]", _INTERVAL_DOC),
    Setting(STREAMS_HEARTBEAT_INTERVAL_MS, INT, 5000, "[1,...]", _HEARTBEAT_DOC),
    Setting(
        INITIAL_REBALANCE_DELAY_MS,
        INT,
        3000,
        "[0,...]",
        "How long the empty group waits for more members before tasks are assigned.",
    ),
    Setting(
        NUM_STANDBY_REPLICAS,
        INT,
        0,
        "[0,...]",
        "The number of standby tasks of each stateful task of the group.",
    ),
    Setting(STREAMS_SESSION_TIMEOUT_MS, INT, 45000, "[1,...]", _SESSION_DOC),
)
GROUP: Final[dict[str, Setting]] = {setting.name: setting for setting in _GROUP}
"""The group settings, by name."""
_ONLY_OF_GROUPS: Final = frozenset((AUTO_OFFSET_RESET, ISOLATION_LEVEL, RENEW_ACKNOWLEDGE))
"""The group settings without a corresponding broker setting."""
_MUST_DIFFER: Final = (
    (HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS),
    (SHARE_HEARTBEAT_INTERVAL_MS, SHARE_SESSION_TIMEOUT_MS),
    (STREAMS_HEARTBEAT_INTERVAL_MS, STREAMS_SESSION_TIMEOUT_MS),
)
"""Pairs of settings. The value of the first setting must be less than the value of the second."""
_MAX_STANDBY_REPLICAS: Final = "group.streams.max.standby.replicas"
_DURATION: Final = re.compile(
    r"by_duration:P(?=.*\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d{1,9})?S)?)?", re.IGNORECASE
)


def broker_name(name: str) -> str | None:
    """Returns the name of the broker setting that has the default of a group setting. Returns None
    if the group setting has no such broker setting."""
    if name == INITIAL_REBALANCE_DELAY_MS:
        return "group.streams.initial.rebalance.delay.ms"
    return None if name in _ONLY_OF_GROUPS else f"group.{name}"


def _bounds(config: Config, name: str) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """Returns the broker settings that define the minimum and the maximum of a group setting, each
    with its value; None for a missing bound."""
    if name in _ONLY_OF_GROUPS or name == INITIAL_REBALANCE_DELAY_MS:
        return None, None
    if name == NUM_STANDBY_REPLICAS:
        return None, (_MAX_STANDBY_REPLICAS, config[_MAX_STANDBY_REPLICAS])
    kind, _, rest = name.partition(".")
    low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    return (low, config[low]), (high, config[high])


def _default(config: Config, name: str) -> Any:
    of_broker = broker_name(name)
    return GROUP[name].default if of_broker is None else config[of_broker]


def group_setting(name: str) -> Setting:
    """Returns the row of a group setting. Raises BadValue for an unknown name."""
    if name not in GROUP:
        raise BadValue(f"Unknown group config name: {name}")
    return GROUP[name]


def _parse(name: str, text: str) -> Any:
    """Returns the typed value of a group setting. Raises BadValue."""
    value = parse_value(group_setting(name), text)
    if name == AUTO_OFFSET_RESET and not (
        value in ("latest", "earliest") or _DURATION.fullmatch(str(value))
    ):
        raise BadValue(
            f"Invalid value `{value}` for configuration {name}. The value must be either"
            " 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
    return value


def group_values(config: Config, own: Mapping[str, str]) -> dict[str, Any]:
    """Returns the typed value of every group setting: the group's own value, otherwise the default.

    Raises BadValue for an unknown name, an invalid value, or a value outside of the broker's
    bounds.
    """
    values = {name: _default(config, name) for name in GROUP}
    for name, text in own.items():
        value = values[name] = _parse(name, text)
        low, high = _bounds(config, name)
        if (low is not None and value < low[1]) or (high is not None and value > high[1]):
            bounds = [f"{each[0]}={each[1]}" for each in (low, high) if each is not None]
            between = " and ".join(bounds) if low is not None else f"0 and {bounds[0]}"
            raise BadValue(
                f"Invalid value {value} for configuration {name}: it must be between {between}"
            )
    for short, long in _MUST_DIFFER:
        if values[long] <= values[short]:
            raise BadValue(
                f"Invalid value {values[long]} for configuration {long}: it must be greater than"
                f" {short}={values[short]}"
            )
    return values


def values_in_effect(config: Config, own: Mapping[str, str]) -> dict[str, Any]:
    """Returns the typed value of every group setting. A stored value that is out of bounds is
    replaced by the nearest bound."""
    values = {}
    for name in GROUP:
        value = _parse(name, own[name]) if name in own else _default(config, name)
        low, high = _bounds(config, name)
        value = value if low is None else max(value, low[1])
        values[name] = value if high is None else min(value, high[1])
    return values


def consumer_settings(config: Config, own: Mapping[str, str]) -> ConsumerSettings:
    values = values_in_effect(config, own)
    return ConsumerSettings(
        values[SESSION_TIMEOUT_MS], values[HEARTBEAT_INTERVAL_MS], values[ASSIGNMENT_INTERVAL_MS]
    )


def share_settings(config: Config, own: Mapping[str, str]) -> ShareSettings:
    """Returns the settings in effect for the members of a share group."""
    values = values_in_effect(config, own)
    return ShareSettings(
        values[SHARE_SESSION_TIMEOUT_MS],
        values[SHARE_HEARTBEAT_INTERVAL_MS],
        values[SHARE_ASSIGNMENT_INTERVAL_MS],
    )


def streams_settings(config: Config, own: Mapping[str, str]) -> StreamsSettings:
    values = values_in_effect(config, own)
    return StreamsSettings(
        values[STREAMS_SESSION_TIMEOUT_MS],
        values[STREAMS_HEARTBEAT_INTERVAL_MS],
        values[STREAMS_ASSIGNMENT_INTERVAL_MS],
        values[NUM_STANDBY_REPLICAS],
        values[INITIAL_REBALANCE_DELAY_MS],
    )
