"""Security settings that Muster does not support: a broker with such a setting does not start.

The module lists Kafka's settings that authenticate, authorize, encrypt or limit clients in a way
that Muster does not support. It recognizes them without a prefix, with the prefix of a listener or
a mechanism, and as environment variables. A value that does not request a security feature, such as
Kafka's default, is accepted. Messages never contain values, which may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from broker.config.config_table import BROKER, ONLY_IN_KAFKA_4, PASSWORD
from broker.config.config_value import BadValue, Fault, parse_value
from broker.config.listener_settings import START, UNSERVED, row_of, split
from broker.config.variables import dotted, name_after_prefix
from log.config import LONG_MAX

_GSSAPI: Final = "GSSAPI (Kerberos)"
_JAVA: Final = "Java plug-in classes"
_LISTENER: Final = "a setting of this name, or a listener of this name"
_POLICIES: Final = "policies for topics and settings"
_QUOTAS: Final = "default quotas and quota classes"
_UNKNOWN: Final = "a setting of this name"
_ZOOKEEPER: Final = "ACLs and TLS of ZooKeeper"

FAMILIES: Final[Mapping[str, str]] = {
    "gssapi.": _GSSAPI,
    "password.encoder.": "encryption of stored passwords",
    "sasl.kerberos.": _GSSAPI,
    "zookeeper.ssl.": _ZOOKEEPER,
}
"""By prefix of setting names: the security feature that these settings request. Even an unknown
name with such a prefix counts, since it may be misspelt."""

_MISSPELT: Final = ("delegation.token.", "sasl.", "security.", "ssl.", "tls.")
"""Prefixes of the names of security settings. If an unknown setting has such a prefix, the broker
assumes that the operator wants a protection.

The name may be misspelt. It may also come from a variable of Bitnami's image, which turns
``KAFKA_TLS_CLIENT_AUTH`` into ``ssl.client.auth``.
"""

SINGLE: Final[Mapping[str, str]] = {
    "alter.config.policy.class.name": _POLICIES,
    "client.quota.callback.class": _QUOTAS,
    "create.topic.policy.class.name": _POLICIES,
    "principal.builder.class": _JAVA,
    "quota.consumer.default": _QUOTAS,
    "quota.producer.default": _QUOTAS,
    "sasl.client.callback.handler.class": _JAVA,
    "sasl.login.callback.handler.class": _JAVA,
    "sasl.login.class": _JAVA,
    "sasl.server.callback.handler.class": _JAVA,
    "security.providers": _JAVA,
    "ssl.engine.factory.class": _JAVA,
    "ssl.keymanager.algorithm": _JAVA,
    "ssl.protocol": "protocols before TLS 1.2",
    "ssl.provider": _JAVA,
    "ssl.secure.random.implementation": _JAVA,
    "ssl.trustmanager.algorithm": _JAVA,
    "zookeeper.set.acl": _ZOOKEEPER,
}
"""For each security setting outside of `FAMILIES`: the security feature that it requests."""

_HARMLESS: Final[Mapping[str, tuple[str, ...]]] = {
    # Settings of Kafka before 3.0; these were their defaults.
    "quota.consumer.default": (str(LONG_MAX),),
    "quota.producer.default": (str(LONG_MAX),),
    # Kafka's handlers that verify signed tokens: Muster verifies these without a class.
    "sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.oauthbearervalidatorcallbackhandler",
        "org.apache.kafka.common.security.oauthbearer.secured.oauthbearervalidatorcallbackhandler",
    ),
    # ssl.enabled.protocols sets the versions.
    "ssl.protocol": ("tls", "tlsv1.2"),
}
"""For each setting: values, in lower case, that Muster accepts although they differ from the
default, because they do not turn on a security feature."""

_USERS: Final = "with SCRAM add each user by `muster users add`, with PLAIN set sasl.jaas.config"
_OF_IMAGES: Final[Mapping[str, str]] = {
    "CLIENT_PASSWORDS": _USERS,
    "CLIENT_USERS": _USERS,
    "SSL_KEYSTORE_CREDENTIALS": "set KAFKA_SSL_KEYSTORE_PASSWORD",
    "SSL_KEYSTORE_FILENAME": "set KAFKA_SSL_KEYSTORE_LOCATION",
    "SSL_KEY_CREDENTIALS": "set KAFKA_SSL_KEY_PASSWORD",
    "SSL_TRUSTSTORE_CREDENTIALS": "set KAFKA_SSL_TRUSTSTORE_PASSWORD",
    "SSL_TRUSTSTORE_FILENAME": "set KAFKA_SSL_TRUSTSTORE_LOCATION",
    "TLS_CLIENT_AUTH": "set KAFKA_SSL_CLIENT_AUTH",
    "TLS_TYPE": "set KAFKA_SSL_KEYSTORE_TYPE and KAFKA_SSL_TRUSTSTORE_TYPE",
}
"""Variables that scripts of Kafka's images use to secure the broker. They do not correspond to a
setting. The key of the dict is the name of the variable without KAFKA_. The value is advice on what
to set in Muster instead."""

_OF_A_MECHANISM = re.compile(r"[^.]+\.(sasl\..+)")
_VARIABLE_OF_A_MECHANISM = re.compile(r".+?\.(sasl\..+)")


class Unprotected(BadValue):
    """A security setting has no effect in Muster. The exception's text names the setting and the
    missing feature."""


def asked_for(name: str, text: str) -> str | None:
    """Returns the security feature that a setting requests and Muster lacks; None if the setting
    requests no such feature."""
    if (instead := _in_place_of(name)) is not None:
        return instead if text.strip() else None
    base = base_name(name)
    if base is None:
        return _LISTENER if dotted(name).lower().startswith(START) else None
    wanted = _wanted(base)
    return None if wanted is None or _asks_for_nothing(base, text) else wanted


def protects(name: str) -> bool:
    """Returns True if a setting with this name can request a security feature that Muster lacks."""
    return asked_for(name, "something") is not None


def may_be_secret(name: str) -> bool:
    """Returns True if the value of a setting with this name must not be shown."""
    row = row_of(name)
    if row is not None:
        return row.type == PASSWORD
    if base_name(name) in SINGLE:
        return False  # classes, protocols and quotas
    return asked_for(name, "something") is not None


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for a log line; values that may be secrets are replaced."""
    return {name: "(hidden)" if may_be_secret(name) else text for name, text in settings.items()}


