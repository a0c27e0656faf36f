"""The settings of one log, in Kafka's units and with the defaults of Kafka's topics."""

from __future__ import annotations

import re

from protocol.slotted import slotted

LONG_MAX = 2**63 - 1
LOG_APPEND = "LogAppendTime"
"""The value of ``message.timestamp.type`` with which the broker replaces the timestamps of records
by the time of the append."""

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(\.\d{1,3})?(-IV\d{1,3})?")


def format_magic(version: str) -> int:
    """Returns the magic of a `message.format.version`: 0 up to 0.9, 1 for 0.10, 2 from 0.11 on.
    Raises ValueError if ``version`` is not a Kafka version."""
    found = _VERSION.fullmatch(version)
    if found is None or (number := (int(found[1]), int(found[2]))) < (0, 8):
        raise ValueError(f"{version!r} is not a Kafka version such as 0.10.2 or 3.0-IV1")
    if number < (0, 10):
        return 0
    return 1 if number < (0, 11) else 2


@slotted(frozen=True)
class LogConfig:
    """The topic settings that a log reads, under Kafka's names with ``_`` for ``.``.

    ``*_bytes`` are bytes, ``*_ms`` milliseconds. A retention of -1 is unlimited. The ``config`` of
    a log may be replaced at any time: the next append, flush or retention check reads the new
    ``config``.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    cleanup_policy: str = "delete"
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: str = "CreateTime"
    message_format_version: str = "3.0-IV1"
    preallocate: bool = False
    producer_id_expiration_ms: int = 24 * 3600 * 1000

    @property
    def message_magic(self) -> int:
        """Returns the magic of `message.format.version`. Raises ValueError if the setting is not a
        Kafka version."""
        return format_magic(self.message_format_version)

    @property
    def deletes(self) -> bool:
        """Returns whether ``cleanup.policy`` contains delete: time and size limits remove old
        segments."""
        return "delete" in self.cleanup_policy.split(",")

    @property
    def compacts(self) -> bool:
        """True if ``cleanup.policy`` contains compact, so that the cleaner may remove records from
        the log."""
        return "compact" in self.cleanup_policy.split(",")
