"""Where a log goes on: sealing its active segment and beginning another."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

from log.config import LogConfig
from log.fold import save_producers
from log.segment import Segment

if TYPE_CHECKING:
    from log.partition_log import PartitionLog


def roll(log: PartitionLog) -> Segment:
    """See PartitionLog.roll."""
    sealed = log.active
    if not sealed.size:
        return sealed
    sealed.seal()
    with suppress(OSError):  # it only saves time at the next start
        save_producers(log)
    segment = log.new_segment(log.log_end_offset)
    log.segments = [*log.segments, segment]
    log.active = segment
    return segment


def prepare(segment: Segment, config: LogConfig) -> None:
    """Give an active segment its share of the jitter and, while it is empty, its room."""
    segment.jitter_ms = random.randrange(max(1, min(config.segment_jitter_ms, config.segment_ms)))
    if config.preallocate and not segment.size:
        segment.reserve(config.segment_bytes)
