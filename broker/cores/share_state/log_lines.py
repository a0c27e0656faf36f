"""Writes log lines about the events of the share coordinator."""

from __future__ import annotations

from typing import Any

import structlog

from share.persister.shard import SnapshotsMissing
from share.persister.values import coordinator_key

logger = structlog.get_logger(__name__)

_SHOWN = 10


def observe(event: Any) -> None:
    if isinstance(event, SnapshotsMissing):
        logger.warning(
            "updates of share partitions ignored, because their snapshots are missing",
            share_partitions=len(event.keys),
            first=[coordinator_key(key) for key in event.keys[:_SHOWN]],
            advice="the groups initialize these share partitions again",
        )
