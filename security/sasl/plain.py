"""PLAIN: the client sends the password itself, so the password is secret only on an encrypted
connection. Source: RFC 4616; Kafka 3.9 ``PlainSaslServer``, whose error messages are sent to the
client."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from security.sasl.steps import Accepted, Refused, Step, too_long

MECHANISM: Final = "PLAIN"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
MESSAGE_BYTES_MAX: Final = 16384
"""The maximum size of the message in bytes. Kafka's limit is the size of a frame."""
_USER: Final = "user_"
_NOBODYS: Final = b"\0"
"""The value with which the client's password is compared if the user is unknown. No password
contains this byte."""


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the passwords by user, from the options ``user_NAME`` of a login module."""
    return {
        name.removeprefix(_USER): password
        for name, password in options.items()
        if name.startswith(_USER)
    }


def tried_name(message: bytes) -> str | None:
    """Returns the user name in a PLAIN message; None if the message is malformed, so that `log_in`
    checks no password."""
    tokens = message.split(b"\0", 3) if len(message) <= MESSAGE_BYTES_MAX else ()
    return tokens[1].decode(errors="replace") if len(tokens) == 3 and tokens[1] else None


def log_in(message: bytes, passwords: Mapping[str, str]) -> Step:
    """Handles the only message of PLAIN. Returns its result."""
    refused = too_long(message, MECHANISM, MESSAGE_BYTES_MAX)
    if refused is not None:
        return refused
    tokens = message.count(b"\0") + 1
    if tokens != 3:
        said = f"Invalid SASL/PLAIN response: expected 3 tokens, got {tokens}"
        return Refused(said, said)
    try:
        authorization_id, name, password = message.decode().split("\0")
    except UnicodeDecodeError:
        return Refused("the PLAIN message is not UTF-8")
    if not name:
        return _failed("username not specified")
    if not password:
        return _failed("password not specified")
    expected = passwords.get(name)
    there = _NOBODYS if expected is None else expected.encode()
    if not hmac.compare_digest(there, password.encode()):
        why = "wrong password for user" if expected is not None else "unknown PLAIN user"
        return _failed("Invalid username or password", f"{why} {name!r}")
    if authorization_id and authorization_id != name:
        return _failed("Client requested an authorization id that is different from username")
    return Accepted(b"", name)


def _failed(what: str, reason: str | None = None) -> Refused:
    said = f"Authentication failed: {what}"
    return Refused(reason or said, said)
