"""The errors of a connection. Each message is a sentence for users."""

from __future__ import annotations


class ClientError(Exception):
    """Raised if a request can't be sent, or if the broker rejects it."""


class NotAskable(ClientError):
    """Raised if the request can't be encoded."""


class Unreachable(ClientError):
    """Raised if a broker does not respond, or if its response is invalid."""


class NoBroker(Unreachable):
    """Raised if no broker listens at the address."""
