"""One answer from several: a request about many groups is many calls to the shards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from broker.net.request import Steps

Reply = TypeVar("Reply")

CALLS_AT_ONCE = 100
"""Calls between which their replies are waited for: so many may fall due together."""


class Gather(Generic[Reply]):
    """The replies to calls, in the order of their tickets.

    ``yield from gather.sent()`` after each call keeps the steps of a handler in pace with the
    replies; after ``gather.rest()`` all ``replies`` are there.
    """

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self._missing = 0
        self._waiter: asyncio.Future[None] | None = None

    def ticket(self) -> Callable[[Reply], None]:
        """The ticket of the next call."""
        self._missing += 1
        self.replies.append(None)
        return partial(self._take, len(self.replies) - 1)

    def sent(self) -> Steps:
        """After a call: others have their turn, and too many calls are not under way."""
        if self._missing >= CALLS_AT_ONCE:
            yield from self.rest()
        else:
            yield None

    def rest(self) -> Steps:
        """Until every call made so far is answered."""
        if self._missing:
            self._waiter = asyncio.get_running_loop().create_future()
            yield self._waiter

    def _take(self, index: int, reply: Reply) -> None:
        self.replies[index] = reply
        self._missing -= 1
        if not self._missing and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
