"""Reads files of keys and certificates in the formats PEM, PKCS12 and JKS (Java's), and returns
PEM.

The format is detected from the first bytes, because Java ignores the names of such files too.
Certificates in a JKS are not encrypted, but protected by a digest with the password. Keys in a JKS
are encrypted in a format that only Java has, and are not read. `cryptography` reads PKCS12.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

_JKS: Final = bytes.fromhex("feedfeed")
_DER_SEQUENCE: Final = 0x30
_DIGEST_BYTES: Final = 20
_SALT: Final = b"Mighty Aphrodite"
"""A constant that Java adds to the digest of a store."""
_KEY_ENTRY, _TRUSTED_ENTRY = 1, 2
_BLOCK = re.compile(
    r"-----BEGIN (?P<what>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=what)-----", re.S
)
_CERTIFICATE: Final = "CERTIFICATE"
_A_KEY: Final = "PRIVATE KEY"
_PEM_COLUMNS: Final = 64


def pem(text: str, *ending: str) -> str:
    """Returns the PEM blocks in ``text`` whose labels end with ``ending``. The base64 of each block
    is split into lines, because a property may contain a whole block in one line."""
    return "".join(
        f"-----BEGIN {found['what']}-----\n{_lines(found['body'])}-----END {found['what']}-----\n"
        for found in _BLOCK.finditer(text)
        if found["what"].endswith(ending or "")
    )


def _lines(body: str) -> str:
    if ":" in body:  # headers of an old encrypted key: the lines stay unchanged
        return body.lstrip()
    whole = "".join(body.split())
    return "".join(
        f"{whole[at : at + _PEM_COLUMNS]}\n" for at in range(0, len(whole), _PEM_COLUMNS)
    )


class StoreError(ValueError):
    """A file of keys or certificates is unusable. The message is for users and contains no
    secrets."""


def certificates_in(data: bytes, place: str, password: str | None) -> str:
    """Returns the certificates of a truststore as PEM. Raises StoreError if the truststore contains
    no certificate or can't be read."""
    if data.startswith(_JKS):
        found = "".join(map(_pem_of, _trusted(data, place, password)))
    elif data[:1] == bytes([_DER_SEQUENCE]):
        found = _of_pkcs12(data, place, password)[1]
    else:
        text = _text(data, place)
        refuse_password("ssl.truststore.password", password, place)
        found = pem(text, _CERTIFICATE)
    if not found:
        raise StoreError(f"{place} has no certificates")
    return found


def key_and_certificates_in(data: bytes, place: str, password: str | None) -> tuple[str, str]:
    """Returns the private key of a keystore, and the certificates of this key, as PEM. Raises
    StoreError."""
    if data.startswith(_JKS):
        raise StoreError(
            f"{place} is a JKS keystore, whose keys only Java can read: convert it"
            f" with keytool -importkeystore -srckeystore {place} -destkeystore"
            f" {place}.p12 -deststoretype PKCS12"
        )
    if data[:1] == bytes([_DER_SEQUENCE]):
        key, certificates = _of_pkcs12(data, place, password)
    else:
        text = _text(data, place)
        refuse_password("ssl.keystore.password", password, place)
        key, certificates = pem(text, _A_KEY), pem(text, _CERTIFICATE)
    if not key or not certificates:
        raise StoreError(f"{place} must have a private key and a certificate")
    return key, certificates


def refuse_password(setting: str, password: str | None, place: str) -> None:
    """Raises StoreError if a password is set for a PEM file, like Kafka's
    DefaultSslEngineFactory."""
    if password:
        instead = "; for an encrypted key set ssl.key.password" if "keystore" in setting else ""
        raise StoreError(
            f"{setting} applies to PKCS12 and JKS, but {place} is PEM: remove the setting{instead}"
        )


def _pem_of(certificate: bytes) -> str:
    body = _lines(b64encode(certificate).decode())
    return f"-----BEGIN {_CERTIFICATE}-----\n{body}-----END {_CERTIFICATE}-----\n"


def _text(data: bytes, place: str) -> str:
    if b"-----BEGIN " not in data:
        raise StoreError(f"{place} is neither PEM nor PKCS12 nor a JKS truststore")
    return data.decode("utf-8", "replace")


def _of_pkcs12(data: bytes, place: str, password: str | None) -> tuple[str, str]:
    """Returns the private key as PEM, or "" without a key, and the certificates as PEM."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise StoreError(
            f"{place} is PKCS12: install the package cryptography, or convert it with"
            f" openssl pkcs12 -in {place} -out {place}.pem"
        ) from None
    try:
        store: Any = pkcs12.load_pkcs12(data, (password or "").encode())
    except ValueError:
        raise StoreError(
            f"{place} can't be read: check its password (ssl.truststore.password,"
            " ssl.keystore.password)"
        ) from None
    own = [store.cert] if store.cert is not None else []
    certificates = "".join(
        each.certificate.public_bytes(Encoding.PEM).decode()
        for each in [*own, *store.additional_certs]
    )
    if store.key is None:
        return "", certificates
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return key, certificates


def _trusted(data: bytes, place: str, password: str | None) -> Iterator[bytes]:
    """Yields the trusted certificates of a JKS truststore in DER."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password:
        secret = password.encode("utf-16-be")
        if hashlib.sha1(secret + _SALT + body, usedforsecurity=False).digest() != digest:
            raise StoreError(f"ssl.truststore.password is wrong for {place}")
    at = _Reader(body, place)
    at.take(4)
    version, count = at.number(4), at.number(4)
    for _ in range(count):
        kind = at.number(4)
        at.take(at.number(2))  # the alias
        at.take(8)  # the entry's date
        if kind == _KEY_ENTRY:
            at.take(at.number(4))
            for _ in range(at.number(4)):
                at.certificate(version)
        elif kind == _TRUSTED_ENTRY:
            yield at.certificate(version)
        else:
            raise StoreError(f"{place} is a damaged JKS: an entry has the unknown type {kind}")


class _Reader:
    """Reads the bytes of a JKS store in order."""

    def __init__(self, data: bytes, place: str) -> None:
        self._data = data
        self._place = place
        self._position = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise StoreError(f"{self._place} is a truncated JKS")
        self._position += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def certificate(self, version: int) -> bytes:
        """Returns the next certificate in DER. From version 2 of the store on, the type of the
        certificate precedes it."""
        if version >= 2:
            self.take(self.number(2))
        return self.take(self.number(4))
