"""Collects the replies to the calls that one request makes, such as one call for each group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from broker.net.request import Steps
from broker.topics.ticket import Ticket
from protocol.errors import NONE, NOT_COORDINATOR

Reply = TypeVar("Reply")

CALLS_AT_ONCE = 100
"""The maximum number of calls without a reply. When it is reached, the handler waits until all
calls have replies."""


class Gather(Generic[Reply]):
    """Collects the replies to the calls of one request, in the order of their tickets.

    After each call, the handler does ``yield from gather.sent()``, which waits if too many calls
    have no reply yet. After ``yield from gather.rest()``, ``replies`` is complete.
    """

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self._missing = 0
        self._waiter: asyncio.Future[None] | None = None

    def ticket(self) -> Ticket:
        self._missing += 1
        self.replies.append(None)
        return _Ticket(self, len(self.replies) - 1)

    def sent(self) -> Steps:
        """The handler must call this method after each call that it has submitted. If CALLS_AT_ONCE
        calls have no reply yet, waits for the replies to all of them. Otherwise yields once."""
        if self._missing >= CALLS_AT_ONCE:
            yield from self.rest()
        else:
            yield None

    def rest(self) -> Steps:
        """Waits until every call made so far has a reply."""
        if self._missing:
            self._waiter = asyncio.get_running_loop().create_future()
            yield self._waiter

    def put(self, index: int, reply: Reply) -> None:
        """Stores the reply to the call with the number ``index``."""
        self.replies[index] = reply
        self._missing -= 1
        if not self._missing and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def error_of_all(codes: Iterable[int]) -> int:
    """Returns the error code for a response about all shards: the largest error code of any shard.

    NOT_COORDINATOR, the error code of an unreadable shard, is ignored unless every shard returns
    it.
    """
    found = set(codes)
    if found != {NOT_COORDINATOR}:
        found.discard(NOT_COORDINATOR)
    return max(found, default=NONE)


class _Ticket(Generic[Reply]):
    __slots__ = ("_gather", "_index")

    def __init__(self, gather: Gather[Reply], index: int) -> None:
        self._gather = gather
        self._index = index

    def take(self, reply: Reply) -> None:
        self._gather.put(self._index, reply)
