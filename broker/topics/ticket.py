"""The interface of a ticket, for code that keeps replies, and how one is given its reply."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, Protocol, TypeVar

from broker.loop.internal_errors import InternalErrors

Reply = TypeVar("Reply")


class Ticket(Protocol):
    """One request, or one of the calls that a request makes. Compared by identity, hashable."""

    def take(self, reply: Any) -> None:
        """Takes the reply; called once, in the event loop's thread."""


class Awaited(Generic[Reply]):
    """The ticket of a call whose reply is awaited where the call was made."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def take(self, reply: Reply) -> None:
        """See `Ticket`."""
        if not self.reply.done():  # the waiting caller may have been cancelled
            self.reply.set_result(reply)


def deliver(ticket: Ticket, reply: Any, errors: InternalErrors) -> None:
    """Delivers a reply to its ticket; a failure is caught, so that it harms no other."""
    try:
        ticket.take(reply)
    except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
        errors.caught("reply", error)
