"""Runs a generator that pauses between steps to its end at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def result_of(steps: Generator[object, None, Result]) -> Result:
    """Returns the generator's return value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
