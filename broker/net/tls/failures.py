"""Why a handshake or a session of TLS failed, in words for the operator."""

from __future__ import annotations

import ssl
from typing import Final

LEFT: Final = "the peer closed the connection during the TLS handshake"


class Failure(Exception):
    """A failed handshake; the text has the reason, for the operator."""


def reason_of(error: ssl.SSLError | Failure) -> str:
    """Why a handshake failed, without OpenSSL's numbers and places."""
    if isinstance(error, Failure):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is rejected: {error.verify_message}"
    return f"the TLS handshake failed: {said_of(error)}"


def said_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason, in lower case."""
    return (error.reason or str(error)).replace("_", " ").lower()
