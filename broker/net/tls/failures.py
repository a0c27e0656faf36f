"""Converts errors of TLS handshakes and sessions to reasons that an operator understands."""

from __future__ import annotations

import ssl
from typing import Final

LEFT: Final = "the peer closed the connection during the TLS handshake"


class Failure(Exception):
    """Raised if a handshake fails; the exception's text is the reason for the operator."""


def reason_of(error: ssl.SSLError | Failure) -> str:
    """Returns the reason why a handshake failed, without OpenSSL's error numbers and file names."""
    if isinstance(error, Failure):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is rejected: {error.verify_message}"
    return f"the TLS handshake failed: {said_of(error)}"


def said_of(error: ssl.SSLError) -> str:
    """Returns the reason that OpenSSL reports, in lower case."""
    return (error.reason or str(error)).replace("_", " ").lower()
