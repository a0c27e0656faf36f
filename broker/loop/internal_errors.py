"""Catches exceptions from bugs of the broker before they affect other work.

Some code calls many observers, replies, shards or waiters one after the other. That code catches an
exception of one of them, reports the exception here, and continues with the next (ARCHITECTURE.md,
law 10). This module counts and logs the exceptions. It logs repeated exceptions less and less
often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

logger = structlog.get_logger(__name__)

PLACES = (
    "observer",
    "reply",
    "shard",
    "connection",
    "waiter",
    "peer_gone",
    "topic_gone",
    "stop",
    "http",
)
"""The parts of the code that catch exceptions: the values of the label `place` of
muster_internal_errors_total."""


class InternalErrors:
    """Counts the exceptions that a broker has caught. Only the event loop's thread may use this
    class."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))

    def caught(self, place: str, error: Exception, **about: object) -> None:
        """Counts an exception that ``place`` caught. Logs exceptions number 1, 2, 4, 8 and so on of
        each place.

        Raises no exception itself. ``about`` has additional fields of the log line.
        """
        count = self.counts[place] = self.counts[place] + 1
        if count & (count - 1) == 0:
            with suppress(Exception):  # code that catches exceptions must not fail itself
                logger.error(
                    "internal error",
                    place=place,
                    times=count,
                    **about,
                    exc_info=error,
                )

    @contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """Catches and counts all exceptions of a block that only reports something
        (ARCHITECTURE.md, law 10)."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self.caught("observer", error, event=what)
