"""Checks listener settings in combination: names, protocols, TLS, SASL and the inter-broker
listener.

Source: Kafka 3.9 ``KafkaConfig``, ``ChannelBuilders`` and ``DefaultSslEngineFactory``. Faults in
certificate files are found later, when the files are read, but before the broker touches its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from broker.config.config_value import BadValue, Fault
from broker.config.listener_settings import (
    START,
    ListenerSettings,
    MechanismSettings,
    check_name,
)
from broker.config.listeners import Endpoint


class Settings(Protocol):
    """Gives access to typed values of settings, by Kafka's names."""

    def __getitem__(self, name: str) -> Any: ...

    def is_given(self, name: str) -> bool:
        """Returns True if a file, a variable or an option has set the setting."""

    def first_given(self, *names: str) -> str | None:
        """Returns the first of the names that is set; None if no name is set."""

    def of_listener(self, name: str) -> ListenerSettings: ...

    def of_mechanism(self, listener: str, mechanism: str) -> MechanismSettings: ...

    @property
    def listeners(self) -> list[Endpoint]: ...

    @property
    def inter_broker_listener(self) -> str: ...

    @property
    def is_in_cluster(self) -> bool: ...


def name_faults(
    names: Iterable[str], listeners: Iterable[str], elsewhere: Iterable[str]
) -> Iterator[Fault]:
    """Yields a fault for each listener setting in ``names`` that has no effect, because its name
    contains capitals, an unknown listener or an unknown setting.

    ``elsewhere`` are the names of a Kafka controller's listeners. A properties file of Kafka may
    contain their settings, so these are not faults.
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
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    if config.is_given(delay) and 0 <= config[idle] <= config[delay]:
        yield Fault((delay, idle), f"{delay} must be below {idle}")
    for endpoint in config.listeners:
        if endpoint.has_tls or endpoint.has_sasl:
            # A start without such listeners does not import the code for certificates and logins.
            from broker.config.secured_listener_rules import secured_listener_faults

            settings = config.of_listener(endpoint.name)
            yield from secured_listener_faults(endpoint, settings, config.of_mechanism)
    yield from _inter_broker_faults(config)


def _inter_broker_faults(config: Settings) -> Iterator[Fault]:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    if config[name] and config.is_given(protocol):
        yield Fault(
            (name, protocol), f"{name} and {protocol} can't both be set: remove one of them"
        )
        return
    endpoints = {endpoint.name: endpoint for endpoint in config.listeners}
    endpoint = endpoints.get(config.inter_broker_listener)
    if endpoint is None:
        if config[name] and not config.is_in_cluster:
            yield Fault(
                (name, "listeners"),
                f"{name}={config[name]}: not in listeners ({', '.join(endpoints)})",
            )
        return  # the cluster's settings report it
    mechanism = "sasl.mechanism.inter.broker.protocol"
    if config.is_in_cluster and endpoint.has_sasl:
        enabled = config.of_listener(endpoint.name)["sasl.enabled.mechanisms"].split(",")
        if config[mechanism] not in enabled:
            yield Fault(
                (mechanism, "sasl.enabled.mechanisms"),
                f"{mechanism}={config[mechanism]}: not enabled on the inter-broker listener"
                f" {endpoint.name}, which has {', '.join(enabled)}",
            )
