"""The possible results of a message from a client that logs in: a challenge, an acceptance or a
rejection."""

from __future__ import annotations

from typing import NamedTuple


class Challenge(NamedTuple):
    """A message to the client, to which the client must respond."""

    message: bytes
    refusal: str | None = None
    """The reason why the login is rejected, for the log. None if ``message`` does not reject the
    login."""


class Accepted(NamedTuple):
    """The login has succeeded."""

    message: bytes
    """The last message to the client, which may be empty."""
    name: str
    """The name of the principal. Its type is User."""
    expires_ms: int | None = None
    """Wall time in ms at which the credential, such as a token, expires; None for no limit."""
    by_token: bool = False
    """True if the login used a delegation token."""


class Refused(NamedTuple):
    """The login has failed. ``to_client`` is sent to the client; ``reason`` is only for the
    operator."""

    reason: str
    to_client: str | None = None
    """The error message for the client; None for the general message that the credentials are
    invalid."""
    message: bytes = b""


Step = Challenge | Accepted | Refused


def too_long(message: bytes, mechanism: str, bytes_max: int) -> Refused | None:
    """Returns the rejection of a message that exceeds the limit; None for a shorter message."""
    if len(message) <= bytes_max:
        return None
    return Refused(f"message of {len(message)} bytes exceeds the limit of {mechanism}, {bytes_max}")
