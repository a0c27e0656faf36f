"""Tickets: a ticket passes a reply to the request or caller that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from broker.loop.internal_errors import InternalErrors

Reply = TypeVar("Reply")

REPLIES_AT_ONCE = 200
"""The maximum number of replies that are delivered before the loop reads the sockets again. To
encode and write a JoinGroup response takes about 10 us, so this number of them takes about 2 ms
(ARCHITECTURE.md, law 9)."""


class Ticket(Protocol):
    """The destination of one reply: a request, or a call that a request makes. Tickets are hashable
    and compared by identity."""

    def take(self, reply: Any) -> None:
        """Receives the reply; called once, in the event loop's thread."""


class Awaited(Generic[Reply]):
    """The ticket of a call whose caller awaits the reply."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def take(self, reply: Reply) -> None:
        if not self.reply.done():  # the caller may have been cancelled
            self.reply.set_result(reply)


def deliver(ticket: Ticket, reply: Any, errors: InternalErrors) -> None:
    """Passes a reply to its ticket. Catches and logs exceptions of the ticket."""
    try:
        ticket.take(reply)
    except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
        errors.caught("reply", error)


def deliver_all(replies: Sequence[tuple[Ticket, Any]], errors: InternalErrors) -> None:
    """Delivers many replies, such as those of a rebalance, in slices of `REPLIES_AT_ONCE`. Other
    requests are handled between the slices."""
    for ticket, reply in replies[:REPLIES_AT_ONCE]:
        deliver(ticket, reply, errors)
    if len(replies) > REPLIES_AT_ONCE:
        rest = replies[REPLIES_AT_ONCE:]
        asyncio.get_running_loop().call_soon(deliver_all, rest, errors)
