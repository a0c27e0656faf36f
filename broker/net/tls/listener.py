"""TLS on one listener: the context for new connections, the mapping of certificates to principals,
and the handling of failures."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING

from broker.config.listeners import Endpoint
from broker.net.clients.failure_lines import FailureLines
from broker.net.tls.failures import Failure
from broker.net.tls.layer import TlsLayer
from security.distinguished_names import subject_of
from security.name_mapping import MappingRules
from security.principal import user

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.net.tls.context import ListenerTls
    from broker.net.tls.handshakes import Handshakes
    from broker.net.tls.wrapped import Wrapped


class TlsListener:
    """The TLS of one listener; only the event loop's thread may use this class."""

    def __init__(
        self, endpoint: Endpoint, made: ListenerTls, rules: MappingRules, lines: FailureLines
    ) -> None:
        self.endpoint = endpoint
        self.made = made
        """The TLS context for new connections; existing connections keep their context."""
        self.done = self.failed = 0
        self._rules = rules
        self._lines = lines

    def layer(self, wrapped: Wrapped, connection: Connection, handshakes: Handshakes) -> TlsLayer:
        """Creates the TLS layer between a transport and ``wrapped``, the protocol of
        ``connection``."""
        return TlsLayer(
            wrapped,
            self.made.context,
            handshakes,
            partial(self._ready, connection),
            partial(self._fail, connection),
        )

    def _ready(self, connection: Connection, session: ssl.SSLObject) -> None:
        if not self.endpoint.has_sasl:
            certificate = session.getpeercert(binary_form=True)
            if certificate is not None:
                connection.principal = user(self._name(certificate))
        self.done += 1

    def _name(self, certificate: bytes) -> str:
        """Returns the user name to which a certificate's subject maps. Raises Failure if no rule
        matches."""
        subject = subject_of(certificate)
        name = self._rules.map(subject)
        if not name:
            raise Failure(f"no rule of ssl.principal.mapping.rules matches the subject {subject!r}")
        return name

    def _fail(self, connection: Connection, failure: Failure) -> None:
        self.failed += 1
        self._lines.report(
            "TLS connection failed",
            connection.client_host[1:],
            str(failure),
            listener=self.endpoint.name,
            peer=connection.peer,
        )
