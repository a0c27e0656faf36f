"""The rules for produced records that follow from a topic's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.config.config import timestamp_bounds
from log.config import format_magic
from protocol.records.compression import GZIP, LZ4, NAMES, ZSTD
from protocol.records.produce_rules import ProduceRules

_KAFKA_NAMES = {"uncompressed": "none"}
_LEVELS = {
    GZIP: "compression.gzip.level",
    LZ4: "compression.lz4.level",
    ZSTD: "compression.zstd.level",
}


def produce_rules(settings: Mapping[str, Any]) -> ProduceRules:
    """Reads the rules for produced records from a topic's settings."""
    before, after = timestamp_bounds(settings)
    codec = codec_of(settings["compression.type"])
    return ProduceRules(
        max_message_bytes=settings["max.message.bytes"],
        segment_bytes=settings["segment.bytes"],
        compacted="compact" in settings["cleanup.policy"].split(","),
        timestamp_type=timestamp_type_of(settings),
        compression=codec,
        compression_level=level_of(codec, settings),
        timestamp_before_max_ms=before,
        timestamp_after_max_ms=after,
        magic=format_magic(settings["message.format.version"]),
    )


def codec_of(compression_type: str) -> int | None:
    """Returns the codec of ``compression.type``; None for ``producer``."""
    if compression_type == "producer":
        return None
    return NAMES.index(_KAFKA_NAMES.get(compression_type, compression_type))


def level_of(codec: int | None, settings: Mapping[str, Any]) -> int | None:
    """Returns the topic's compression level for ``codec``; None if ``codec`` is None or has no
    levels."""
    return None if codec not in _LEVELS else int(settings[_LEVELS[codec]])


def timestamp_type_of(settings: Mapping[str, Any]) -> int:
    """Returns a topic's ``message.timestamp.type`` as a bit of a batch's attributes."""
    return int(settings["message.timestamp.type"] == "LogAppendTime")
