"""Errors in stores, keys and cluster settings, which the broker finds at its start. `muster config
check` finds these errors without a start, with the same functions. The functions do not bind a
socket, write a file or contact another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from broker.config.config import BadConfig, Config
from broker.config.config_value import Fault
from broker.config.http_settings import HTTP, http_endpoint
from broker.config.listener_settings import START
from broker.config.listeners import Endpoint

_STORES: Final = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
)
_BEARER: Final = "OAUTHBEARER"


def startup_faults(config: Config) -> Iterator[Fault]:
    """Yields the faults in these settings that would make the start of a broker fail. Reads the key
    stores and trust stores."""
    for endpoint in [*config.listeners, *filter(None, [http_endpoint(config)])]:
        if endpoint.has_tls:
            yield from _store_faults(config, endpoint)
        if endpoint.has_sasl:
            yield from _bearer_faults(config, endpoint)
    if config.is_in_cluster:
        yield from _cluster_faults(config)


def _store_faults(config: Config, endpoint: Endpoint) -> Iterator[Fault]:
    from broker.net.tls.context import TlsError, listener_tls
    from broker.net.tls.settings import tls_settings

    try:
        listener_tls(tls_settings(endpoint, config.of_listener(endpoint.name)))
    except TlsError as error:
        sentence = f"listener {endpoint.name}: {error}"
        yield Fault(_names_in(config, endpoint.name, sentence), sentence)


def _names_in(config: Config, listener: str, sentence: str) -> tuple[str, ...]:
    """Returns the key store and trust store settings of ``listener`` that the error message
    ``sentence`` is about. The message contains the name of such a setting or the path of its file.
    If it contains none of them, returns all of these settings, and ``listeners``."""
    start = f"{HTTP}." if listener == HTTP else f"{START}{listener.lower()}."
    general = () if listener == HTTP else ("",)
    given = {
        base: name
        for base in _STORES
        if (name := config.first_given(start + base, *(each + base for each in general)))
    }
    words = sentence.replace(":", " ").replace("=", " ").replace(",", " ").split()
    found = [name for base, name in given.items() if base in words]
    if not found:
        found = [name for base, name in given.items() if config[name] in words]
    return tuple(found) or ("listeners", *given.values())


def _bearer_faults(config: Config, endpoint: Endpoint) -> Iterator[Fault]:
    if _BEARER not in config.of_listener(endpoint.name)["sasl.enabled.mechanisms"].split(","):
        return
    from broker.authentication.bearer import bearer_settings

    settings = config.of_mechanism(endpoint.name, _BEARER)
    names = ("sasl.oauthbearer.jwks.endpoint.url", "sasl.enabled.mechanisms")
    yield from _refused(names, lambda: bearer_settings(settings))


def _cluster_faults(config: Config) -> Iterator[Fault]:
    from broker.cluster.membership.settings import cluster_settings
    from broker.cluster_connections import reaching_brokers

    refused = list(_refused(("zookeeper.connect",), lambda: cluster_settings(config)))
    yield from refused
    if not refused:
        yield from _refused(("zookeeper.connect",), lambda: reaching_brokers(config))


def _refused(names: tuple[str, ...], read: Callable[[], object]) -> Iterator[Fault]:
    """Calls ``read``. If it raises an exception, yields the exception as a fault of the settings
    ``names``."""
    try:
        read()
    except BadConfig as error:
        yield Fault(names, str(error))
