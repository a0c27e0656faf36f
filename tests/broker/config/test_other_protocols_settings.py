"""Tests the settings of group protocols other than classic: DescribeConfigs returns their values,
and the broker refuses the values that Kafka refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.config.config import BadConfig
from tests.broker.config.served import STATIC_BROKER_SOURCE, config, serving

TABLE = Path(__file__).parents[2] / "data" / "settings" / "group-settings.json"

CONSUMER, SHARE = "group.consumer.", "group.share."
HEARTBEAT, SESSION, LOCK = "heartbeat.interval.ms", "session.timeout.ms", "record.lock.duration.ms"

ACCEPTED = {
    "group.consumer.assignors": "range",
    "group.consumer.heartbeat.interval.ms": "6000",
    "group.consumer.max.heartbeat.interval.ms": "16000",
    "group.consumer.max.session.timeout.ms": "61000",
    "group.consumer.max.size": "7",
    "group.consumer.min.heartbeat.interval.ms": "4000",
    "group.consumer.min.session.timeout.ms": "44000",
    "group.consumer.session.timeout.ms": "46000",
    "group.share.delivery.count.limit": "6",
    "group.share.heartbeat.interval.ms": "6000",
    "group.share.max.groups": "11",
    "group.share.max.heartbeat.interval.ms": "16000",
    "group.share.max.record.lock.duration.ms": "61000",
    "group.share.max.session.timeout.ms": "61000",
    "group.share.max.size": "201",
    "group.share.min.heartbeat.interval.ms": "4000",
    "group.share.min.record.lock.duration.ms": "14000",
    "group.share.min.session.timeout.ms": "44000",
    "group.share.partition.max.record.locks": "201",
    "group.share.record.lock.duration.ms": "31000",
    "group.share.session.timeout.ms": "46000",
}
"""For each setting, a value that differs from the default. The values are consistent with each
other."""

REFUSED = {
    "group.consumer.assignors": ("org.example.Mine", "unknown assignor"),
    "group.consumer.heartbeat.interval.ms": ("4999", "must not be above group.consumer.heartbeat"),
    "group.consumer.max.heartbeat.interval.ms": (
        "4999",
        "must not be above group.consumer.max.heartbeat",
    ),
    "group.consumer.max.session.timeout.ms": (
        "44999",
        "must not be above group.consumer.max.session",
    ),
    "group.consumer.max.size": ("0", "it must be at least 1"),
    "group.consumer.min.heartbeat.interval.ms": (
        "5001",
        "must not be above group.consumer.heartbeat",
    ),
    "group.consumer.min.session.timeout.ms": ("45001", "must not be above group.consumer.session"),
    "group.consumer.session.timeout.ms": ("60001", "must not be above group.consumer.max.session"),
    "group.share.delivery.count.limit": ("11", "it must be at most 10"),
    "group.share.heartbeat.interval.ms": ("15001", "must not be above group.share.max.heartbeat"),
    "group.share.max.groups": ("101", "it must be at most 100"),
    "group.share.max.heartbeat.interval.ms": (
        "4999",
        "must not be above group.share.max.heartbeat",
    ),
    "group.share.max.record.lock.duration.ms": ("29999", "it must be at least 30000"),
    "group.share.max.session.timeout.ms": ("44999", "must not be above group.share.max.session"),
    "group.share.max.size": ("0", "it must be at least 1"),
    "group.share.min.heartbeat.interval.ms": ("5001", "must not be above group.share.heartbeat"),
    "group.share.min.record.lock.duration.ms": ("30001", "it must be at most 30000"),
    "group.share.min.session.timeout.ms": ("45001", "must not be above group.share.session"),
    "group.share.partition.max.record.locks": ("99", "it must be at least 100"),
    "group.share.record.lock.duration.ms": ("14999", "must not be above group.share.record.lock"),
    "group.share.session.timeout.ms": ("60001", "must not be above group.share.max.session"),
}
"""For each setting, an invalid value: it is out of bounds, or inconsistent with the default of
another setting."""


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(TABLE.read_text())
    return [row for row in found if row["name"].startswith((CONSUMER, SHARE))]


def test_every_setting_of_non_classic_group_protocols_has_test_values() -> None:
    names = {row["name"] for row in rows()}

    assert set(ACCEPTED) == names
    assert set(REFUSED) == names


@pytest.mark.parametrize(("name", "value", "reason"), [(n, *REFUSED[n]) for n in REFUSED])
def test_value_that_kafka_refuses_is_refused_with_setting_and_reason(
    name: str, value: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(BadConfig) as refused:
        config(tmp_path, **{name: value})

    sentence = str(refused.value)
    assert f"{name}={value}" in sentence
    assert reason in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "least",
    [
        pytest.param(row, id=row["name"])
        for row in rows()
        if row["valid"] and row["name"] != "group.share.max.size"  # its bound is in REFUSED
    ],
)
def test_value_below_the_lower_bound_of_the_setting_is_refused(
    least: dict[str, Any], tmp_path: Path
) -> None:
    below = int(least["valid"][1:].split(",")[0]) - 1
    with pytest.raises(BadConfig, match=f"{least['name']}={below}: it must be at least"):
        config(tmp_path, **{least["name"]: below})


def test_bounds_of_share_group_settings_equal_those_of_kafka_4_3_1(tmp_path: Path) -> None:
    settings = {
        "group.share.max.size": 1,
        "group.share.record.lock.duration.ms": 3_600_000,
        "group.share.max.record.lock.duration.ms": 3_600_000,
    }
    found = config(tmp_path, **settings)
    assert {name: found[name] for name in settings} == settings


async def test_describe_configs_returns_settings_of_consumer_share_and_streams_groups(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, ACCEPTED) as served:
        described = await served.described()

    shown = {
        name: (described[name]["value"], described[name]["config_source"]) for name in ACCEPTED
    }
    assert shown == {name: (value, STATIC_BROKER_SOURCE) for name, value in ACCEPTED.items()}
