"""Counts the actions of this broker as controller since its process began."""

from __future__ import annotations

from collections import Counter

from broker.time import Time
from controller.events import Cause, ControllerReady, Event, NoLeader, StateWritten
from controller.values import NO_LEADER

LED = {
    Cause.OFFLINE: "lost",
    Cause.UNCLEAN: "unclean",
    Cause.SHUTDOWN: "shutdown",
    Cause.PREFERRED: "preferred",
    Cause.BALANCE: "balance",
    Cause.REASSIGNED: "reassigned",
}
"""The counted reasons for leader changes, each with its label value in the metrics."""


class ControllerTotals:
    """An observer that counts the controller's events. Only the event loop's thread may use this
    class."""

    def __init__(self, time: Time) -> None:
        self.leader_changes: Counter[str] = Counter(dict.fromkeys(LED.values(), 0))
        """The number of partitions that got another leader, by reason."""
        self.terms = 0
        """The number of terms as controller that this broker has begun."""
        self.leaderless_ms = 0
        """The time in ms without a leader, summed over all partitions that lost their leader and
        have a leader again."""
        self._time = time
        self._leaderless: dict[tuple[str, int], int] = {}
        """The monotonic time in ms at which each partition without a leader lost its leader."""

    def observe(self, event: Event) -> None:
        match event:
            case ControllerReady():
                self.terms += 1
                self._leaderless.clear()
            case NoLeader(topic, partition):
                self._leaderless.setdefault((topic, partition), self._time.now().mono_ms)
            case StateWritten() if event.leader != NO_LEADER:
                since_ms = self._leaderless.pop((event.topic, event.partition), None)
                if since_ms is not None:
                    self.leaderless_ms += self._time.now().mono_ms - since_ms
                if event.leader != event.leader_before and event.cause in LED:
                    self.leader_changes[LED[event.cause]] += 1
            case _:
                pass
