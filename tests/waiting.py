"""Functions with which tests wait for conditions, with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.05


def until(
    what: str,
    condition: Callable[[], T],
    within_s: float = 60.0,
    tolerate: type[Exception] | tuple[()] = Exception,
) -> T:
    """Calls `condition` repeatedly until it returns a true value, and returns this value.

    Use this function only for conditions that must be polled, such as those of a broker or a file.
    The test fails with the text `what` after `within_s` seconds. An exception of type `tolerate`
    counts as false. The failure shows the last such exception as its cause.
    """
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while True:
        error: Exception | None = None
        answer: T | None = None
        try:
            answer = condition()
            if answer:
                return answer
        except tolerate as caught:
            error = caught
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {within_s:g} s: {what} (last: {error or answer!r})"
            ) from error
        pause.wait(PAUSE_SECONDS)


class Watch:
    """Waits for changes by other threads. A thread that makes a change calls `changed`, and the
    test calls `until`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def changed(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def until(
        self,
        what: str,
        condition: Callable[[], T],
        within_s: float = 60.0,
        show: Callable[[], str] = lambda: "",
    ) -> T:
        """Waits until `condition` returns a true value, and returns this value. The test fails with
        the text `what` after `within_s` seconds."""
        deadline = time.monotonic() + within_s
        with self._condition:
            while not (answer := condition()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {within_s:g} s: {what}\n{show()}")
                self._condition.wait(min(left, 1.0))
        return answer
