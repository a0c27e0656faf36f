"""The connection's side of its peer's login; the other side is
`broker/authentication/session.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.net.request import Request


class Session(Protocol):
    """The login of a connection's peer, while it lasts."""

    def renew(self, request: Request) -> None:
        """Answers a SaslHandshake after the login."""

    def renewing(self, request: Request) -> None:
        """Answers a request during a renewal of the login."""

    def late(self, request: Request) -> None:
        """Answers a request after the session's end."""

    def ended(self) -> None:
        """Ends with the connection."""
