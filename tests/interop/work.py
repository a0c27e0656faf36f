"""Work that goes on in threads, piece after piece, while a test does harm beside it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

PACE_S = 0.02
"""Between two pieces: brokers and tests share the machine."""
ENDS_WITHIN_S = 120.0
ONE_IN_FLIGHT = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 1}
"""An idempotent producer of librdkafka that leaders move under. With more requests in flight it
takes one that is refused as out of order for a loss, goes on under a new epoch, and writes once
more what an old leader has appended and not answered (its issue 4953; seen between two Kafkas)."""


class Work(ABC):
    """Does a piece again and again from `start` to `end`. What a piece raises, `end` does."""

    name: str
    """In reports."""

    def __init__(self) -> None:
        self._broken: list[Exception] = []
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins."""
        self._begin(self._piece)

    def _begin(self, piece: Callable[[], None]) -> None:
        """Another thread, which does another kind of piece."""
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
    def _piece(self) -> None:
        """Does one piece."""

    def raise_broken(self) -> None:
        """Raises what has ended the work, if anything has."""
        if self._broken:
            raise self._broken[0]

    def end(self) -> None:
        """Ends after whole pieces."""
        self._over.set()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive(), f"{self.name} does not end"
        self.raise_broken()
