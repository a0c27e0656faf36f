"""The names of other exporters, series by series: those recorded in tests/data/metrics and ours."""

from __future__ import annotations

import json
from pathlib import Path

from tests.seeing.seen import Scrape, seeing
from tests.seeing.stories import a_busy_day, one_that_is_behind

NAMES = json.loads((Path(__file__).parents[1] / "data" / "metrics" / "names.json").read_text())


def names_of(scrape: Scrape, exporter: str) -> dict[str, set[frozenset[str]]]:
    """Ours among those recorded, with their label names."""
    return {name: scrape.labels[name] for name in NAMES[exporter] if name in scrape.labels}


async def test_kafka_exporter(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await a_busy_day(seen)
        await one_that_is_behind(seen)
        scrape = await seen.scrape()
        groups = {
            (group_id, topic, partition)
            for host in seen.broker.runtime.hosts
            for group_id in host.shard.cache.groups()
            for topic, partition in host.shard.cache.keys(group_id)
        }
        logs = {(log.topic, log.partition) for log in seen.broker.logs.all()}

    recorded = {name: {frozenset(labels)} for name, labels in NAMES["kafka_exporter"].items()}
    assert names_of(scrape, "kafka_exporter") == recorded
    ours = {name for name in scrape.labels if name.startswith("kafka_")}
    assert ours == set(recorded), "and none that it has not"
    assert {scrape.types[name] for name in recorded} == {"gauge"}
    for name in ("current_offset", "lag"):
        assert set(scrape.of(f"kafka_consumergroup_{name}")) == {
            frozenset({f"consumergroup={group_id}", f"topic={topic}", f"partition={partition}"})
            for group_id, topic, partition in groups
        }
    for name in ("current_offset", "oldest_offset", "leader", "replicas", "in_sync_replica"):
        assert set(scrape.of(f"kafka_topic_partition_{name}")) == {
            frozenset({f"topic={topic}", f"partition={partition}"}) for topic, partition in logs
        }
