"""The observer of a core: it hands the core's facts to the metrics, the journal, the log, the page.

It is called once the records of a turn are accepted and the replies are on their way (law 10).
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
    """Passes events to reporters, and catches their exceptions one by one. Use from the event
    loop's thread.
    """

    def __init__(
        self,
        time: Time,
        errors: InternalErrors,
        reports: Sequence[Report] = (),
        afterwards: Iterable[Callable[[], None]] = (),
    ) -> None:
        """Each of ``afterwards`` is called once all facts of an outcome are reported."""
        self.reports = list(reports)
        """Each is called with each fact, in order."""
        self._time = time
        self._errors = errors
        self._afterwards = afterwards

    def observe(self, events: Iterable[Event]) -> None:
        """Reports the facts of an outcome."""
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
    """A report that needs no time, of facts of one kind."""
    if kind is object:
        return lambda event, _: report(event)
    return lambda event, _: report(event) if isinstance(event, kind) else None
