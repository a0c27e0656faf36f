"""Converts the properties of Kafka's own clients, as in a file for `--command-config`, to
`Security`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import url2pathname

from client.errors import ClientError
from client.files import read_bytes
from client.security import Login, Security, Tls
from protocol.properties import parse
from security.jaas import JaasError, LoginModule, parse_jaas
from security.sasl import oauthbearer
from security.sasl.client_side import MECHANISMS, Credentials, credentials_of, module_of
from security.stores import StoreError, certificates_in, key_and_certificates_in, pem

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_JAAS: Final = "sasl.jaas.config"
_LOGIN: Final = ("sasl.username", "sasl.password")
"""The properties of librdkafka for user name and password."""
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_TOKEN: Final = ("oauth.access.token", "oauth.access.token.location")
"""The options of OAuthBearerLoginModule that Strimzi's clients use: a token, or a file with a
token."""
_FILE: Final = "file:"
_TRUST: Final = ("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location")
_KEY_STORE: Final = "ssl.keystore.location"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_KEY: Final = "ssl.keystore.key"
_KEY_PASSWORD: Final = "ssl.key.password"
_CHECK: Final = "ssl.endpoint.identification.algorithm"
_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
"""Properties that are ignored, since the type of a file is recognized by its content."""
_CALLBACKS: Final = ("sasl.login.callback.handler.class", "sasl.login.class")
"""Properties that are ignored. They name the classes with which Java clients get a token; this
client reads the token from a file or from a property."""
_KNOWN: Final = frozenset(
    {
        "security.protocol",
        *_MECHANISM,
        _JAAS,
        *_LOGIN,
        _TOKEN_URL,
        *_CALLBACKS,
        *_TRUST,
        "ssl.truststore.password",
        _KEY_STORE,
        "ssl.keystore.password",
        _CHAIN,
        _KEY,
        _KEY_PASSWORD,
        _CHECK,
        *_TYPES,
    }
)


class Settings(NamedTuple):
    """The security settings in a file of client properties, and the names of ignored properties in
    it."""

    security: Security
    unknown: tuple[str, ...]


def read_settings(file: Path) -> Settings:
    """Returns the settings in a file of client properties. Raises ClientError with the name of the
    first invalid property."""
    try:
        pairs = parse(read_bytes(file).decode())
    except UnicodeDecodeError:
        raise ClientError(f"{file} is not a properties file: it is not UTF-8") from None
    try:
        return settings_of({name: value.strip() for name, value in pairs.items()})
    except ClientError as error:
        raise ClientError(f"{file}: {error}") from None


def settings_of(pairs: Mapping[str, str]) -> Settings:
    """Returns the settings for the properties in ``pairs``, by property name."""
    protocol = pairs.get("security.protocol", PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        raise ClientError(
            f"unknown security.protocol={protocol:.40}: choose one of {', '.join(PROTOCOLS)}"
        )
    try:
        tls = _tls(pairs) if protocol.endswith("SSL") else None
    except StoreError as error:
        raise ClientError(str(error)) from None
    login = _login(pairs) if protocol.startswith("SASL") else None
    return Settings(Security(tls, login), tuple(sorted(pairs.keys() - _KNOWN)))


def _login(pairs: Mapping[str, str]) -> Login:
    mechanism = next((pairs[name] for name in _MECHANISM if pairs.get(name)), "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        what = " (Kerberos)" if mechanism == "GSSAPI" else ""
        given = "" if any(name in pairs for name in _MECHANISM) else ", Kafka's default,"
        raise ClientError(
            f"sasl.mechanism={mechanism:.40}{what}{given} is not supported: choose one of"
            f" {', '.join(MECHANISMS)}"
        )
    module = _module(pairs, mechanism)
    if mechanism == oauthbearer.MECHANISM:
        return _by_token(pairs, {} if module is None else module.options)
    if module is not None:
        try:
            return Login(mechanism, credentials_of(mechanism, module))
        except JaasError as error:
            raise ClientError(f"{_JAAS}: {error}") from None
    name, password = pairs.get(_LOGIN[0]), pairs.get(_LOGIN[1])
    if not name or password is None:
        raise ClientError(
            f"the user is missing: set {_JAAS}={module_of(mechanism)}"
            ' required username="..." password="...";'
        )
    return Login(mechanism, Credentials(name, password))


def _module(pairs: Mapping[str, str], mechanism: str) -> LoginModule | None:
    text = pairs.get(_JAAS)
    if not text:
        return None
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise ClientError(f"{_JAAS}: {error}") from None
    expected = module_of(mechanism).rpartition(".")[2]
    if module.name.rpartition(".")[2] != expected:
        raise ClientError(
            f"{_JAAS} has {module.name.rpartition('.')[2]:.60}, but sasl.mechanism={mechanism}"
            f" needs {expected}"
        )
    return module._replace(name=module_of(mechanism))


def _by_token(pairs: Mapping[str, str], options: Mapping[str, str]) -> Login:
    mechanism, url = oauthbearer.MECHANISM, pairs.get(_TOKEN_URL, "")
    token, place = options.get(_TOKEN[0]), options.get(_TOKEN[1])
    if url and not url.startswith(_FILE):
        raise ClientError(
            f"{_TOKEN_URL}: Muster does not fetch tokens; write the token to a file, and set"
            f" {_FILE}///PATH"
        )
    if url:
        place = url2pathname(url.removeprefix(_FILE).removeprefix("//"))
    if place:
        return Login(mechanism, Credentials("", ""), place)
    if not token:
        raise ClientError(
            f"the token is missing: set {_TOKEN_URL}={_FILE}///PATH, or"
            f' {_JAAS}={module_of(mechanism)} required {_TOKEN[0]}="...";'
        )
    return Login(mechanism, Credentials("", token))


def _tls(pairs: Mapping[str, str]) -> Tls:
    trusted = _pem_of(pairs, _TRUST[1])
    place = next((pairs[name] for name in (_TRUST[0], _TRUST[2]) if pairs.get(name)), None)
    if trusted is None and place is not None:
        trusted = certificates_in(read_bytes(place), place, pairs.get("ssl.truststore.password"))
    certificates, key = _pem_of(pairs, _CHAIN), _pem_of(pairs, _KEY)
    password = pairs.get(_KEY_PASSWORD)
    store = pairs.get(_KEY_STORE)
    if certificates is None and key is None and store:
        key, certificates = key_and_certificates_in(
            read_bytes(store), store, pairs.get("ssl.keystore.password")
        )
    if (certificates is None) != (key is None):
        raise ClientError(f"set both {_CHAIN} and {_KEY}: one is missing")
    checks = pairs.get(_CHECK, "https").lower()
    if checks not in ("", "https"):
        raise ClientError(
            f"{_CHECK}={checks:.40}: choose https, or leave it empty to skip the check"
        )
    return Tls(trusted, certificates, key, password or "", bool(checks))


def _pem_of(pairs: Mapping[str, str], name: str) -> str | None:
    text = pairs.get(name)
    if not text:
        return None
    found = pem(text)
    if not found:
        raise ClientError(f"{name} is not PEM, which begins with -----BEGIN")
    return found
