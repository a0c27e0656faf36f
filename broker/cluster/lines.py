"""Limits the number of log lines about changes of many partitions, and about failures that
repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from broker.time import Time

logger = structlog.get_logger(__name__)

FEW = 20
"""If an operation changes at most this number of partitions, each partition gets its own log line.
More partitions share one line, which names the first `FEW` of them."""
AGAIN_MS = 60_000
"""The interval in ms between two log lines about a failure that repeats."""


class PartitionLines:
    """Collects the partitions that one operation has changed; `write` logs them."""

    def __init__(self) -> None:
        self._found: dict[str, list[dict[str, Any]]] = {}

    def add(self, event: str, partition: str, **about: Any) -> None:
        """Adds a partition to the log lines of ``event``."""
        self._found.setdefault(event, []).append({"partition": partition, **about})

    def write(self) -> None:
        """Logs the partitions that were added since the last call."""
        found, self._found = self._found, {}
        for event, each in found.items():
            if len(each) <= FEW:
                for about in each:
                    logger.info(event, **about)
            else:
                first = [about["partition"] for about in each[:FEW]]
                logger.info(event, count=len(each), partitions=[*first, "..."])


class Trouble:
    """Decides when a repeated failure is logged: at the first failure, and then once a minute."""

    __slots__ = ("_logged_ms", "_now_ms", "attempts")

    def __init__(self, time: Time) -> None:
        self._now_ms: Callable[[], int] = lambda: time.now().mono_ms
        self._logged_ms = 0
        self.attempts = 0
        """The number of consecutive failures."""

    def is_news(self) -> bool:
        """Counts a failure. Returns True if this failure must be logged."""
        now_ms = self._now_ms()
        self.attempts += 1
        if self.attempts > 1 and now_ms - self._logged_ms < AGAIN_MS:
            return False
        self._logged_ms = now_ms
        return True

    def is_over(self) -> bool:
        """Resets the count of failures after a success. Returns True if there were failures."""
        was, self.attempts = self.attempts > 0, 0
        return was
