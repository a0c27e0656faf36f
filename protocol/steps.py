"""Long work as a generator that yields between its steps, so that a caller can pause it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def at_once(steps: Generator[None, None, Result]) -> Result:
    """Runs all steps. Returns the result of the work."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
