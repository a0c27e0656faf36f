"""Reads Kafka's TLS settings of one listener."""

from __future__ import annotations

from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import Endpoint
from broker.net.clients.failure_lines import FailureLines
from broker.net.tls.context import TlsSettings, listener_tls
from broker.net.tls.listener import TlsListener
from security.name_mapping import parse_mapping_rules


def open_tls(endpoint: Endpoint, settings: ListenerSettings, lines: FailureLines) -> TlsListener:
    """Reads the files of a listener and creates its TLS object. Raises TlsError."""
    rules = parse_mapping_rules(settings["ssl.principal.mapping.rules"])
    return TlsListener(endpoint, listener_tls(tls_settings(endpoint, settings)), rules, lines)


def tls_settings(endpoint: Endpoint, settings: ListenerSettings) -> TlsSettings:
    return TlsSettings(
        keystore_location=settings["ssl.keystore.location"] or "",
        keystore_password=settings["ssl.keystore.password"] or "",
        keystore_key=settings["ssl.keystore.key"] or "",
        keystore_certificate_chain=settings["ssl.keystore.certificate.chain"] or "",
        key_password=settings["ssl.key.password"] or "",
        truststore_location=settings["ssl.truststore.location"] or "",
        truststore_password=settings["ssl.truststore.password"] or "",
        truststore_certificates=settings["ssl.truststore.certificates"] or "",
        client_auth=client_auth(endpoint, settings),
        enabled_protocols=_parts(settings["ssl.enabled.protocols"]),
        cipher_suites=_parts(settings["ssl.cipher.suites"]),
    )


def client_auth(endpoint: Endpoint, settings: ListenerSettings) -> str:
    """Returns the value of ssl.client.auth. On a SASL listener, only the listener's own setting has
    an effect (KIP-684)."""
    if endpoint.has_sasl:
        return settings.own("ssl.client.auth") or "none"
    return str(settings["ssl.client.auth"])


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(",") if part)
