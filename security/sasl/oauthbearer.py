"""OAUTHBEARER: the client sends a token instead of a password.

The caller passes the function that checks tokens. To reject a token, the broker sends the reason.
The client answers with a second message, and only then the broker rejects the login. Source: RFC
7628; KIP-255, 768; Kafka 3.9 ``OAuthBearerSaslServer``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from security.sasl.steps import Accepted, Challenge, Refused, Step, too_long

MECHANISM: Final = "OAUTHBEARER"

MESSAGE_BYTES_MAX: Final = 65536
"""The maximum size of a login message in bytes. It is large because a token may name a thousand
groups. Kafka limits only the frame that contains the message."""

_FIRST = re.compile(
    rb"n,(?:a=(?P<authzid>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    rb"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01){1,64})\x01"
)
_BEARER = re.compile(rb"bearer +(?P<token>[-A-Za-z0-9._~+/]+=*)", re.IGNORECASE)
_HEARD: Final = b"\x01"


class TokenClaims(NamedTuple):
    """The content of a valid token."""

    name: str
    """The name of the user."""
    expires_ms: int
    """Wall time in ms at which the token expires."""


class TokenRefused(NamedTuple):
    """The rejection of a token. ``reason`` is for the operator and contains no parts of the
    token."""

    reason: str
    status: str = "invalid_token"
    scope: str | None = None


CheckToken = Callable[[str], TokenClaims | TokenRefused]


class OAuthBearerServer:
    """The broker's part of one login with OAUTHBEARER."""

    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refused: Refused | None = None

    def tries(self, message: bytes) -> str | None:
        """Returns the whole message in place of a user name, because the user is unknown before the
        token is checked. Returns None for the message that a client sends after its token was
        rejected: this message only confirms the rejection."""
        return message.decode("latin-1") if self._refused is None else None

    def step(self, message: bytes) -> Step:
        """Handles the client's next message. Returns its result."""
        if self._refused is not None:
            if message != _HEARD:
                said = f"{self._refused.reason}; the client did not confirm the error message"
                return Refused(said)
            return self._refused
        refused = too_long(message, MECHANISM, MESSAGE_BYTES_MAX)
        if refused is not None:
            return refused
        found = _FIRST.fullmatch(message)
        if found is None:
            return Refused(
                "the first message does not have the form n,[a=AUTHZID],^Aauth=Bearer TOKEN^A^A"
            )
        pairs = [part.partition(b"=")[::2] for part in found["pairs"].split(b"\x01") if part]
        values = dict(pairs)
        if len(values) < len(pairs):
            return Refused("the first message has a key twice")
        bearer = _BEARER.fullmatch(values.get(b"auth", b""))
        if bearer is None:
            return Refused("the first message has no auth=Bearer TOKEN")
        checked = self._check(bearer["token"].decode())
        if isinstance(checked, TokenRefused):
            return self._refuse(checked)
        authzid = found["authzid"]
        if authzid is not None and _unescaped(authzid) != checked.name:
            said = (
                "Authentication failed: Client requested an authorization id that is different"
                " from the token's principal name"
            )
            return Refused(
                f"the client has a token of {checked.name!r}, but requests another authorization"
                " id",
                said,
            )
        return Accepted(b"", checked.name, checked.expires_ms)

    def _refuse(self, refused: TokenRefused) -> Challenge:
        said = {"status": refused.status}
        if refused.scope is not None:
            said["scope"] = refused.scope
        text = json.dumps(said, separators=(",", ":"))
        self._refused = Refused(refused.reason, text)
        return Challenge(text.encode(), refused.reason)


def _unescaped(name: bytes) -> str:
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")
