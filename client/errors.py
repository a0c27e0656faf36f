"""What a connection says when it can't go on. Each text is a sentence for a person."""

from __future__ import annotations


class ClientError(Exception):
    """What was asked can't be asked so, of this broker or of any; or it was refused."""


class NotAskable(ClientError):
    """No request can say what was asked."""


class Unreachable(ClientError):
    """A broker did not answer, or not as a Kafka does."""


class NoBroker(Unreachable):
    """Nobody listens at an address."""
