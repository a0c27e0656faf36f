"""Figures about the controller. `look` updates the figures. All of them are zero while another
broker is the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.cluster.controller.controller_host import ControllerHost
from broker.time import Time
from controller.view import Counts, Doing, Waits

WAITING = ("deletion", "reassignment", "leader")
"""The types of work of the controller that may have to wait for a broker."""
NOTHING = Doing(0, 0, 0, 0, {})


@dataclass(slots=True)
class Waiting:
    """For one type of work: how many topics or partitions wait, and for how long."""

    count: int = 0
    oldest_ms: int = 0
    """The duration in ms of the longest wait of a topic or partition, counted from the first scan
    that found it waiting."""


class ControllerFigures:
    """Figures about the controller. Only the event loop's thread may use this class."""

    def __init__(self, host: ControllerHost, time: Time) -> None:
        self.counts = Counts()
        self.waiting = {each: Waiting() for each in WAITING}
        self.doing = NOTHING
        """The controller's operations in progress."""
        self.requests: Mapping[int, int] = {}
        """The number of queued requests by broker id."""
        self._host = host
        self._time = time
        self._since: dict[tuple[str, str, int], int] = {}
        """The monotonic time in ms at which each waiting topic or partition was first seen waiting.
        """

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller."""
        return self._host.is_active

    def look(self) -> Iterator[int]:
        """Updates the figures, one topic in each step, so that the caller can spread the work."""
        term = self._host.term
        if term is None:
            self.counts, self.doing, self.requests = Counts(), NOTHING, {}
            self.waiting = {each: Waiting() for each in WAITING}
            self._since.clear()
            return
        for found in term.counts():
            self.counts = found
            yield 1
        self.doing = term.doing()
        self.requests = term.channels.waiting()
        yield from self._look_who_waits(term.waits())

    def _look_who_waits(self, found: Iterator[list[Waits]]) -> Iterator[int]:
        now_ms = self._time.now().mono_ms
        since: dict[tuple[str, str, int], int] = {}
        waiting = {each: Waiting() for each in WAITING}
        for several in found:
            for each in several:
                key = (each.what, each.topic, each.partition)
                since[key] = self._since.get(key, now_ms)
                seen = waiting[each.what]
                seen.count += 1
                seen.oldest_ms = max(seen.oldest_ms, now_ms - since[key])
            yield len(several)
        self._since, self.waiting = since, waiting
