"""The interface through which a connection calls the login session of its peer.
`broker/authentication/session.py` implements this interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.net.request import Request


class Session(Protocol):
    """The login session of a connection's peer."""

    def renew(self, request: Request) -> None:
        """Answers a SaslHandshake request of a logged-in peer; the request starts a
        re-authentication."""

    def renewing(self, request: Request) -> None:
        """Answers a request during a re-authentication."""

    def late(self, request: Request) -> None:
        """Answers a request that arrives after the SASL session has expired."""

    def ended(self) -> None: ...
