"""Settings that protect and that Muster does not serve yet: a broker with one does not start.

Owns the list of Kafka's settings that authenticate, authorize, encrypt or limit clients, under all
their names: their own, a listener's (listener.name.internal.ssl.keystore.location), a mechanism's
(scram-sha-256.sasl.jaas.config), both, and as variables of the environment. A value that asks for
nothing, such as Kafka's default, is accepted. Values are never shown: they may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from broker.config.config_table import BROKER, ONLY_IN_KAFKA_4, PASSWORD
from broker.config.config_value import BadValue, Fault, parse_value
from log.config import LONG_MAX

VARIABLE_PREFIX = "MUSTER_"
"""What begins the name of a setting that came as a variable of the environment."""

_AUTHENTICATION: Final = "authentication"
_AUTHORIZER: Final = "an authorizer"
_CONNECTION_RATE: Final = "a limit of new connections"
_LISTENER: Final = "settings of a single listener"
_POLICIES: Final = "policies for topics and settings"
_QUOTAS: Final = "quotas"
_ZOOKEEPER: Final = "protection of what is in ZooKeeper"

FAMILIES: Final[Mapping[str, str]] = {
    "delegation.token.": "delegation tokens",
    "password.encoder.": "encryption of stored passwords",
    "sasl.": _AUTHENTICATION,
    "security.": "a security protocol other than PLAINTEXT",
    "ssl.": "TLS",
    "zookeeper.ssl.": _ZOOKEEPER,
}
"""What settings ask for whose names begin so; names that nobody knows may be misspelt ones."""

SINGLE: Final[Mapping[str, str]] = {
    "allow.everyone.if.no.acl.found": _AUTHORIZER,
    "alter.config.policy.class.name": _POLICIES,
    "authorizer.class.name": _AUTHORIZER,
    "client.quota.callback.class": _QUOTAS,
    "connection.failed.authentication.delay.ms": _AUTHENTICATION,
    "connections.max.reauth.ms": _AUTHENTICATION,
    "create.topic.policy.class.name": _POLICIES,
    "max.connection.creation.rate": _CONNECTION_RATE,
    "principal.builder.class": _AUTHENTICATION,
    "quota.consumer.default": _QUOTAS,
    "quota.producer.default": _QUOTAS,
    "super.users": _AUTHORIZER,
    "zookeeper.set.acl": _ZOOKEEPER,
}
"""What each of the other settings that protect asks for."""

_HARMLESS: Final[Mapping[str, tuple[str, ...]]] = {
    # What Muster does anyway.
    "allow.everyone.if.no.acl.found": ("true",),
    # Settings that Kafka had before 3.0; these were their defaults.
    "quota.consumer.default": (str(LONG_MAX),),
    "quota.producer.default": (str(LONG_MAX),),
    # Defaults of older Kafkas, for a file that has every default in it.
    "ssl.enabled.protocols": ("tlsv1.2", "tlsv1.2,tlsv1.1,tlsv1"),
    "ssl.protocol": ("tls", "tlsv1.2"),
}
"""Values, in lower case, that ask for nothing either."""

_OF_A_LISTENER = re.compile(r"listener\.name\..+")
_OF_A_MECHANISM = re.compile(r"[^.]+\.(sasl\..+)")
_VARIABLE_OF_A_MECHANISM = re.compile(r".+?\.(sasl\..+)")


class Unprotected(BadValue):
    """A setting that protects, and that would not; the text says which, and what is missing."""


def asked_for(name: str, text: str) -> str | None:
    """What Muster would need to follow this setting; None when nothing is lost by ignoring it."""
    base = base_name(name)
    if base is None:
        return _LISTENER if _is_of_a_listener(name) else None
    wanted = _wanted(base)
    if wanted is None and base == "max.connections" and _is_of_a_listener(name):
        wanted = _LISTENER  # what is set for all listeners together holds
    return None if wanted is None or _asks_for_nothing(base, text) else wanted


def protects(name: str) -> bool:
    """Whether a setting of this name protects, when it is set to something."""
    return asked_for(name, "something") is not None


def may_be_secret(name: str) -> bool:
    """Whether the value of a setting of this name must not be shown."""
    base = base_name(name)
    if base in BROKER:
        return BROKER[base].type == PASSWORD
    return _is_of_a_listener(name) if base is None else base.startswith(tuple(FAMILIES))


def protection_fault(given: Mapping[str, str]) -> Fault | None:
    """The fault that names every setting that protects, when one is ``given``."""
    names: dict[str, list[str]] = {}
    for name, text in sorted(given.items()):
        wanted = asked_for(name, text)
        if wanted is not None:
            names.setdefault(wanted, []).append(name)
    if not names:
        return None
    listed = ", ".join(f"{wanted} ({', '.join(each)})" for wanted, each in names.items())
    return Fault(
        tuple(name for each in names.values() for name in each),
        f"settings that protect are never ignored, and Muster does not have {listed};"
        " take out what you can do without",
    )


def base_name(name: str) -> str | None:
    """The setting of Kafka that ``name`` sets, whatever is before it; None when there is none."""
    dotted = _dotted(name)
    if _is_of_a_listener(name):
        # The listener's name may have dots, and a mechanism may follow it.
        labels = dotted.split(".")[3:]
        tails = (".".join(labels[start:]) for start in range(len(labels)))
        return next(filter(_is_known, tails), None)
    if _is_known(dotted):
        return dotted
    pattern = _OF_A_MECHANISM if dotted == name else _VARIABLE_OF_A_MECHANISM
    found = pattern.fullmatch(dotted)
    return None if found is None else found[1]


def _dotted(name: str) -> str:
    if not name.startswith(VARIABLE_PREFIX):
        return name
    return name.removeprefix(VARIABLE_PREFIX).lower().replace("_", ".")


def _is_of_a_listener(name: str) -> bool:
    return _OF_A_LISTENER.fullmatch(_dotted(name)) is not None


def _is_known(name: str) -> bool:
    return (
        name in BROKER
        or name in ONLY_IN_KAFKA_4
        or name.startswith("config.providers.")
        or _wanted(name) is not None
    )


def _wanted(base: str) -> str | None:
    if base in ONLY_IN_KAFKA_4:
        return None  # details of what other settings, which are older, switch on
    if base in SINGLE:
        return SINGLE[base]
    return next((wanted for start, wanted in FAMILIES.items() if base.startswith(start)), None)


def _asks_for_nothing(base: str, text: str) -> bool:
    value = ",".join(part.strip() for part in text.lower().split(","))
    if not value or value in _HARMLESS.get(base, ()):
        return True
    if base not in BROKER:
        return False
    setting = BROKER[base]
    try:
        return (
            parse_value(setting, text) == setting.default or value == str(setting.default).lower()
        )
    except BadValue:
        return False