def protection_fault(given: Mapping[str, str]) -> Fault | None:
    """Returns one fault that names all unsupported security settings in ``given``; None if there
    are none."""
    names: dict[str, list[str]] = {}
    of_images: dict[str, list[str]] = {}
    for name, text in sorted(given.items()):
        wanted = asked_for(name, text)
        if wanted is not None:
            found = names if _in_place_of(name) is None else of_images
            found.setdefault(wanted, []).append(name)
    if not names and not of_images:
        return None
    said = []
    if names:
        listed = ", ".join(f"{wanted} ({', '.join(each)})" for wanted, each in names.items())
        said = [f"Muster does not support {listed}; remove the settings that you do not need"]
    said += [f"instead of {', '.join(each)} {what}" for what, each in of_images.items()]
    return Fault(
        tuple(name for each in [*names.values(), *of_images.values()] for name in each),
        f"security settings are never ignored{', and ' if names else ': '}{'; '.join(said)}",
    )


def base_name(name: str) -> str | None:
    """Returns the name of the Kafka setting that ``name`` sets. ``name`` is a setting, possibly
    with the prefix of a listener or mechanism, or an environment variable. Returns None for unknown
    names."""
    found = split(name)
    if found is not None:
        is_served = found.mechanism.upper() != UNSERVED
        return found.base if is_served else f"gssapi.{found.base}"
    plain = dotted(name)
    if _in_place_of(name) is not None:
        return plain
    if plain.lower().startswith(START):
        return None
    if _is_known(plain):
        return plain
    pattern = _OF_A_MECHANISM if plain == name else _VARIABLE_OF_A_MECHANISM
    of_mechanism = pattern.fullmatch(plain)
    # The mechanism is not supported.
    return None if of_mechanism is None else f"gssapi.{of_mechanism[1]}"


def _in_place_of(name: str) -> str | None:
    rest = name_after_prefix(name) if name.startswith("KAFKA_") else None
    return None if rest is None else _OF_IMAGES.get(rest)


def _is_known(name: str) -> bool:
    return (
        name in BROKER
        or name in ONLY_IN_KAFKA_4
        or name.startswith("config.providers.")
        or _wanted(name) is not None
    )


def _wanted(base: str) -> str | None:
    if base in ONLY_IN_KAFKA_4:
        return None  # these belong to other, older settings, which enable the feature
    if base in SINGLE:
        return SINGLE[base]
    found = next((wanted for start, wanted in FAMILIES.items() if base.startswith(start)), None)
    if found is None and base.startswith(_MISSPELT) and base not in BROKER:
        return _UNKNOWN
    return found


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
