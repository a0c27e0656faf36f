"""Checks the authorizer settings, which select Kafka's authorizer with ACLs, or no authorizer.

Kafka has three authorizer classes of different age with the same rules; Muster accepts all three
names. Another class, or super.users without an authorizer, fails the start: a resource that the
operator expects to be protected must not be open. allow.everyone.if.no.acl.found=false is Kafka's
default, and is accepted without an authorizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from broker.config.config_value import Fault
from security.principal import parse_super_users

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLASSES: Final = (
    STANDARD,
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_CLASS = "authorizer.class.name"
_SUPER_USERS = "super.users"


class Settings(Protocol):
    """Gives access to typed values of settings, by Kafka's names."""

    def __getitem__(self, name: str) -> Any: ...


def has_authorizer(settings: Settings) -> bool:
    return bool(settings[_CLASS].strip())


def authorizer_faults(settings: Settings) -> Iterator[Fault]:
    asked = settings[_CLASS].strip()
    if asked and asked not in CLASSES:
        yield Fault(
            (_CLASS,),
            f"{_CLASS}={asked}: not supported; the only authorizer is Kafka's own, {STANDARD}",
        )
    try:
        users = parse_super_users(settings[_SUPER_USERS])
    except ValueError as error:
        yield Fault((_SUPER_USERS,), f"{_SUPER_USERS}: {error}")
        return
    if users and not asked:
        yield Fault(
            (_SUPER_USERS, _CLASS),
            f"{_SUPER_USERS} has no effect without {_CLASS}: set {_CLASS}={STANDARD}, or"
            f" remove {_SUPER_USERS}",
        )
