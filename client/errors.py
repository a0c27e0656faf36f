"""Errors of a connection. Each message is a sentence for users."""

from __future__ import annotations


class ClientError(Exception):
    """A request can't be sent, or the broker rejected the request."""


class NotAskable(ClientError):
    """The request can't be encoded."""


class Unreachable(ClientError):
    """A broker did not respond, or its response is invalid."""


class NoBroker(Unreachable):
    """No broker listens at an address."""
