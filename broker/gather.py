"""One answer from several: a request about many groups is many calls to the shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from broker.request import Request

Reply = TypeVar("Reply")


class Gather(Generic[Reply]):
    """Calls ``done`` once, with ``count`` replies in the order of their tickets.

    With a count of 0 that is at once. When ``done`` fails, so does ``request``, and nobody else.
    """

    def __init__(self, request: Request, count: int, done: Callable[[list[Reply]], None]) -> None:
        self._request = request
        self._replies: list[Any] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            self._finish()

    def ticket(self, index: int) -> Callable[[Reply], None]:
        """The ticket of the call whose reply is the ``index``-th."""
        return partial(self._take, index)

    def _take(self, index: int, reply: Reply) -> None:
        self._replies[index] = reply
        self._missing -= 1
        if not self._missing:
            self._finish()

    def _finish(self) -> None:
        try:
            self._done(self._replies)
        except Exception:  # noqa: BLE001 - told in the log, with its traceback
            self._request.fail()
