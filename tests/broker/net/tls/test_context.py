"""TLS contexts that are built from listener settings, and the error message for each invalid
setting."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.net.tls.ciphers import SUITES_OF_13, openssl_ciphers
from broker.net.tls.context import TlsError, TlsSettings, listener_tls
from tests.certificates import Authority, Issued

PASSWORD = "changeit"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Issued:
    return authority.issue("broker")


@pytest.fixture(scope="module")
def settings(own: Issued) -> TlsSettings:
    return TlsSettings(keystore_location=str(own.pem))


def test_pem_keystore_is_loaded(settings):
    made = listener_tls(settings)
    assert made.certificate.subject == "CN=broker"
    assert made.certificate.names == {"127.0.0.1"}
    assert 0 < made.certificate.days_left(int(datetime.now(UTC).timestamp() * 1000)) <= 1
    assert made.context.verify_mode == ssl.CERT_NONE
    assert made.as_client is None


def test_pkcs12_stores_and_encrypted_keys_are_loaded(own, authority, tmp_path):
    p12 = tmp_path / "own.p12"
    p12.write_bytes(own.pkcs12(PASSWORD))
    trust = tmp_path / "trust.p12"
    trust.write_bytes(authority.trust_pkcs12(PASSWORD))
    made = listener_tls(
        TlsSettings(
            keystore_location=str(p12),
            keystore_password=PASSWORD,
            truststore_location=str(trust),
            truststore_password=PASSWORD,
            client_auth="required",
        )
    )
    assert made.context.verify_mode == ssl.CERT_REQUIRED
    assert made.as_client is not None
    inline = TlsSettings(
        keystore_key=own.encrypted_key_text(PASSWORD),
        keystore_certificate_chain=own.certificate_text.replace("\n", " "),
        key_password=PASSWORD,
        truststore_certificates=authority.certificate.read_text(),
        client_auth="requested",
    )
    assert listener_tls(inline).context.verify_mode == ssl.CERT_OPTIONAL


def test_keystore_password_is_refused_when_the_keystore_is_pem(settings, own, authority):
    """Kafka 4.3.1 refuses the password in DefaultSslEngineFactory."""
    trusting = replace(settings, truststore_location=str(authority.certificate))
    inline = replace(settings, truststore_certificates=authority.certificate.read_text())
    own_inline = TlsSettings(
        keystore_key=own.encrypted_key_text(PASSWORD),
        keystore_certificate_chain=own.certificate_text,
        key_password=PASSWORD,
    )
    for right in (trusting, inline, own_inline):
        listener_tls(right)
    for wrong, said in (
        (
            replace(trusting, truststore_password="x"),
            f"{authority.certificate} is PEM: remove the setting",
        ),
        (
            replace(inline, truststore_password="x"),
            "ssl.truststore.certificates is PEM: remove the setting",
        ),
        (
            replace(settings, keystore_password="x"),
            "is PEM: remove the setting; for an encrypted key set",
        ),
        (replace(own_inline, keystore_password="x"), "ssl.keystore.key is PEM: remove the setting"),
    ):
        with pytest.raises(TlsError, match=said):
            listener_tls(wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"keystore_location": ""}, "TLS needs a certificate with its key"),
        ({"keystore_location": "/nowhere/own.pem"}, "/nowhere/own.pem can't be read: No such file"),
        ({"keystore_key": "x"}, "ssl.keystore.location and ssl.keystore.key are both set"),
        ({"client_auth": "perhaps"}, "ssl.client.auth=perhaps: use one of none, requested"),
        ({"client_auth": "required"}, "ssl.client.auth=required needs the CAs of the clients"),
        ({"enabled_protocols": ("SSLv3",)}, "ssl.enabled.protocols=SSLv3: use TLSv1.2"),
        ({"enabled_protocols": ()}, "use TLSv1.2 or TLSv1.3"),
        ({"truststore_certificates": "x"}, "ssl.truststore.certificates has no certificate"),
        (
            {"truststore_location": "/t", "truststore_certificates": "x"},
            "ssl.truststore.location and ssl.truststore.certificates are both set",
        ),
        (
            {"truststore_password": "x"},
            "ssl.truststore.password is set without ssl.truststore.location",
        ),
        ({"cipher_suites": ("RC4",)}, "ssl.cipher.suites=RC4: TLSv1.3 always enables TLS_AES"),
        (
            {"cipher_suites": ("RC4",), "enabled_protocols": ("TLSv1.2",)},
            "ssl.cipher.suites=RC4: RC4 is not the IANA name of a cipher suite",
        ),
        (
            {
                "cipher_suites": ("TLS_RSA_WITH_CAMELLIA_512_CBC_SHA256",),
                "enabled_protocols": ("TLSv1.2",),
            },
            "OpenSSL supports none of these suites",
        ),
    ],
)
def test_invalid_tls_setting_is_refused_with_a_reason(settings, change, said):
    with pytest.raises(TlsError, match=said.replace("(", r"\(")):
        listener_tls(replace(settings, **change))


def test_private_key_that_does_not_match_the_certificate_is_refused(own, authority):
    other = authority.issue("other")
    inline = TlsSettings(
        keystore_key=own.key_text, keystore_certificate_chain=other.certificate_text
    )
    with pytest.raises(TlsError, match="does the certificate match the key"):
        listener_tls(inline)
    for given in ({"keystore_key": own.key_text}, {"keystore_certificate_chain": "x"}):
        with pytest.raises(TlsError, match="set both or neither"):
            listener_tls(TlsSettings(**given))


def test_error_about_a_wrong_key_password_does_not_contain_the_password(own):
    inline = TlsSettings(
        keystore_key=own.encrypted_key_text(PASSWORD),
        keystore_certificate_chain=own.certificate_text,
        key_password="wrong-one",
    )
    with pytest.raises(TlsError, match=r"is ssl\.key\.password right") as raised:
        listener_tls(inline)
    assert "wrong-one" not in str(raised.value)
    assert "wrong-one" not in repr(inline)


def test_enabled_protocols_limit_the_tls_versions(settings):
    made = listener_tls(replace(settings, enabled_protocols=("TLSv1.2",)))
    assert made.context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_context_has_exactly_the_configured_cipher_suites(settings):
    suites = (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA256",
    )
    assert openssl_ciphers(suites, has_13=False) == (
        "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:AES256-SHA256"
    )
    made = listener_tls(replace(settings, cipher_suites=(*suites, *SUITES_OF_13)))
    names = {each["name"] for each in made.context.get_ciphers()}
    assert names == {*openssl_ciphers(suites, has_13=False).split(":"), *SUITES_OF_13}


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_loading_a_private_key_leaves_no_file_on_disk(
    settings, tmp_path: Path, monkeypatch, platform
):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = listener_tls(settings)
    assert made.certificate.subject == "CN=broker"
    assert list(tmp_path.iterdir()) == []


def test_tls_context_fails_when_private_key_cannot_be_written(
    settings, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    if hasattr(os, "memfd_create"):
        listener_tls(settings)  # On Linux the key is in memory.
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(TlsError, match=r"^OpenSSL can't read the private key: .*No such file"):
        listener_tls(settings)
