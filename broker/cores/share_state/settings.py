"""Derives the settings of the runtime of share-partition states, and of its cores, from the
broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.config.config import Config
from broker.cores.runtime_settings import RuntimeSettings, load_skips
from broker.topics.produce_rules import codec_of, level_of, timestamp_type_of
from protocol.records.batch import CREATE_TIME
from share.persister.config import ShareStateConfig


def share_state_config(config: Config, max_record_bytes: int) -> ShareStateConfig:
    return ShareStateConfig(
        updates_per_snapshot=config["share.coordinator.snapshot.update.records.per.snapshot"],
        cold_snapshot_interval_ms=config["share.coordinator.cold.partition.snapshot.interval.ms"],
        max_record_bytes=max_record_bytes,
    )


def runtime_settings(config: Config, topic: Mapping[str, Any] | None = None) -> RuntimeSettings:
    """Returns the settings of the runtime of share-partition states.

    ``topic`` has the settings of ``__share_group_state``; None before the topic exists. If the
    topic's compression.type is ``producer``, the broker's setting determines the codec.
    """
    codec: int | None = None
    level: int | None = None
    if topic is not None:
        codec = codec_of(topic["compression.type"])
        level = level_of(codec, topic)
    if codec is None:
        codec = config["share.coordinator.state.topic.compression.codec"]
    most = config["message.max.bytes"] if topic is None else topic["max.message.bytes"]
    return RuntimeSettings(
        core=share_state_config(config, most),
        stable_timeout_ms=config["share.coordinator.write.timeout.ms"],
        load_buffer_bytes=config["share.coordinator.load.buffer.size"],
        load_skips=load_skips(config["share.coordinator.load.skip.records"]),
        compression=codec,
        compression_level=level,
        timestamp_type=CREATE_TIME if topic is None else timestamp_type_of(topic),
        append_linger_ms=max(config["share.coordinator.append.linger.ms"], 0),
        loads_at_once=config["share.coordinator.threads"],
    )
