"""One answer made of several replies: a request about many groups is many calls to shards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from broker.net.request import Steps
from broker.topics.ticket import Ticket
from protocol.errors import NONE, NOT_COORDINATOR

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

    def ticket(self) -> Ticket:
        """The ticket of the next call."""
        self._missing += 1
        self.replies.append(None)
        return _Ticket(self, len(self.replies) - 1)

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

    def put(self, index: int, reply: Reply) -> None:
        """One of the replies has come."""
        self.replies[index] = reply
        self._missing -= 1
        if not self._missing and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def error_of_all(codes: Iterable[int]) -> int:
    """The error of an answer about all shards; one that can't be read keeps no other from it."""
    found = set(codes)
    if found != {NOT_COORDINATOR}:
        found.discard(NOT_COORDINATOR)
    return max(found, default=NONE)


class _Ticket(Generic[Reply]):
    """The ticket of one of the calls."""

    __slots__ = ("_gather", "_index")

    def __init__(self, gather: Gather[Reply], index: int) -> None:
        self._gather = gather
        self._index = index

    def take(self, reply: Reply) -> None:
        """See `Ticket`."""
        self._gather.put(self._index, reply)
