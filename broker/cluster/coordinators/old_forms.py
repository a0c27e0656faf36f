"""The record formats of groups and offsets in a cluster in which an older broker may become the
coordinator.

| ``inter.broker.protocol.version`` | format of groups and offsets |
|---|---|
| from 3.0 | as in a standalone broker |
| from 2.3 | as in a standalone broker, in batches with the magic of message.format.version |
| from 2.1-IV1 | groups of version 2, without static members |
| before 2.1-IV1 | groups of version 1; offsets with an expire timestamp, as old brokers require |

Source: Kafka 3.9 ``GroupMetadataManager`` (the versions), Kafka 0.10.2 ``GroupMetadata`` (expiry).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from broker.cluster.peers.inter_broker import InterBroker
from broker.cores.runtime_settings import RuntimeSettings
from coordinator.config import GroupConfig
from log.config import format_magic
from offsets.record_codec import run_records
from offsets.record_values import (
    GROUP_VALUE_VERSION_BEFORE_INSTANCES,
    GROUP_VALUE_VERSION_BEFORE_TIMESTAMPS,
)
from protocol.records.batch import MAGIC
from protocol.records.compression import ZSTD


def for_fellows(
    settings: RuntimeSettings, spoken: InterBroker, message_format: str
) -> RuntimeSettings:
    """Returns ``settings`` with record formats that the other brokers can read, at inter-broker
    protocol version ``spoken``.

    ``message_format`` is the setting message.format.version of ``__consumer_offsets``.
    """
    if spoken.stores_magic_2:
        return settings
    magic = format_magic(message_format)
    if magic < MAGIC:
        compression = 0 if settings.compression == ZSTD else settings.compression
        settings = replace(settings, magic=magic, compression=compression)
    if spoken.has_static_members:
        return settings
    core: GroupConfig = replace(settings.core, static_members=False)
    version = GROUP_VALUE_VERSION_BEFORE_INSTANCES
    if not spoken.keeps_offsets_without_expiry:
        core = replace(core, commit_retention_ms=core.offsets_retention_ms)
        version = GROUP_VALUE_VERSION_BEFORE_TIMESTAMPS
    return replace(settings, core=core, encode=partial(run_records, group_version=version))
