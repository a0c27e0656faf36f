"""Properties of Kafka's own clients, as a file for `--command-config` has them, to `Security`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from client.errors import ClientError
from client.security import MECHANISMS, PLAIN, Login, Security, Tls
from protocol.properties import parse
from security.stores import StoreError, certificates_in, key_and_certificates_in, pem

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_JAAS: Final = "sasl.jaas.config"
_LOGIN: Final = ("sasl.username", "sasl.password")
"""As librdkafka has them."""
_TRUST: Final = ("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location")
_KEY_STORE: Final = "ssl.keystore.location"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_KEY: Final = "ssl.keystore.key"
_KEY_PASSWORD: Final = "ssl.key.password"
_CHECK: Final = "ssl.endpoint.identification.algorithm"
_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
"""What a file is, is seen in it."""
_KNOWN: Final = frozenset(
    {
        "security.protocol",
        *_MECHANISM,
        _JAAS,
        *_LOGIN,
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
_UNSUPPORTED: Final = {
    "GSSAPI": "Kerberos",
    "OAUTHBEARER": "OAuth",
}
_OPTION = re.compile(
    r"""(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s;"]+))"""
)


class Settings(NamedTuple):
    """What a file says, and which of its properties say nothing here."""

    security: Security
    unknown: tuple[str, ...]


def read_settings(file: Path) -> Settings:
    """The settings in a file of client properties. ClientError names the property that is wrong."""
    try:
        pairs = parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClientError(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ClientError(f"{file} is no file of properties: it is not UTF-8") from None
    try:
        return settings_of({name: value.strip() for name, value in pairs.items()})
    except ClientError as error:
        raise ClientError(f"{file}: {error}") from None


def settings_of(pairs: Mapping[str, str]) -> Settings:
    """The settings that properties make."""
    protocol = pairs.get("security.protocol", PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        raise ClientError(
            f"security.protocol={protocol:.40} is none: write one of {', '.join(PROTOCOLS)}"
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
        what = f" ({_UNSUPPORTED[mechanism]})" if mechanism in _UNSUPPORTED else ""
        given = "" if any(name in pairs for name in _MECHANISM) else ", Kafka's default,"
        raise ClientError(
            f"sasl.mechanism={mechanism:.40}{what}{given} is not supported here: use"
            f" {', '.join(MECHANISMS)}"
        )
    username, password = _credentials(pairs, mechanism)
    if not username or password is None:
        module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
        raise ClientError(
            "name the user: sasl.jaas.config=org.apache.kafka.common.security."
            f'{module} required username="..." password="...";'
        )
    return Login(mechanism, username, password)


def _credentials(pairs: Mapping[str, str], mechanism: str) -> tuple[str | None, str | None]:
    jaas = pairs.get(_JAAS)
    if jaas is None:
        return pairs.get(_LOGIN[0]), pairs.get(_LOGIN[1])
    module = jaas.split(maxsplit=1)[0].rpartition(".")[2] if jaas.split() else ""
    expected = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
    if module != expected:
        raise ClientError(
            f"sasl.jaas.config is of {module[:60] or 'no module'}, and sasl.mechanism={mechanism}"
            f" goes with {expected}"
        )
    options = {
        found["name"]: found["plain"]
        if found["quoted"] is None
        else re.sub(r"\\(.)", r"\1", found["quoted"])
        for found in _OPTION.finditer(jaas)
    }
    return options.get("username"), options.get("password")


def _tls(pairs: Mapping[str, str]) -> Tls:
    trusted = _pem_of(pairs, _TRUST[1])
    place = next((pairs[name] for name in (_TRUST[0], _TRUST[2]) if pairs.get(name)), None)
    if trusted is None and place is not None:
        trusted = certificates_in(_bytes_of(place), place, pairs.get("ssl.truststore.password"))
    certificates, key = _pem_of(pairs, _CHAIN), _pem_of(pairs, _KEY)
    password = pairs.get(_KEY_PASSWORD)
    store = pairs.get(_KEY_STORE)
    if certificates is None and key is None and store:
        key, certificates = key_and_certificates_in(
            _bytes_of(store), store, pairs.get("ssl.keystore.password")
        )
    if (certificates is None) != (key is None):
        raise ClientError(f"{_CHAIN} and {_KEY} go together: one is missing")
    checks = pairs.get(_CHECK, "https").lower()
    if checks not in ("", "https"):
        raise ClientError(f"{_CHECK}={checks:.40}: write https, or nothing to check no name")
    return Tls(trusted, certificates, key, password or "", bool(checks))


def _pem_of(pairs: Mapping[str, str], name: str) -> str | None:
    text = pairs.get(name)
    if not text:
        return None
    found = pem(text)
    if not found:
        raise ClientError(f"{name} is not PEM: it begins with -----BEGIN")
    return found


def _bytes_of(place: str) -> bytes:
    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise ClientError(f"{place} can't be read: {error.strerror}") from None
