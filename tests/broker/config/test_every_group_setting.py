"""Tests that every setting of Kafka 3.9.2 for groups and offsets has a test of its effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from broker.config.config_table import BROKER
from tests.broker.config import test_other_protocols_settings as other_protocols
from tests.broker.config.served import (
    DEFAULT_SOURCE,
    STATIC_BROKER_SOURCE,
    declared_settings,
    serving,
)

OWN_DEFAULTS = {
    "group.coordinator.append.linger.ms": "0",
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "group.share.partition.max.record.locks": "2000",
}
"""Settings whose default differs from Kafka's; docs/operate/settings-of-groups.md gives the
reasons."""

OWN_BOUNDS = {
    "group.coordinator.rebalance.protocols": "[consumer, classic, share, streams, unknown]",
    "group.share.max.size": "[1,...,1000]",
    "group.share.record.lock.duration.ms": "[1000,...,3600000]",
}
"""Muster's valid values of the settings that have other valid values in Kafka 3.9.2, where share
groups were only a preview."""
OWN_TYPES = {"group.share.max.size": "INT"}
"""Settings that have another type in Kafka 3.9.2 than in Kafka 4.3.1. Muster uses the type of
4.3.1, which is the value here."""

SET = {
    "group.coordinator.append.linger.ms": "1",
    "group.coordinator.threads": "2",
    "group.initial.rebalance.delay.ms": "5",
    "group.max.session.timeout.ms": "1800001",
    "group.max.size": "9",
    "group.min.session.timeout.ms": "5999",
    "offset.metadata.max.bytes": "4095",
    "offsets.commit.required.acks": "1",
    "offsets.commit.timeout.ms": "4999",
    "offsets.load.buffer.size": "5242881",
    "offsets.retention.check.interval.ms": "600001",
    "offsets.retention.minutes": "10081",
    "offsets.topic.compression.codec": "3",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.segment.bytes": "104857601",
}


def kafkas() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(other_protocols.TABLE.read_text())
    return rows


def test_every_group_setting_has_a_test_of_its_effect() -> None:
    names = {row["name"] for row in kafkas()}

    assert len(names) == 38
    assert set(declared_settings("shows")) | set(other_protocols.REFUSED) == names


def test_group_settings_table_has_kafkas_types_defaults_and_bounds() -> None:
    for row in kafkas():
        setting = BROKER[row["name"]]
        default = OWN_DEFAULTS.get(setting.name, row["default"])
        type_ = OWN_TYPES.get(setting.name, row["type"])
        assert (setting.type, str(setting.default)) == (type_, default), setting.name
        assert setting.valid == OWN_BOUNDS.get(setting.name, row["valid"] or ""), setting.name


async def test_describe_configs_returns_value_and_source_of_each_group_setting(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, SET) as served:
        described = await served.described()

    for row in kafkas():
        entry = described[row["name"]]
        if row["name"] in SET:
            expected = (SET[row["name"]], STATIC_BROKER_SOURCE)
        else:
            expected = (OWN_DEFAULTS.get(row["name"], row["default"]), DEFAULT_SOURCE)
        assert (entry["value"], entry["config_source"]) == expected, row["name"]
        assert entry["read_only"], row["name"]
