"""How the settings of listeners must fit: names, protocols, TLS, SASL, the one between brokers.

Source: Kafka 3.9 ``KafkaConfig``, ``ChannelBuilders`` and ``DefaultSslEngineFactory``. What only
the files of certificates show is found when they are read, before the broker touches its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from broker.config.config_value import BadValue, Fault
from broker.config.listener_settings import (
    MECHANISMS,
    START,
    ListenerSettings,
    MechanismSettings,
    check_name,
)
from broker.config.listeners import Endpoint
from security.jaas import JaasError, parse_jaas
from security.name_mapping import parse_mapping_rules
from security.sasl.plain import MECHANISM as PLAIN
from security.sasl.plain import MODULE

_STORES = ("JKS", "PKCS12", "PEM")
_STORE_TYPES = ("ssl.keystore.type", "ssl.truststore.type")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MODULES = {PLAIN: MODULE, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
"""The login module of each mechanism that has settings of its own there."""
_OWN = ("ssl.keystore.location", "ssl.keystore.key")


class Settings(Protocol):
    """Typed values by Kafka's name."""

    def __getitem__(self, name: str) -> Any: ...

    def is_given(self, name: str) -> bool:
        """Whether a source set it."""

    def first_given(self, *names: str) -> str | None:
        """The first of the names that is set."""

    def of_listener(self, name: str) -> ListenerSettings:
        """The settings of one listener."""

    def of_mechanism(self, listener: str, mechanism: str) -> MechanismSettings:
        """The settings of one mechanism there."""

    @property
    def listeners(self) -> list[Endpoint]:
        """Where to listen."""

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener by which brokers reach each other."""

    @property
    def is_in_cluster(self) -> bool:
        """Whether the broker is to join a cluster."""


def name_faults(
    names: Iterable[str], listeners: Iterable[str], elsewhere: Iterable[str]
) -> Iterator[Fault]:
    """Names of settings that would be looked up by nobody.

    ``elsewhere`` are listeners that a file of Kafka may name, and that are not for clients.
    """
    known = list(listeners)
    beside = tuple(f"{START}{each.lower()}." for each in elsewhere)
    for name in sorted(names):
        if name.startswith(beside):
            continue
        try:
            check_name(name, known)
        except BadValue as error:
            yield Fault((name,), str(error))


def listener_faults(config: Settings) -> Iterator[Fault]:
    """What does not fit in the settings of all listeners."""
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    if config.is_given(delay) and 0 <= config[idle] <= config[delay]:
        yield Fault((delay, idle), f"{delay} must be below {idle}")
    for endpoint in config.listeners:
        settings = config.of_listener(endpoint.name)
        if endpoint.has_tls:
            yield from _tls_faults(endpoint, settings)
        if endpoint.has_sasl:
            yield from _mechanism_faults(endpoint, settings)
            yield from _login_module_faults(config, endpoint.name)
    yield from _inter_broker_faults(config)


def _tls_faults(endpoint: Endpoint, settings: ListenerSettings) -> Iterator[Fault]:
    if not any(map(settings.__getitem__, _OWN)):
        yield Fault(
            ("listeners", *_OWN),
            f"the listener {endpoint.name} speaks {endpoint.protocol}, which needs a certificate"
            " with its key: ssl.keystore.location, or ssl.keystore.key with"
            " ssl.keystore.certificate.chain",
        )
    for name in _STORE_TYPES:
        if settings[name].upper() not in _STORES:
            yield Fault((name,), f"{name}={settings[name]}: it must be one of {', '.join(_STORES)}")
    name = "ssl.principal.mapping.rules"
    try:
        parse_mapping_rules(settings[name] or "")
    except ValueError as error:
        yield Fault((name,), f"{name}: {error}")


def _mechanism_faults(endpoint: Endpoint, settings: ListenerSettings) -> Iterator[Fault]:
    name = "sasl.enabled.mechanisms"
    enabled = [each for each in settings[name].split(",") if each]
    unserved = [each for each in enabled if each not in MECHANISMS]
    if unserved or not enabled:
        what = f"Muster does not have {', '.join(unserved)}" if unserved else "it has none"
        yield Fault(
            (name, "listeners"),
            f"{name} of the listener {endpoint.name}: {what}; name some of {', '.join(MECHANISMS)}",
        )


def _login_module_faults(config: Settings, listener: str) -> Iterator[Fault]:
    """Whether the login modules can be read; never with a value, which is mostly a password."""
    name = "sasl.jaas.config"
    for mechanism in config.of_listener(listener)["sasl.enabled.mechanisms"].split(","):
        where = f"{mechanism.lower()}.{name}"
        text = config.of_mechanism(listener, mechanism).own(name)
        if not text and mechanism == PLAIN:
            yield Fault(
                (name, "sasl.enabled.mechanisms"),
                f"the listener {listener} has PLAIN, whose users are in"
                f" {START}{listener.lower()}.{where}, or in {where}: {MODULE} required"
                ' user_alice="her password";',
            )
        if not text or mechanism not in MODULES:
            continue
        try:
            module = parse_jaas(text)
        except JaasError as error:
            yield Fault((where, name), f"{where} of the listener {listener}: {error}")
            continue
        if module.name != MODULES[mechanism]:
            yield Fault(
                (where, name),
                f"{where} of the listener {listener}: its module must be {MODULES[mechanism]}",
            )


def _inter_broker_faults(config: Settings) -> Iterator[Fault]:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    if config[name] and config.is_given(protocol):
        yield Fault((name, protocol), f"only one of {name} and {protocol} may be set")
        return
    endpoints = {endpoint.name: endpoint for endpoint in config.listeners}
    endpoint = endpoints.get(config.inter_broker_listener)
    if endpoint is None:
        if config[name] and not config.is_in_cluster:
            yield Fault(
                (name, "listeners"),
                f"{name}={config[name]}: listeners has {', '.join(endpoints)}",
            )
        return  # in a cluster its settings say so
    mechanism = "sasl.mechanism.inter.broker.protocol"
    if config.is_in_cluster and endpoint.has_sasl:
        enabled = config.of_listener(endpoint.name)["sasl.enabled.mechanisms"].split(",")
        if config[mechanism] not in enabled:
            yield Fault(
                (mechanism, "sasl.enabled.mechanisms"),
                f"{mechanism}={config[mechanism]}: brokers log in to each other at the listener"
                f" {endpoint.name}, which has {', '.join(enabled)}",
            )
