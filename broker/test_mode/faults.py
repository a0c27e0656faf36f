"""The active faults of test mode. Each fault has an id, arguments, a number of hits, and an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

ALL = "all"


class NoSuchFault(Exception):
    """Raised if no active fault has the given id. The fault may have ended."""


class Fault:
    """One fault: its arguments, the number of requests that it affected, and the functions that end
    it."""

    def __init__(self, kind: str, shown: Mapping[str, Any]) -> None:
        self.kind = kind
        self.shown = {name: value for name, value in shown.items() if value is not None}
        """The arguments of the request that started the fault, without null values, for display."""
        self.fault_id = ""
        """The id that `Faults.begin` assigns; "" before `Faults.begin` is called."""
        self.hits = 0
        """The number of requests or disk calls that the fault has affected."""
        self.is_over = False
        self.of_run = False
        """True if the fault ends when the broker stops or is killed."""
        self._ends: list[Callable[[], object]] = []

    def on_end(self, end: Callable[[], object]) -> None:
        """Registers a function that is called once when the fault ends, for any reason."""
        self._ends.append(end)

    def finish(self) -> None:
        if not self.is_over:
            self.is_over = True
            for end in self._ends:
                end()

    def row(self) -> dict[str, Any]:
        return {"id": self.fault_id, "kind": self.kind, **self.shown, "hits": self.hits}


class Faults:
    """All active faults, in the order in which they started."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._begun = 0

    def begin(self, fault: Fault) -> Fault:
        self._begun += 1
        fault.fault_id = str(self._begun)
        self._faults[fault.fault_id] = fault
        return fault

    def end(self, fault_id: str) -> int:
        """Ends a fault. Returns how many requests, connections or members the fault affected.
        Raises NoSuchFault."""
        fault = self._faults.pop(fault_id, None)
        if fault is None:
            raise NoSuchFault(
                f"fault {fault_id!r} does not exist; GET /test/faults lists all faults"
            )
        fault.finish()
        return fault.hits

    def end_all(self) -> int:
        """Ends all faults. Returns the sum of their hits."""
        return sum(self.end(fault_id) for fault_id in list(self._faults))

    def run_over(self) -> None:
        """Called when the broker has stopped or was killed. Ends the faults of this broker process,
        such as a moved coordinator."""
        for fault in list(self._faults.values()):
            if fault.of_run:
                self.end(fault.fault_id)

    def rows(self) -> list[dict[str, Any]]:
        return [fault.row() for fault in self._faults.values()]

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def __len__(self) -> int:
        return len(self._faults)
