"""The interface of a ticket, for code that keeps replies, and how one is given its reply."""

from __future__ import annotations

from typing import Any, Protocol

from broker.loop.internal_errors import InternalErrors


class Ticket(Protocol):
    """One request, or one of the calls that a request makes. Compared by identity, hashable."""

    def take(self, reply: Any) -> None:
        """Takes the reply; called once, in the event loop's thread."""


def deliver(ticket: Ticket, reply: Any, errors: InternalErrors) -> None:
    """Gives a reply to who waits for it; should that fail it is nobody else's harm."""
    try:
        ticket.take(reply)
    except Exception as error:  # noqa: BLE001 - counted and logged by `caught`
        errors.caught("reply", error)
