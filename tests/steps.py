"""Runs a generator to its end without pausing between its steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def result_of(steps: Generator[object, None, Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
