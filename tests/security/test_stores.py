"""Tests of truststores and keystores in the formats of Java clients and of other clients."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from security.stores import StoreError, certificates_in, key_and_certificates_in
from tests.absent import absent
from tests.certificates import Authority

PASSWORD = "changeit"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def keytool(*arguments: str) -> None:
    found = shutil.which("keytool")
    if found is None:
        absent("this test makes a JKS with keytool: apt-get install -y default-jre-headless")
    subprocess.run([found, "-noprompt", *arguments], check=True, capture_output=True, timeout=60)


def test_truststores_of_pem_and_pkcs12_have_the_same_certificates(authority: Authority) -> None:
    plain = authority.certificate.read_bytes()

    found = certificates_in(authority.trust_pkcs12(PASSWORD), "trust.p12", PASSWORD)

    assert found == certificates_in(b"# a remark\n" + plain, "trust.pem", None) == plain.decode()


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_truststore_created_by_keytool_is_read(
    authority: Authority, tmp_path: Path, kind: str
) -> None:
    store = tmp_path / "trust.jks"
    keytool(
        "-importcert", "-file", str(authority.certificate), "-alias", "ca", "-keystore", str(store),
        "-storetype", kind, "-storepass", PASSWORD,
    )  # fmt: skip

    data = store.read_bytes()

    assert certificates_in(data, str(store), PASSWORD) == authority.certificate.read_text()
    with pytest.raises(StoreError, match="password"):
        certificates_in(data, str(store), "another")
    if kind == "JKS":
        assert certificates_in(data, str(store), None) == authority.certificate.read_text()
        with pytest.raises(StoreError, match="is a truncated JKS"):
            certificates_in(data[:40] + data[-20:], str(store), None)


def test_keys_are_read_from_pem_and_pkcs12_and_not_from_jks(authority: Authority) -> None:
    own = authority.issue("me")

    of_pem = key_and_certificates_in(own.pem.read_bytes(), "own.pem", None)
    of_pkcs12 = key_and_certificates_in(own.pkcs12(PASSWORD), "own.p12", PASSWORD)

    assert of_pem == of_pkcs12 == (own.key_text, own.certificate_text)
    with pytest.raises(StoreError, match=r"keytool -importkeystore -srckeystore own\.jks"):
        key_and_certificates_in(bytes.fromhex("feedfeed00000002"), "own.jks", PASSWORD)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "x is neither PEM nor PKCS12 nor a JKS truststore"),
        (b"hello", "x is neither PEM nor PKCS12 nor a JKS truststore"),
        (b"-----BEGIN CERTIFICATE-----", "x has no certificates"),
        (b"0\x80junk", "x can't be read: check its password"),
        (bytes.fromhex("feedfeed") + bytes(28), "x has no certificates"),
    ],
)
def test_malformed_truststore_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        certificates_in(data, "x", None)
