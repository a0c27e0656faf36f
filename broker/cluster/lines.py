"""Bounds the number of log lines about changes of many partitions, and about repeated failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from broker.time import Time

logger = structlog.get_logger(__name__)

FEW = 20
"""The number of partitions that have one log line each. More partitions share one line, which names
this number of partitions."""
AGAIN_MS = 60_000
"""The interval in ms between two log lines about a failure that continues."""


class PartitionLines:
    """Collects changes of partitions in one operation; `write` logs them."""

    def __init__(self) -> None:
        self._found: dict[str, list[dict[str, Any]]] = {}

    def add(self, event: str, partition: str, **about: Any) -> None:
        """Adds a partition to the lines of an event."""
        self._found.setdefault(event, []).append({"partition": partition, **about})

    def write(self) -> None:
        """Logs the changes added since the last call."""
        found, self._found = self._found, {}
        for event, each in found.items():
            if len(each) <= FEW:
                for about in each:
                    logger.info(event, **about)
            else:
                first = [about["partition"] for about in each[:FEW]]
                logger.info(event, count=len(each), partitions=[*first, "..."])


class Trouble:
    """Decides when a repeated failure is logged: at once, then once a minute, and when the failure
    ends."""

    __slots__ = ("_logged_ms", "_now_ms", "attempts")

    def __init__(self, time: Time) -> None:
        self._now_ms: Callable[[], int] = lambda: time.now().mono_ms
        self._logged_ms = 0
        self.attempts = 0
        """The number of consecutive failures."""

    def is_news(self) -> bool:
        """Counts one more failure; returns True if the failure must be logged."""
        now_ms = self._now_ms()
        self.attempts += 1
        if self.attempts > 1 and now_ms - self._logged_ms < AGAIN_MS:
            return False
        self._logged_ms = now_ms
        return True

    def is_over(self) -> bool:
        """Resets the count after a success; returns True if there were failures before."""
        was, self.attempts = self.attempts > 0, 0
        return was
