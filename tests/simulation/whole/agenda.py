"""The agenda of a simulation: all events outside the broker, in the order of their virtual time.

Actions of clients, arriving bytes and power failures are entries of the agenda. The broker's event
loop (virtual_loop.py) runs the due entries whenever it polls its sockets. The simulation therefore
continues while the broker works, sleeps or is suspended.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

MS = 1_000_000
S = 1_000 * MS


class Agenda:
    """The scheduled calls of a simulation, in the order of their time. Calls with the same time are
    in the order of their creation."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns
        """The time in ns of the current entry, or the time up to which all entries have run."""
        self.happened = 0
        self._entries: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0

    def at(self, ns: int, happens: Callable[..., None], *args: Any) -> None:
        """Calls ``happens(*args)`` at the time ``ns``, or as the next entry if this time is
        past."""
        self._made += 1
        heappush(self._entries, (max(ns, self.now_ns), self._made, happens, args))

    def after(self, ns: int, happens: Callable[..., None], *args: Any) -> None:
        """Calls ``happens(*args)`` after ``ns`` nanoseconds."""
        self.at(self.now_ns + ns, happens, *args)

    @property
    def next_ns(self) -> int | None:
        """Returns the time of the next entry, or None."""
        return self._entries[0][0] if self._entries else None

    def run_until(self, ns: int) -> None:
        """Runs all entries whose time is not after ``ns``."""
        entries = self._entries
        while entries and entries[0][0] <= ns:
            self.now_ns, _, happens, args = heappop(entries)
            self.happened += 1
            happens(*args)
        self.now_ns = max(self.now_ns, ns)
