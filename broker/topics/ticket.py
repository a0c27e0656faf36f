"""The interface of a ticket, for code that keeps replies."""

from __future__ import annotations

from typing import Any, Protocol


class Ticket(Protocol):
    """One request, or one of the calls that a request makes. Compared by identity, hashable."""

    def take(self, reply: Any) -> None:
        """Takes the reply; called once, in the event loop's thread."""
