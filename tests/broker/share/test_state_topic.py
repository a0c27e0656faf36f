"""The topic ``__share_group_state``: its settings, when it is created in a cluster, and the reading
of records that Kafka wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.config.config import Config
from broker.config.sources import load
from broker.cores.hosted_shard import Phase
from broker.cores.share_state.settings import runtime_settings
from broker.topics.owned_topics import OWNED
from broker.topics.registry import NO_FEATURES, SHARE_STATE_TOPIC, Features
from protocol.records.compression import GZIP, LZ4
from protocol.records.section import Record
from share.values import StateBatch
from tests.broker.partitions import log_of, partition_of, write_records
from tests.broker.serving import eventually
from tests.broker.share.states import initialized, key_of, sharing, state, written
from tests.share.persister.driver import Driver, replayed
from tests.share.persister.kafka_records import read_golden

SNAPSHOTS = "share.coordinator.snapshot.update.records.per.snapshot"
FREE = StateBatch(0, 9, 0, 1)


def config_of(settings: Mapping[str, str]) -> Config:
    flags = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    return load(None, {}, [f"{key}={value}" for key, value in settings.items()], flags)


def test_share_coordinator_settings_are_passed_to_the_share_coordinator() -> None:
    prefix = "share.coordinator."
    settings = runtime_settings(
        config_of(
            {
                SNAPSHOTS: "7",
                f"{prefix}cold.partition.snapshot.interval.ms": "8",
                f"{prefix}write.timeout.ms": "9",
                f"{prefix}load.buffer.size": "10",
                f"{prefix}load.skip.records": f"{SHARE_STATE_TOPIC}-3:11",
                f"{prefix}state.topic.compression.codec": str(LZ4),
                f"{prefix}append.linger.ms": "12",
                f"{prefix}threads": "13",
                "message.max.bytes": "14000",
            }
        )
    )
    core = settings.core
    assert (core.updates_per_snapshot, core.cold_snapshot_interval_ms) == (7, 8)
    assert core.max_record_bytes == 14000
    assert (settings.stable_timeout_ms, settings.load_buffer_bytes) == (9, 10)
    assert (settings.load_skips, settings.compression) == ({3: {11}}, LZ4)
    assert (settings.append_linger_ms, settings.loads_at_once) == (12, 13)
    assert runtime_settings(config_of({})).append_linger_ms == 0, "-1 is no wait"


async def test_compression_type_of_the_state_topic_applies_to_new_records(tmp_path: Path) -> None:
    async with sharing(tmp_path) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
        topic = broker.registry.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        changed = {**topic.configs, "compression.type": "gzip"}
        await broker.topics.alter(topic.with_configs(changed))  # type: ignore[attr-defined]
        broker._settings_changed()
        assert await written(broker, key, 0, FREE) == 0
        codecs = [header.attributes & 7 for _, header in log_of(broker, SHARE_STATE_TOPIC).scan()]
        assert codecs == [0, GZIP]
        assert (await state(broker, key)).batches == (FREE,)


def test_share_state_topic_is_not_created_below_share_version_1() -> None:
    created = [name for name, owned in OWNED.items() if owned.is_created(NO_FEATURES)]
    assert SHARE_STATE_TOPIC not in created
    assert len(created) == 2
    assert all(owned.is_created(Features(0, {"share.version": 1})) for owned in OWNED.values())


async def test_share_state_records_written_by_kafka_are_loaded(tmp_path: Path) -> None:
    records, _ = read_golden()
    async with sharing(tmp_path) as broker:
        await broker.topics.ensure(SHARE_STATE_TOPIC)
    write_records(tmp_path, SHARE_STATE_TOPIC, 0, *records)
    async with sharing(tmp_path) as broker:
        (hosted,) = broker.share_states.hosted_shards
        await eventually("the load", lambda: hosted.phase is Phase.ACTIVE)
        driver = Driver()
        for key, value in records:
            driver.log.append(Record(len(driver.log), 0, key, value))
        wanted = replayed(driver.log, driver.config).view
        found = hosted.core.view
        assert set(found.known_keys) == set(wanted.known_keys)
        assert len(wanted.known_keys) == 5
        for each in found.known_keys:
            assert found.snapshot(each) == wanted.snapshot(each)


@pytest.mark.parametrize("settings", [{}, {"log.flush.interval.messages": "1"}])
async def test_share_coordinator_replies_only_when_the_record_is_stable(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async with sharing(tmp_path, settings) as broker:
        key = await key_of(broker)
        await initialized(broker, key)
        partition = partition_of(broker, SHARE_STATE_TOPIC)
        answer = asyncio.ensure_future(written(broker, key, 0, FREE))
        assert await answer == 0
        assert partition.high_watermark == partition.log.log_end_offset == 2
        if settings:
            assert partition.log.recovery_point == 2
