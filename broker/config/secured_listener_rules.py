"""Checks the settings of a listener with TLS or SASL: its certificate and its mechanisms.

The module is imported only if such a listener is configured. Source: Kafka 3.9
``DefaultSslEngineFactory``, ``JaasContext``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.config.config_value import Fault
from broker.config.listener_settings import (
    MECHANISMS,
    START,
    ListenerSettings,
    MechanismSettings,
)
from broker.config.listeners import Endpoint
from security.jaas import JaasError, parse_jaas
from security.name_mapping import parse_mapping_rules
from security.sasl.plain import MECHANISM as PLAIN
from security.sasl.plain import MODULE

_STORES = ("JKS", "PKCS12", "PEM")
_STORE_TYPES = ("ssl.keystore.type", "ssl.truststore.type")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES = {PLAIN: MODULE, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
"""The name of the login module in ``sasl.jaas.config``, by mechanism."""
_OWN = ("ssl.keystore.location", "ssl.keystore.key")


def secured_listener_faults(
    endpoint: Endpoint,
    settings: ListenerSettings,
    of_mechanism: Callable[[str, str], MechanismSettings],
) -> Iterator[Fault]:
    """Yields the faults of one listener. ``of_mechanism`` returns the settings of a mechanism,
    given the names of listener and mechanism."""
    if endpoint.has_tls:
        yield from _tls_faults(endpoint, settings)
    if endpoint.has_sasl:
        yield from _mechanism_faults(endpoint, settings)
        yield from _login_module_faults(endpoint.name, settings, of_mechanism)


def _tls_faults(endpoint: Endpoint, settings: ListenerSettings) -> Iterator[Fault]:
    if not any(map(settings.__getitem__, _OWN)):
        yield Fault(
            ("listeners", *_OWN),
            f"listener {endpoint.name} has the protocol {endpoint.protocol}, which needs a"
            " certificate with its key: set ssl.keystore.location, or ssl.keystore.key with"
            " ssl.keystore.certificate.chain",
        )
    for name in _STORE_TYPES:
        if settings[name].upper() not in _STORES:
            yield Fault((name,), f"{name}={settings[name]}: it must be one of {', '.join(_STORES)}")
    name = "ssl.principal.mapping.rules"
    try:
        parse_mapping_rules(settings[name])
    except ValueError as error:
        yield Fault((name,), f"{name}: {error}")


def _mechanism_faults(endpoint: Endpoint, settings: ListenerSettings) -> Iterator[Fault]:
    name = "sasl.enabled.mechanisms"
    enabled = [each for each in settings[name].split(",") if each]
    unserved = [each for each in enabled if each not in MECHANISMS]
    if unserved or not enabled:
        what = (
            f"Muster does not support {', '.join(unserved)}"
            if unserved
            else "no mechanism is enabled"
        )
        yield Fault(
            (name, "listeners"),
            f"{name} of listener {endpoint.name}: {what}; use one or more of"
            f" {', '.join(MECHANISMS)}",
        )


def _login_module_faults(
    listener: str,
    settings: ListenerSettings,
    of_mechanism: Callable[[str, str], MechanismSettings],
) -> Iterator[Fault]:
    """Yields the faults of ``sasl.jaas.config``. A fault's text never contains a value, since most
    values are passwords."""
    name = "sasl.jaas.config"
    for mechanism in settings["sasl.enabled.mechanisms"].split(","):
        where = f"{mechanism.lower()}.{name}"
        text = of_mechanism(listener, mechanism).own(name)
        if not text and mechanism == PLAIN:
            yield Fault(
                (name, "sasl.enabled.mechanisms"),
                f"listener {listener} enables PLAIN, but has no users: set"
                f" {START}{listener.lower()}.{where}, or {where}, to {MODULE} required"
                ' user_alice="her password";',
            )
        if not text or mechanism not in _MODULES:
            continue
        try:
            module = parse_jaas(text)
        except JaasError as error:
            yield Fault((where, name), f"{where} of listener {listener}: {error}")
            continue
        if module.name != _MODULES[mechanism]:
            yield Fault(
                (where, name),
                f"{where} of listener {listener}: the login module must be {_MODULES[mechanism]}",
            )
