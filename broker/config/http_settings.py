"""Checks the ``http.*`` settings: which machines can reach HTTP, and how HTTP is protected.

If other machines can reach the HTTP address, the broker refuses to start without authentication, or
if passwords would be sent without TLS. ``http.unprotected.allowed`` disables this check. On a
loopback address no authentication is required, so every user of the machine can read the page and
the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any, Final, Protocol

from broker.config.config_table import BROKER, HTTP_TLS
from broker.config.config_value import Fault
from broker.config.listener_settings import ListenerSettings, Values
from broker.config.listeners import Endpoint, parse_host_and_port
from security.name_mapping import parse_mapping_rules

HTTP: Final = "http"
"""The name of the HTTP listener where a listener name is expected. Other listeners have names in
upper case."""
OFF: Final = "off"
BASIC: Final = "basic"
CERTIFICATE: Final = "certificate"
HTTPS: Final = "SSL"
"""The value of ``http.security.protocol`` that enables TLS."""
ALLOWED: Final = "http.unprotected.allowed"
_PROTOCOL: Final = "http.security.protocol"
_WAYS: Final = "http.authentication"
_TOKEN: Final = "http.metrics.token"
_TOKEN_BYTES_MIN: Final = 16
_HOST_NAME = re.compile(r"\*|(\*\.)?[\w-]+(\.[\w-]+)*")
_BEARER = re.compile(r"[-A-Za-z0-9._~+/]+=*")


class Settings(Protocol):
    """Gives access to typed values of settings, by name."""

    def __getitem__(self, name: str) -> Any: ...


def is_loopback(host: str) -> bool:
    """Returns True if only this machine can reach the address or host name."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class HttpTlsSettings(ListenerSettings):
    """The settings ``http.ssl.*``. Callers omit ``http.`` in the name of a setting, so that they
    can use this class like the settings of a Kafka listener."""

    def __init__(self, config: Values) -> None:
        super().__init__(config, HTTP)

    def __getitem__(self, setting: str) -> Any:
        return self._config[f"{HTTP}.{setting}"]

    def own(self, setting: str) -> Any:
        """Returns the value of the setting; None if it is not set."""
        found = self._config.first_given(f"{HTTP}.{setting}")
        return None if found is None else self._config[found]


def http_endpoint(settings: Settings) -> Endpoint | None:
    """Returns the HTTP listener; None if HTTP is off."""
    if settings["http.listener"] == OFF:
        return None
    return Endpoint(HTTP, *parse_host_and_port(settings["http.listener"]), settings[_PROTOCOL])


def ways_in(settings: Settings) -> frozenset[str]:
    """Returns the enabled authentication methods, `BASIC` and `CERTIFICATE`. The result is empty if
    clients need not authenticate by these methods."""
    return frozenset(filter(None, settings[_WAYS].split(",")))


def is_protected(settings: Settings) -> bool:
    """Returns True if clients must authenticate before they can read."""
    return bool(ways_in(settings)) or settings[_TOKEN] is not None


def http_faults(settings: Settings) -> Iterator[Fault]:
    hosts: dict[str, str] = {}
    for name, nothing in (("http.listener", OFF), ("http.advertised.listener", "")):
        if settings[name] != nothing:
            try:
                hosts[name], _ = parse_host_and_port(settings[name])
            except ValueError as error:
                yield Fault((name,), f"{name}: {error}")
    for each in filter(None, settings["http.allowed.hosts"].split(",")):
        if _HOST_NAME.fullmatch(each) is None:
            yield Fault(
                ("http.allowed.hosts",),
                f"http.allowed.hosts={each}: it must be a name without a port, or *",
            )
    token = settings[_TOKEN]
    if token is not None and (len(token) < _TOKEN_BYTES_MIN or _BEARER.fullmatch(token) is None):
        yield Fault(
            (_TOKEN,),
            f"{_TOKEN}: it must have at least {_TOKEN_BYTES_MIN} characters, only letters,"
            " digits and -._~+/",
        )
    if "http.listener" in hosts:
        yield from _tls_faults(settings)
        yield from _open_faults(settings, hosts["http.listener"])


def _tls_faults(settings: Settings) -> Iterator[Fault]:
    has_tls = settings[_PROTOCOL] == HTTPS
    given = [
        name
        for name in (f"{HTTP}.{each}" for each in HTTP_TLS)
        if settings[name] != BROKER[name].default
    ]
    if given and not has_tls:
        yield Fault((_PROTOCOL, *given), f"{', '.join(given)}: no effect without {_PROTOCOL}=SSL")
    own = [f"{HTTP}.ssl.keystore.{each}" for each in ("location", "key")]
    if has_tls and all(settings[name] is None for name in own):
        yield Fault(
            (_PROTOCOL, *own),
            f"{_PROTOCOL}=SSL needs a certificate with its key: set {own[0]}, or {own[1]} with"
            " http.ssl.keystore.certificate.chain",
        )
    asks = "http.ssl.client.auth"
    if CERTIFICATE in ways_in(settings) and not (has_tls and settings[asks] != "none"):
        yield Fault(
            (_WAYS, _PROTOCOL, asks),
            f"{_WAYS}={CERTIFICATE} needs {_PROTOCOL}=SSL and {asks}=requested or required",
        )
    rules = "http.ssl.principal.mapping.rules"
    try:
        parse_mapping_rules(settings[rules])
    except ValueError as error:
        yield Fault((rules,), f"{rules}: {error}")


def _open_faults(settings: Settings, host: str) -> Iterator[Fault]:
    if is_loopback(host) or settings[ALLOWED]:
        return
    where = f"http.listener={settings['http.listener']} can be reached from other machines"
    unless = f"or keep http.listener on loopback (127.0.0.1:9644), or set {ALLOWED}=true"
    if not is_protected(settings):
        yield Fault(
            ("http.listener", _WAYS, _TOKEN, ALLOWED),
            f"{where} without authentication: set {_WAYS} or {_TOKEN}, {unless}",
        )
    elif BASIC in ways_in(settings) and settings[_PROTOCOL] != HTTPS:
        yield Fault(
            ("http.listener", _WAYS, _PROTOCOL, ALLOWED),
            f"{where}, and passwords would be sent without TLS: set {_PROTOCOL}=SSL, {unless}",
        )
