"""Connects this broker to the other brokers of its cluster, with the settings of its own
inter-broker listener.

The other brokers listen with the same settings. Therefore this broker trusts the CAs in the
truststore of its own listener, sends the certificate of its own listener, and logs in with the name
and password in the mechanism's ``sasl.jaas.config``. Kafka's brokers do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from broker.cluster.membership.settings import inter_broker_listener
from broker.cluster.peers.peer import Connect, connect
from broker.config.config import BadConfig, Config
from broker.config.listeners import Endpoint

if TYPE_CHECKING:
    import ssl

    from broker.cluster.peers.secured_peer import BrokerLogin
    from broker.net.tls.context import TlsSettings

logger = structlog.get_logger(__name__)

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_JAAS: Final = "sasl.jaas.config"
_NAMES: Final = "ssl.endpoint.identification.algorithm"


def reaching_brokers(config: Config) -> Connect:
    """Returns the function that connects to other brokers. Reads key and truststore files. Raises
    BadConfig."""
    listener = inter_broker_listener(config)
    if not listener.has_tls and not listener.has_sasl:
        return connect
    from broker.cluster.peers.secured_peer import SecuredPeers

    tls = BrokersTls(config, listener) if listener.has_tls else None
    login = _login(config, listener) if listener.has_sasl else None
    return SecuredPeers(None if tls is None else tls.context, login).connect


def _login(config: Config, listener: Endpoint) -> BrokerLogin:
    from broker.cluster.peers.secured_peer import BrokerLogin
    from security.credentials import BY_NAME
    from security.jaas import JaasError, parse_jaas
    from security.sasl import plain
    from security.sasl.client_side import credentials_of

    mechanism = config[_MECHANISM]
    if mechanism != plain.MECHANISM and mechanism not in BY_NAME:
        raise BadConfig(
            f"{_MECHANISM}={mechanism}: brokers can't log in to each other with this mechanism;"
            f" use {plain.MECHANISM}, {' or '.join(BY_NAME)}"
        )
    name = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.{_JAAS}"
    text = config.of_mechanism(listener.name, mechanism).own(_JAAS)
    if text is None:
        raise BadConfig(
            f"{name} is missing: set it to the user and password with which brokers log in to"
            " each other"
        )
    try:
        return BrokerLogin(mechanism, credentials_of(mechanism, parse_jaas(text)))
    except JaasError as error:
        raise BadConfig(f"{name}: {error}") from None


class BrokersTls:
    """The TLS context for connections to other brokers. It is made again when its settings or files
    change."""

    def __init__(self, config: Config, listener: Endpoint) -> None:
        """Raises BadConfig if the context can't be made."""
        from broker.net.tls.context import TlsError

        self._config = config
        self._listener = listener
        settings = self._settings()
        self._made_of = settings, settings.stamps()
        try:
            self._context = self._made(settings)
        except TlsError as error:
            raise BadConfig(f"listener {listener.name}: {error}") from None

    def context(self) -> ssl.SSLContext:
        """Returns the TLS context for the next connection; reads files. If a new context can't be
        made, the previous one is returned."""
        from broker.net.tls.context import TlsError

        settings = self._settings()
        made_of = settings, settings.stamps()
        if made_of != self._made_of:
            self._made_of = made_of
            try:
                self._context = self._made(settings)
            except TlsError as error:
                logger.error(
                    "inter-broker certificates can't be reloaded, old ones kept",
                    listener=self._listener.name,
                    reason=str(error),
                )
        return self._context

    def _settings(self) -> TlsSettings:
        from broker.net.tls.settings import tls_settings

        return tls_settings(self._listener, self._config.of_listener(self._listener.name))

    def _made(self, settings: TlsSettings) -> ssl.SSLContext:
        from broker.net.tls.context import peer_context

        algorithm = self._config.of_listener(self._listener.name)[_NAMES]
        return peer_context(settings, checks_names=bool(algorithm))
