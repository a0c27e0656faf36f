"""Security settings that commands read from a file of Kafka client properties, and errors about
this file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from client.errors import ClientError
from client.security import PLAINTEXT, Login, Security
from client.settings import read_settings, settings_of
from security.sasl.client_side import Credentials
from tests.certificates import Authority

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_empty_properties_select_a_plaintext_connection() -> None:
    assert settings_of({}) == (PLAINTEXT, ())
    assert settings_of({"security.protocol": "PLAINTEXT", "ssl.key.password": "x"})[0] == PLAINTEXT


@pytest.mark.parametrize(
    ("jaas", "password"),
    [
        ('{} required username="alice" password="secret";', "secret"),
        ("{} required\n   username=alice\n   password=secret;", "secret"),
        (r'{} required username="alice" password="a\"b\\c;=";', 'a"b\\c;='),
        ('{} required user_x="no" username = "alice" password = "" ;', ""),
    ],
)
def test_user_and_password_are_read_from_sasl_jaas_config(jaas: str, password: str) -> None:
    pairs = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}

    found = settings_of({**pairs, "sasl.jaas.config": jaas.format(PLAIN_MODULE)})

    assert found.security == Security(None, Login("PLAIN", Credentials("alice", password)))


def test_user_and_password_are_read_from_librdkafka_properties() -> None:
    found = settings_of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
    )
    assert found.security.login == Login("SCRAM-SHA-512", Credentials("alice", "secret"))


def test_delegation_token_in_sasl_jaas_config_selects_scram() -> None:
    jaas = f'{SCRAM_MODULE} required username="id" password="hmac" tokenauth="true";'
    pairs = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}

    found = settings_of({**pairs, "sasl.jaas.config": jaas}).security.login

    assert found == Login("SCRAM-SHA-256", Credentials("id", "hmac", by_token=True))


def test_oauthbearer_token_is_read_from_the_settings_or_a_file_at_each_login(
    tmp_path: Path,
) -> None:
    pairs = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    file = tmp_path / "the token"
    file.write_text("first.one\n")

    given = settings_of({**pairs, "sasl.jaas.config": f'{module} oauth.access.token="a.b";'})
    named = settings_of(
        {**pairs, "sasl.oauthbearer.token.endpoint.url": file.as_uri(), "sasl.login.class": "x"}
    )
    placed = settings_of(
        {**pairs, "sasl.jaas.config": f'{module} oauth.access.token.location="{file}";'}
    )

    assert given.security.login is not None
    assert given.security.login.credentials() == Credentials("", "a.b")
    assert named == placed._replace(unknown=())
    assert named.security.login is not None
    assert named.security.login.credentials().secret == "first.one"
    file.write_text("second.one")
    assert named.security.login.credentials().secret == "second.one"
    for login in (given, named):
        assert "a.b" not in repr(login)
    file.unlink()
    with pytest.raises(ClientError, match="the token can't be read: No such file"):
        named.security.login.credentials()


def test_unsupported_properties_are_returned_as_ignored(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:9092\nsecurity.protocol=PLAINTEXT\nssl.cihper.suites=x\n")

    assert read_settings(file).unknown == ("bootstrap.servers", "ssl.cihper.suites")


SASL = {"security.protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            {"security.protocol": "TLS"},
            "unknown security.protocol=TLS: choose one of PLAINTEXT, SSL",
        ),
        (SASL, r"sasl.mechanism=GSSAPI \(Kerberos\), Kafka's default, is not supported"),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER"},
            "the token is missing: set sasl.oauthbearer.token.endp",
        ),
        (
            {
                **SASL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
            },
            "Muster does not fetch tokens; write the token to a file, and set file:///PATH",
        ),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN_MODULE} required"},
            "sasl.jaas.config: expected a semicolon after the options of .*PlainLoginModule",
        ),
        (
            {**SASL, "sasl.mechanism": "PLAIN"},
            "the user is missing: set sasl.jaas.*PlainLoginModule",
        ),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "a"}, "the user is missing"),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{SCRAM_MODULE} required;"},
            "has ScramLoginModule, but sasl.mechanism=PLAIN needs PlainLoginModule",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/absent"},
            "/absent can't be read",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/dev/zero"},
            "/dev/zero is larger than 16 MiB",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": "x"},
            "ssl.keystore.key is not PEM",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"},
            "ssl.endpoint.identification.algorithm=ldaps: choose https, or leave it empty",
        ),
    ],
)
def test_invalid_properties_are_rejected_with_the_reason(pairs: dict[str, str], said: str) -> None:
    with pytest.raises(ClientError, match=said):
        settings_of(pairs)


def test_unreadable_properties_file_is_rejected_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="absent can't be read: No such file"):
        read_settings(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ClientError, match="is not UTF-8"):
        read_settings(tmp_path / "binary")
    with pytest.raises(ClientError, match="/dev/zero is larger than 16 MiB"):
        read_settings(Path("/dev/zero"))


def test_repr_of_the_settings_contains_no_password_or_private_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("me")
    settings = settings_of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hidden",
            "ssl.keystore.location": str(own.pem),
            "ssl.key.password": "hidden too",
        }
    )
    assert settings.security.tls is not None
    assert "hidden" not in repr(settings)
    assert "PRIVATE KEY" not in repr(settings)
    assert pickle.loads(pickle.dumps(settings.security)) == settings.security


def test_pem_property_may_have_spaces_instead_of_line_breaks(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    whole = authority.certificate.read_text()
    own = authority.issue("me")
    one_line = settings_of(
        {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": " ".join(whole.split("\n")),
            "ssl.keystore.certificate.chain": own.certificate_text.replace("\n", " "),
            "ssl.keystore.key": own.key_text.replace("\n", " "),
        }
    ).security.tls
    assert one_line is not None
    assert (one_line.trusted or "").split() == whole.split()
    context = one_line.context()
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
