"""Principals: whom a connection speaks for.

Source: Kafka 3.9 ``KafkaPrincipal``. The text is ``Type:name``; the type is case-sensitive, and the
name may have colons of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Somebody, such as ``User:alice``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


USER: Final = "User"
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever has not said who they are: on PLAINTEXT, or by TLS without a certificate."""
EVERYBODY: Final = "User:*"
"""The one wildcard that an entry may have in place of a principal."""


def user(name: str) -> Principal:
    """The principal ``User:name``."""
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """The principal that ``Type:name`` names; ValueError, as a sentence, for anything else."""
    kind, colon, name = text.partition(":")
    if not (colon and kind and name):
        raise ValueError(f"{text!r} is not a principal such as User:alice")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[str]:
    """The principals of the setting ``super.users``: ``User:alice;User:bob``.

    They are compared as texts. ValueError, as a sentence, where one is no principal.
    """
    named = [part.strip() for part in text.split(";")]
    return frozenset(str(parse_principal(each)) for each in named if each)
