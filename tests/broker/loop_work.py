"""Measures the work of an event loop in function calls, because their number does not depend on the
load of the machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CALLS_IN_10_MS = 60_000
"""The minimum number of function calls in 10 ms, including calls of C functions. One call takes
0.05 to 0.17 us."""


class LoopWork:
    """Measures work by function calls: the longest work between two polls of the event loop since
    `counting` began."""

    def __init__(self) -> None:
        self.longest = 0
        """The maximum number of function calls between two polls of the sockets."""
        self._calls = 0
        self._is_over = False

    def _called(self, _frame: Any, event: str, _arg: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def _iteration(self) -> None:
        self.longest = max(self.longest, self._calls)
        self._calls = 0
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._iteration)


@contextmanager
def counting() -> Iterator[LoopWork]:
    """Counts the function calls of this thread. Other threads are not counted."""
    work = LoopWork()
    work._iteration()
    sys.setprofile(work._called)
    try:
        yield work
    finally:
        sys.setprofile(None)
        work._is_over = True


class LoopLines(LoopWork):
    """Counts executed lines of Python code. A line of a comprehension counts once per element."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def traced(self, frame: Any, event: str, _arg: Any) -> Any:
        if event == "line":
            self._calls += 1
        elif event == "call" and (
            self._folder not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename
        ):
            return None
        return self.traced


@contextmanager
def counting_lines(folder: str) -> Iterator[LoopLines]:
    """Counts how many lines of the code in ``folder`` this thread executes while the block runs."""
    work = LoopLines(folder)
    work._iteration()
    before = sys.gettrace()
    sys.settrace(work.traced)
    try:
        yield work
    finally:
        sys.settrace(before)
        work._is_over = True
