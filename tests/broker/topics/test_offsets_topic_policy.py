"""``__consumer_offsets`` stays compacted, by whatever way settings come.

Retention would lose committed offsets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.topics.registry import OFFSETS_TOPIC
from protocol.errors import INVALID_CONFIG, NONE
from tests.broker.config.test_offsets_topic_settings import commit, committed
from tests.broker.config_calls import APPEND, DELETE, SET, SUBTRACT, alter, replace, value_of
from tests.broker.hand_time import HandTime
from tests.broker.serving import asked, serving
from tests.brokers import Broker
from tests.wire import Wire

Brokers = Callable[..., Broker]
POLICY = "cleanup.policy"
OWN = 1
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}
WEEK_MS = 7 * 24 * 3_600_000


def test_a_plain_alter_configs_does_not_let_retention_delete_offsets(tmp_path: Path) -> None:
    """It replaces all settings; the policy that it leaves out was ``delete`` from then on."""

    async def story() -> tuple[int, tuple[str, int]]:
        time = HandTime()
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
def test_a_policy_that_loses_offsets_is_refused(
    brokers: Brokers, operation: tuple[str, int, str]
) -> None:
    broker = brokers(ONE_PARTITION)
    with Wire(broker.port) as wire:
        commit(wire, "g")

        error_code, message = alter(wire, OFFSETS_TOPIC, operation)

        assert error_code == INVALID_CONFIG
        assert message is not None
        assert "__consumer_offsets is always compact and nothing else" in message
        assert value_of(wire, OFFSETS_TOPIC, POLICY) == ("compact", OWN)


def test_a_policy_put_back_to_its_default_is_compact_for_this_topic(brokers: Brokers) -> None:
    broker = brokers({**ONE_PARTITION, "log.cleanup.policy": "delete"})
    with Wire(broker.port) as wire:
        commit(wire, "g")

        assert alter(wire, OFFSETS_TOPIC, (POLICY, DELETE, None)) == (NONE, None)
        assert value_of(wire, OFFSETS_TOPIC, POLICY) == ("compact", OWN)
        assert replace(wire, OFFSETS_TOPIC, {POLICY: "delete"})[0] == INVALID_CONFIG
        assert replace(wire, OFFSETS_TOPIC, {POLICY: "compact"}) == (NONE, None)


@pytest.mark.parametrize("configs", [{}, {"cleanup.policy": "delete", "retention.ms": "1"}])
def test_what_an_older_muster_let_be_taken_away_is_mended_at_the_start(
    tmp_path: Path, configs: dict[str, str]
) -> None:
    async def story() -> int:
        time = HandTime()
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
