"""Operations that threads repeat while a test causes failures."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

PACE_S = 0.02
"""The pause in seconds between two operations. The pauses leave CPU time for the brokers, which run
on the same machine as the tests."""
ENDS_WITHIN_S = 120.0
"""The time in seconds for which `Work.end` waits until each thread has completed its last
operation."""
ONE_IN_FLIGHT = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 1}
"""The settings of an idempotent librdkafka producer in tests in which leaders change.

With several requests in flight, librdkafka treats OUT_OF_ORDER_SEQUENCE_NUMBER as lost records and
continues with a new epoch. It then sends records again that the old leader had already appended, so
that they are duplicated (librdkafka issue 4953). This also happens with Kafka brokers.
"""


class Work(ABC):
    """Repeats an operation from `start` until `end` is called. `end` raises the exception of a
    failed operation."""

    name: str
    """The name of the work in messages of failed tests."""

    def __init__(self) -> None:
        self._broken: list[Exception] = []
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._begin(self._piece)

    def _begin(self, piece: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._run, args=(piece,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, piece: Callable[[], None]) -> None:
        try:
            while not self._over.wait(PACE_S):
                piece()
        except Exception as error:  # noqa: BLE001 - of whatever kind, the test raises it
            self._broken.append(error)

    @abstractmethod
    def _piece(self) -> None: ...

    def raise_broken(self) -> None:
        """Raises the exception that has ended the work, if there is one."""
        if self._broken:
            raise self._broken[0]

    def end(self) -> None:
        """Waits until each thread has completed its last operation. Raises the first exception."""
        self._over.set()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive(), f"{self.name} does not end"
        self.raise_broken()
