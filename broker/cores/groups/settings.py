"""Derives the settings of the runtime of groups, and of its cores, from the broker's
configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broker.config.config import Config
from broker.config.group_rules import consumer_assignors
from broker.config.group_settings import consumer_settings, share_settings, streams_settings
from broker.cores.runtime_settings import RuntimeSettings, load_skips
from broker.topics.produce_rules import codec_of, level_of, timestamp_type_of
from coordinator.config import GroupConfig
from protocol.records.batch import CREATE_TIME

_MINUTE_MS = 60_000
_NO_SETTINGS: Mapping[str, Mapping[str, str]] = {}


def group_config(
    config: Config, groups: Mapping[str, Mapping[str, str]] = _NO_SETTINGS
) -> GroupConfig:
    """Returns the settings of the cores. ``groups`` has the groups' own settings, by group id."""
    return GroupConfig(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        join_coalescing_ms=config["group.join.coalescing.ms"],
        max_size=config["group.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * _MINUTE_MS,
        offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
        fetch_counts_as_activity=config["group.offsets.fetch.counts.as.activity"],
        max_record_bytes=config["message.max.bytes"],
        consumer=consumer_settings(config, {}),
        own_consumer={name: consumer_settings(config, own) for name, own in groups.items()},
        consumer_max_size=config["group.consumer.max.size"],
        consumer_assignors=consumer_assignors(config),
        consumer_rebalance_heartbeat_interval_ms=config[
            "group.consumer.rebalance.heartbeat.interval.ms"
        ],
        share=share_settings(config, {}),
        own_share={name: share_settings(config, own) for name, own in groups.items()},
        share_max_size=config["group.share.max.size"],
        streams=streams_settings(config, {}),
        own_streams={name: streams_settings(config, own) for name, own in groups.items()},
        streams_max_size=config["group.streams.max.size"],
        consumer_migration_policy=config["group.consumer.migration.policy"].lower(),
    )


def runtime_settings(
    config: Config,
    offsets_topic: Mapping[str, Any] | None = None,
    own_settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS,
) -> RuntimeSettings:
    """Returns the settings of the runtime of groups.

    ``offsets_topic`` has the settings of ``__consumer_offsets``; None before the topic exists.
    ``own_settings`` has the groups' own settings, by group id.
    """
    groups = group_config(config, own_settings)
    codec: int | None = None
    level: int | None = None
    timestamp_type = CREATE_TIME
    if offsets_topic is not None:
        groups = replace(groups, max_record_bytes=offsets_topic["max.message.bytes"])
        codec = codec_of(offsets_topic["compression.type"])
        level = level_of(codec, offsets_topic)
        timestamp_type = timestamp_type_of(offsets_topic)
    if codec is None:
        codec = config["offsets.topic.compression.codec"]
    return RuntimeSettings(
        core=groups,
        stable_timeout_ms=config["offsets.commit.timeout.ms"],
        answers_early=config["offsets.commit.required.acks"] == 0,
        load_buffer_bytes=config["offsets.load.buffer.size"],
        load_skips=load_skips(config["offsets.load.skip.records"]),
        compression=codec,
        compression_level=level,
        timestamp_type=timestamp_type,
        append_linger_ms=config["group.coordinator.append.linger.ms"],
        loads_at_once=config["group.coordinator.threads"],
    )
