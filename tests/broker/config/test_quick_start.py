"""Tests that without a properties file, Muster uses the values of the server.properties that Kafka
ships."""

from __future__ import annotations

from pathlib import Path

from broker.config.sources import load
from tests.broker.config.served import STATIC_BROKER_SOURCE, serving, shows

DELAY = "group.initial.rebalance.delay.ms"


@shows("group.initial.rebalance.delay.ms")
def test_initial_rebalance_delay_is_0_without_a_properties_file() -> None:
    assert load(None, {}, [], {})[DELAY] == 0


@shows("group.initial.rebalance.delay.ms")
def test_initial_rebalance_delay_has_kafka_default_with_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\n")

    assert load(file, {}, [], {})[DELAY] == 3000


def test_variable_or_flag_overrides_the_initial_rebalance_delay_of_0(tmp_path: Path) -> None:
    assert load(None, {"MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "7"}, [], {})[DELAY] == 7
    assert load(None, {}, [f"{DELAY}=8"], {})[DELAY] == 8


async def test_describe_configs_returns_initial_rebalance_delay_of_0_as_static(
    tmp_path: Path,
) -> None:
    quick = load(None, {}, [], {})
    async with serving(tmp_path, dict(quick.given)) as served:
        entry = (await served.described())[DELAY]

    assert (entry["value"], entry["config_source"]) == ("0", STATIC_BROKER_SOURCE)
