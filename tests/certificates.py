"""A certificate authority for tests, and the certificates that it issues."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID


class Issued(NamedTuple):
    """A certificate and its private key as PEM texts, and the path of a PEM file with both
    texts."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    pem: Path

    @property
    def certificate_text(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_text(self) -> str:
        return _key_text(self.key, NoEncryption())

    def encrypted_key_text(self, password: str) -> str:
        return _key_text(self.key, BestAvailableEncryption(password.encode()))

    def pkcs12(self, password: str) -> bytes:
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.certificate, None, encryption
        )


class Authority:
    """A certificate authority. The file ``certificate`` contains its own certificate."""

    def __init__(self, folder: Path, name: str = "an authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        builder = _dated(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.own = builder.sign(self._key, hashes.SHA256())
        self.certificate = folder / f"{name.replace(' ', '-')}.pem"
        self.certificate.write_bytes(self.own.public_bytes(Encoding.PEM))

    def issue(self, name: str, address: str | None = "127.0.0.1", days: float = 1) -> Issued:
        """Issues a certificate for ``address``, or for ``name`` if ``address`` is None. The
        certificate expires after ``days``. A negative number creates an expired certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        other: x509.GeneralName = x509.DNSName(name)
        if address is not None:
            other = x509.IPAddress(ipaddress.ip_address(address))
        builder = _dated(_named(name), self._name, key, days).add_extension(
            x509.SubjectAlternativeName([other]), critical=False
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        file = self._folder / f"{name}.pem"
        issued = Issued(certificate, key, file)
        file.write_text(issued.key_text + issued.certificate_text)
        return issued

    def trust_pkcs12(self, password: str) -> bytes:
        """Returns a PKCS12 truststore as Java's keytool writes it."""
        encryption = BestAvailableEncryption(password.encode())
        certificate = pkcs12.PKCS12Certificate(self.own, b"ca")
        return pkcs12.serialize_java_truststore([certificate], encryption)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float = 1
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _key_text(key: ec.EllipticCurvePrivateKey, encryption: KeySerializationEncryption) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
