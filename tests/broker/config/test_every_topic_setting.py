"""Tests that every topic setting has a test of its effect, and that a change from any source
applies to open logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config.config import Config, topic_settings
from broker.config.config_table import BROKER, BROKER_NAME_OF_TOPIC_SETTING, TOPIC
from broker.config.config_value import parse_value
from broker.config.dynamic_settings import DYNAMIC
from tests.broker.config.orders import NAME, Orders, orders_of
from tests.broker.config.served import declared_settings

KAFKA_1_0 = [
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "max.message.bytes",
    "message.format.version",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]

VALUES = {
    "cleanup.policy": "compact",
    "compression.gzip.level": "3",
    "compression.lz4.level": "3",
    "compression.type": "lz4",
    "compression.zstd.level": "4",
    "delete.retention.ms": "77",
    "file.delete.delay.ms": "77",
    "flush.messages": "77",
    "flush.ms": "77",
    "follower.replication.throttled.replicas": "0:1",
    "index.interval.bytes": "77",
    "leader.replication.throttled.replicas": "0:1",
    "local.retention.bytes": "77",
    "local.retention.ms": "77",
    "max.compaction.lag.ms": "77",
    "max.message.bytes": "77",
    "message.downconversion.enable": "false",
    "message.format.version": "0.10.2",
    "message.timestamp.after.max.ms": "77",
    "message.timestamp.before.max.ms": "77",
    "message.timestamp.difference.max.ms": "77",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "77",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
    "remote.storage.enable": "true",
    "retention.bytes": "77",
    "retention.ms": "77",
    "segment.bytes": "77777",
    "segment.index.bytes": "77",
    "segment.jitter.ms": "77",
    "segment.ms": "77",
    "unclean.leader.election.enable": "true",
}


def test_topic_settings_table_has_every_setting_of_kafka_1_0() -> None:
    assert set(KAFKA_1_0) <= set(TOPIC) == set(VALUES)


IN_CLUSTER = {
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
}
"""Settings that have no effect on a standalone broker; test_topic_settings_of_clusters.py tests
them."""


def test_every_topic_setting_with_an_effect_has_a_test_that_alters_it() -> None:
    altered = set(declared_settings("alters")) | IN_CLUSTER
    assert altered == {name for name, row in TOPIC.items() if row.has_effect}


def values_in_use(orders: Orders, name: str) -> list[Any]:
    """Returns the value of a topic setting that request handlers use, and the value that the open
    log uses."""
    entry = orders.broker.logs.topics[NAME]
    field = name.replace(".", "_")
    return [entry.settings[name], getattr(orders.log.config, field, entry.settings[name])]


async def test_altered_topic_setting_applies_immediately_to_handlers_and_logs(
    tmp_path: Path,
) -> None:
    async with orders_of(tmp_path) as orders:
        for name, text in VALUES.items():
            before = values_in_use(orders, name)
            expected = parse_value(TOPIC[name], text)
            assert expected not in before, name
            await orders.alter({name: text})
            assert values_in_use(orders, name) == [expected] * 2, name
            await orders.alter({name: None})
            assert values_in_use(orders, name) == before, name


async def test_altered_broker_default_applies_immediately_to_topics(tmp_path: Path) -> None:
    async with orders_of(tmp_path) as orders:
        names = {topic: names[0] for topic, names in BROKER_NAME_OF_TOPIC_SETTING.items()}
        for name, broker_name in names.items():
            if broker_name not in DYNAMIC:
                continue
            before = values_in_use(orders, name)
            expected = parse_value(TOPIC[name], VALUES[name])
            await orders.alter_broker({broker_name: VALUES[name]})
            assert values_in_use(orders, name) == [expected] * 2, name
            await orders.alter_broker({broker_name: None})
            assert values_in_use(orders, name) == before, name


@pytest.mark.parametrize("name", sorted(BROKER_NAME_OF_TOPIC_SETTING))
def test_broker_setting_is_the_default_of_its_topic_setting(name: str) -> None:
    broker_name = BROKER_NAME_OF_TOPIC_SETTING[name][0]
    config = Config({broker_name: VALUES[name]})

    assert topic_settings(config, {})[name] == parse_value(TOPIC[name], VALUES[name])


HOUR_MS, MINUTE_MS = 3_600_000, 60_000


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({}, "retention.ms", 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, "retention.ms", 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention.ms", 3 * MINUTE_MS),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "retention.ms", 4),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.minutes": "-1", "log.retention.hours": "2"}, "retention.ms", -1),
        ({}, "segment.ms", 168 * HOUR_MS),
        ({"log.roll.hours": "2"}, "segment.ms", 2 * HOUR_MS),
        ({"log.roll.hours": "2", "log.roll.ms": "3"}, "segment.ms", 3),
        ({}, "segment.jitter.ms", 0),
        ({"log.roll.jitter.hours": "2"}, "segment.jitter.ms", 2 * HOUR_MS),
        ({"log.roll.jitter.hours": "2", "log.roll.jitter.ms": "3"}, "segment.jitter.ms", 3),
        ({"log.flush.scheduler.interval.ms": "5"}, "flush.ms", 5),
        ({"log.flush.scheduler.interval.ms": "5", "log.flush.interval.ms": "6"}, "flush.ms", 6),
    ],
)
def test_setting_in_ms_overrides_minutes_and_setting_in_minutes_overrides_hours(
    given: dict[str, str], name: str, value: int
) -> None:
    assert topic_settings(Config(given), {})[name] == value


THROTTLES = {"follower.replication.throttled.rate", "leader.replication.throttled.rate"}
"""Dynamic broker settings that only the tests of replication quotas cover."""


def test_every_dynamic_broker_setting_has_a_test() -> None:
    defaults = {names[0] for names in BROKER_NAME_OF_TOPIC_SETTING.values()}

    assert set(BROKER) >= DYNAMIC
    assert set(declared_settings("reconfigures")) | THROTTLES == DYNAMIC - defaults
