"""Principals: the identities of connections. Source: Kafka 3.9 ``KafkaPrincipal``.

The text form is ``Type:name``. The type is case-sensitive, and the name may contain colons.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """An identity such as ``User:alice``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


USER: Final = "User"
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client that is not authenticated, on PLAINTEXT or on TLS without a client
certificate."""
EVERYBODY: Final = "User:*"
"""The principal of an ACL entry for all users. No other wildcard is allowed in the principal of an
ACL entry."""


def user(name: str) -> Principal:
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """Parses ``Type:name``. For any other text, raises ValueError with a message for the user."""
    kind, colon, name = text.partition(":")
    if not (colon and kind and name):
        raise ValueError(f"{text!r} is not a principal such as User:alice")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[str]:
    """Parses the setting ``super.users``, such as ``User:alice;User:bob``. Principals are compared
    as strings. Raises ValueError if a principal is invalid; the message is for users."""
    named = [part.strip() for part in text.split(";")]
    return frozenset(str(parse_principal(each)) for each in named if each)
