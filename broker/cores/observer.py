"""Passes the events of cores to the metrics, the journal, the log and the HTTP page.

The runtime calls the observer after the turn's records are accepted and its replies are sent
(ARCHITECTURE.md, law 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from broker.cores.core import Event
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from protocol.now import Now

Report = Callable[[Event, Now], None]


class Observer:
    """Calls the report functions for each event, and catches their exceptions. Only the event
    loop's thread may use this class."""

    def __init__(
        self,
        time: Time,
        errors: InternalErrors,
        reports: Sequence[Report] = (),
        afterwards: Iterable[Callable[[], None]] = (),
    ) -> None:
        """``reports`` are called with each event. ``afterwards`` are called after all events of an
        outcome were passed to ``reports``."""
        self.reports = list(reports)
        self._time = time
        self._errors = errors
        self._afterwards = afterwards

    def observe(self, events: Iterable[Event]) -> None:
        now = self._time.now()
        for event in events:
            for report in self.reports:
                try:
                    report(event, now)
                except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
                    self._errors.caught("observer", error, event=type(event).__name__)
        for call in self._afterwards:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the same
                self._errors.caught("observer", error)


def at_any_time(report: Callable[[Any], None], kind: type = object) -> Report:
    """Returns a function that gets an event and its time, and calls ``report`` with the event
    alone. It ignores events that are not of class ``kind``."""
    if kind is object:
        return lambda event, _: report(event)
    return lambda event, _: report(event) if isinstance(event, kind) else None
