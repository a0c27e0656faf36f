"""The coordinator topics keep their cleanup policy and retention, whatever clients or the
properties file set. Otherwise retention would delete live records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.topics.registry import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from protocol.errors import INVALID_CONFIG, NONE
from tests.broker.config.test_offsets_topic_settings import commit, committed
from tests.broker.config_calls import APPEND, DELETE, SET, SUBTRACT, alter, replace, value_of
from tests.broker.mock_time import MockTime
from tests.broker.serving import asked, serving
from tests.broker.topic_calls import metadata
from tests.brokers import Broker
from tests.wire import Wire

Brokers = Callable[..., Broker]
POLICY = "cleanup.policy"
OWN = 1
ONE_PARTITION = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
TOPICS = pytest.mark.parametrize("name", [OFFSETS_TOPIC, TRANSACTION_TOPIC])
WEEK_MS = 7 * 24 * 3_600_000


def test_offsets_topic_stays_compacted_when_alter_configs_omits_the_cleanup_policy(
    tmp_path: Path,
) -> None:
    """AlterConfigs replaces all settings of a topic. In an earlier version, a request that omitted
    the policy set it to the default ``delete``."""

    async def story() -> tuple[int, tuple[str, int]]:
        time = MockTime()
        async with serving(tmp_path, ONE_PARTITION, time=time) as broker:
            assert await asked(broker, lambda wire: commit(wire, "g", 42)) == NONE
            altered = await asked(
                broker, lambda wire: replace(wire, OFFSETS_TOPIC, {"retention.ms": "1"})
            )
            assert altered == (NONE, None)
            time.move(2 * WEEK_MS)
            await broker.maintenance.run_retention()
            assert await asked(broker, lambda wire: committed(wire, "g")) == 42
        async with serving(tmp_path, time=time) as broker:
            offset = await asked(broker, lambda wire: committed(wire, "g"))
            return offset, await asked(broker, lambda wire: value_of(wire, OFFSETS_TOPIC, POLICY))

    assert asyncio.run(story()) == (42, ("compact", OWN))


@pytest.mark.campaign
@pytest.mark.parametrize(
    "operation",
    [
        (POLICY, SET, "delete"),
        (POLICY, SET, "compact,delete"),
        (POLICY, SET, ""),
        (POLICY, APPEND, "delete"),
        (POLICY, SUBTRACT, "compact"),
    ],
)
@TOPICS
def test_cleanup_policy_of_coordinator_topics_must_be_compact(
    brokers: Brokers, operation: tuple[str, int, str], name: str
) -> None:
    broker = brokers(ONE_PARTITION)
    with Wire(broker.port) as wire:
        metadata(wire, name)

        error_code, message = alter(wire, name, operation)

        assert error_code == INVALID_CONFIG
        assert message is not None
        assert f"{name} must have the value compact" in message
        assert value_of(wire, name, POLICY) == ("compact", OWN)


@TOPICS
def test_removal_of_setting_cleanup_policy_leaves_coordinator_topics_compacted(
    brokers: Brokers, name: str
) -> None:
    broker = brokers({**ONE_PARTITION, "log.cleanup.policy": "delete"})
    with Wire(broker.port) as wire:
        metadata(wire, name)

        assert alter(wire, name, (POLICY, DELETE, None)) == (NONE, None)
        assert value_of(wire, name, POLICY) == ("compact", OWN)
        assert replace(wire, name, {POLICY: "delete"})[0] == INVALID_CONFIG
        assert replace(wire, name, {POLICY: "compact"}) == (NONE, None)


def test_transaction_topic_is_created_with_kafkas_topic_settings(brokers: Brokers) -> None:
    broker = brokers(
        {
            "transaction.state.log.num.partitions": "7",
            "transaction.state.log.segment.bytes": "1234567",
            "transaction.state.log.min.isr": "2",
        }
    )
    with Wire(broker.port) as wire:
        (topic,) = metadata(wire, TRANSACTION_TOPIC)["topics"]
        assert len(topic["partitions"]) == 7
        own = {
            name: value_of(wire, TRANSACTION_TOPIC, name)
            for name in (
                "compression.type",
                "unclean.leader.election.enable",
                "segment.bytes",
                "min.insync.replicas",
            )
        }
    assert own == {
        "compression.type": ("uncompressed", OWN),
        "unclean.leader.election.enable": ("false", OWN),
        "segment.bytes": ("1234567", OWN),
        "min.insync.replicas": ("1", OWN),
    }, "a lone broker has one replica, and would never have two in sync"


@pytest.mark.parametrize("configs", [{}, {"cleanup.policy": "delete", "retention.ms": "1"}])
def test_compact_policy_of_the_offsets_topic_is_restored_at_the_start(
    tmp_path: Path, configs: dict[str, str]
) -> None:
    async def story() -> int:
        time = MockTime()
        async with serving(tmp_path, ONE_PARTITION, time=time) as broker:
            assert await asked(broker, lambda wire: commit(wire, "g", 42)) == NONE
        path = tmp_path / "topics.json"
        image = json.loads(path.read_text())
        (topic,) = (entry for entry in image["topics"] if entry["name"] == OFFSETS_TOPIC)
        topic["configs"] = configs
        path.write_text(json.dumps(image))
        time.move(2 * WEEK_MS)
        async with serving(tmp_path, time=time) as broker:
            await broker.maintenance.run_retention()
        assert '"cleanup.policy": "compact"' in path.read_text()
        async with serving(tmp_path, time=time) as broker:
            return await asked(broker, lambda wire: committed(wire, "g"))

    assert asyncio.run(story()) == 42


KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The settings that ``__share_group_state`` keeps. Its policy is delete, because compaction would
remove records that are still needed."""


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "1000"),
        ("retention.bytes", "1000"),
    ],
)
def test_share_state_topic_refuses_settings_that_delete_live_records(
    brokers: Brokers, setting: str, value: str
) -> None:
    broker = brokers({**ONE_PARTITION, "log.retention.bytes": "1000"})
    with Wire(broker.port) as wire:
        metadata(wire, SHARE_STATE_TOPIC)

        error_code, message = alter(wire, SHARE_STATE_TOPIC, (setting, SET, value))

        assert (error_code, message) == (
            INVALID_CONFIG,
            f"{setting}={value} is not allowed: {SHARE_STATE_TOPIC} must have the value"
            f" {KEPT[setting]}, since retention would delete the state of share groups",
        )
        assert alter(wire, SHARE_STATE_TOPIC, (setting, DELETE, None)) == (NONE, None)
        assert replace(wire, SHARE_STATE_TOPIC, {"retention.ms": "-1"}) == (NONE, None)
        own = {name: value_of(wire, SHARE_STATE_TOPIC, name) for name in KEPT}
        assert own == {name: (text, OWN) for name, text in KEPT.items()}


async def test_settings_of_the_share_state_topic_are_restored_at_the_start(tmp_path: Path) -> None:
    async with serving(tmp_path, ONE_PARTITION) as broker:
        await broker.topics.ensure(SHARE_STATE_TOPIC)
    path = tmp_path / "topics.json"
    image = json.loads(path.read_text())
    image["topics"][0]["configs"] = {"retention.ms": "5", "segment.bytes": "2000"}
    path.write_text(json.dumps(image))
    async with serving(tmp_path) as broker:
        topic = broker.registry.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        assert topic.configs == {**KEPT, "segment.bytes": "2000"}
