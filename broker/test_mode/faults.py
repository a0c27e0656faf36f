"""Faults that are on: each with its id, what it is, how often it hit, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ALL = "all"
"""Means every id."""


class NoSuchFault(Exception):
    """No fault has that id; it may have ended already."""


class Fault:
    """One fault, from its beginning to its end."""

    def __init__(self, kind: str, shown: Mapping[str, Any]) -> None:
        self.kind = kind
        self.shown = {name: value for name, value in shown.items() if value is not None}
        """The arguments of its request."""
        self.fault_id = ""
        """Given by `Faults.begin`."""
        self.hits = 0
        """How many requests, or calls of the disk, it has met."""
        self.is_over = False
        self.of_run = False
        """It ends with the run of the broker in which it began."""
        self._ends: list[Callable[[], object]] = []

    def on_end(self, end: Callable[[], object]) -> None:
        """Has ``end`` called once, when it ends, however that comes."""
        self._ends.append(end)

    def finish(self) -> None:
        """Ends it, if it has not ended."""
        if not self.is_over:
            self.is_over = True
            for end in self._ends:
                end()

    def row(self) -> dict[str, Any]:
        """The fault as a row of JSON."""
        return {"id": self.fault_id, "kind": self.kind, **self.shown, "hits": self.hits}


class Faults:
    """All that are on, in the order in which they began."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._begun = 0

    def begin(self, fault: Fault) -> Fault:
        """Puts a fault on the list; gives it its id."""
        self._begun += 1
        fault.fault_id = str(self._begun)
        self._faults[fault.fault_id] = fault
        return fault

    def end(self, fault_id: str) -> int:
        """Ends one; how often it hit. Raises NoSuchFault."""
        fault = self._faults.pop(fault_id, None)
        if fault is None:
            raise NoSuchFault(
                f"fault {fault_id!r} does not exist; GET /test/faults lists all faults"
            )
        fault.finish()
        return fault.hits

    def end_all(self) -> int:
        """Ends every one; how often they hit, together."""
        return sum(self.end(fault_id) for fault_id in list(self._faults))

    def run_over(self) -> None:
        """Ends the faults of a run together with the run."""
        for fault in list(self._faults.values()):
            if fault.of_run:
                self.end(fault.fault_id)

    def rows(self) -> list[dict[str, Any]]:
        """A row of JSON for each fault."""
        return [fault.row() for fault in self._faults.values()]

    def __len__(self) -> int:
        return len(self._faults)
