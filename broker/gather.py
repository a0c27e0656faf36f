"""One answer from several: a request about many groups is many calls to the shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

Reply = TypeVar("Reply")


class Gather(Generic[Reply]):
    """Calls ``done`` once, with ``count`` replies in the order of their tickets.

    With a count of 0 that is at once.
    """

    def __init__(self, count: int, done: Callable[[list[Reply]], None]) -> None:
        self._replies: list[Any] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            done([])

    def ticket(self, index: int) -> Callable[[Reply], None]:
        """The ticket of the call whose reply is the ``index``-th."""
        return partial(self._take, index)

    def _take(self, index: int, reply: Reply) -> None:
        self._replies[index] = reply
        self._missing -= 1
        if not self._missing:
            self._done(self._replies)
