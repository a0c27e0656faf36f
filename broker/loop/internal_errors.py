"""Exceptions from bugs of the broker, caught before they harm others.

Code that serves many observers, replies, shards or waiters in a row catches the exceptions of each,
reports them here, and continues with the next (law 10). They are counted and logged here; repeated
ones are logged less and less often.
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
"""Where they are caught; the label values of the metric."""


class InternalErrors:
    """The counts of a broker; use from the event loop's thread alone."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(PLACES, 0))

    def caught(self, place: str, error: Exception, **about: object) -> None:
        """Count an exception and log the 1st, 2nd, 4th, 8th ... of its place; never raises.

        ``about`` has further fields of the log line.
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
        """Wrap code that only reports: the work continues whatever it raises (law 10)."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
            self.caught("observer", error, event=what)
