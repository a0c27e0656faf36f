"""What a mechanism does with a client's message: it asks on, lets in, or refuses."""

from __future__ import annotations

from typing import NamedTuple


class Challenge(NamedTuple):
    """The client has to answer to this."""

    message: bytes
    refusal: str | None = None
    """Why it is refused already, where the message tells it that; for the operator alone."""


class Accepted(NamedTuple):
    """The client is who it says."""

    message: bytes
    """The last message to it; may be empty."""
    name: str
    """Of its principal, which is a user."""
    expires_ms: int | None = None
    """Wall clock: when its credential does, as a token's; None where it does not."""
    by_token: bool = False
    """Whether it logged in by a delegation token."""


class Refused(NamedTuple):
    """The client is told ``to_client``; what is in ``reason`` is for the operator alone."""

    reason: str
    to_client: str | None = None
    """None: that the credentials are invalid, and no more."""
    message: bytes = b""


Step = Challenge | Accepted | Refused


def too_long(message: bytes, mechanism: str, bytes_max: int) -> Refused | None:
    """The refusal of a message that nobody needs so long; None where it may be looked at."""
    if len(message) <= bytes_max:
        return None
    return Refused(f"message of {len(message)} bytes exceeds the limit of {mechanism}, {bytes_max}")
