"""Errors of a connection. Each text is a sentence for a person."""

from __future__ import annotations


class ClientError(Exception):
    """A request can't be sent, or the broker refused it."""


class NotAskable(ClientError):
    """The request can't be encoded."""


class Unreachable(ClientError):
    """A broker did not respond, or its response is invalid."""


class NoBroker(Unreachable):
    """No broker listens at an address."""
