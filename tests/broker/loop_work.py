"""The work in one turn of an event loop, counted in calls, so that a busy machine does not
matter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CALLS_IN_10_MS = 60_000
"""Calls of functions, including those in C; one takes 0.05 to 0.17 us."""


class LoopWork:
    """The longest piece of work since `counting` began."""

    def __init__(self) -> None:
        self.longest = 0
        """Calls of functions between two polls of the sockets."""
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
    """Counts the work of this thread's loop; other threads are not counted."""
    work = LoopWork()
    work._iteration()
    sys.setprofile(work._called)
    try:
        yield work
    finally:
        sys.setprofile(None)
        work._is_over = True


class LoopLines(LoopWork):
    """Counts executed lines of Python, including those of comprehensions: once per element."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def traced(self, frame: Any, event: str, _arg: Any) -> Any:
        """Counts a line; see `sys.settrace`."""
        if event == "line":
            self._calls += 1
        elif event == "call" and (
            self._folder not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename
        ):
            return None
        return self.traced


@contextmanager
def counting_lines(folder: str) -> Iterator[LoopLines]:
    """Counts the work of this thread's loop in the code below a folder."""
    work = LoopLines(folder)
    work._iteration()
    before = sys.gettrace()
    sys.settrace(work.traced)
    try:
        yield work
    finally:
        sys.settrace(before)
        work._is_over = True
