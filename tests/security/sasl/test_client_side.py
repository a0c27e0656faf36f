"""Tests of SASL clients for each mechanism: with the example of RFC 7677, with Muster's servers,
and with servers that send a wrong proof."""

from __future__ import annotations

import pytest

from security.credentials import Found, ScramCredential, ScramMechanism, credential
from security.jaas import JaasError, parse_jaas
from security.sasl.client_side import (
    MECHANISMS,
    Credentials,
    NotBelieved,
    ScramClient,
    client_login,
    credentials_of,
    module_of,
)
from security.sasl.oauthbearer import OAuthBearerServer, TokenClaims, TokenRefused
from security.sasl.plain import log_in
from security.sasl.scram import ScramServer
from security.sasl.steps import Accepted, Challenge, Refused

PENCIL = Credentials("user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SHA_256 = ScramMechanism.SHA_256


def test_scram_client_sends_the_messages_of_rfc_7677() -> None:
    client = ScramClient(SHA_256, PENCIL, NONCE)

    assert client.first() == b"n,,n=user,r=" + NONCE.encode()
    assert client.answer(SERVER_FIRST) == FINAL
    assert client.answer(SERVER_FINAL) is None


def find_decoy(name: str, by_token: bool) -> ScramCredential:
    return ScramCredential(b"salt", b"", b"", 4096)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(
    "who",
    [Credentials("a=b,c", "pä\u212bss"), Credentials("token-7", "mac", by_token=True)],
    ids=["odd", "token"],
)
def test_scram_client_logs_in_to_the_scram_server_of_muster(
    mechanism: ScramMechanism, who: Credentials
) -> None:
    asked: list[tuple[str, bool]] = []

    def find(name: str, by_token: bool) -> Found:
        asked.append((name, by_token))
        salted = mechanism.salted_password(who.secret.encode(), b"salt", 4096)
        return Found(credential(mechanism, salted, b"salt", 4096), "owner")

    server = ScramServer(mechanism, find, "server-nonce", find_decoy)
    client = client_login(mechanism.mechanism, who, "nonce")

    challenge = server.step(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.answer(challenge.message)
    assert proof is not None
    accepted = server.step(proof)

    assert isinstance(accepted, Accepted)
    assert client.answer(accepted.message) is None
    assert asked == [(who.name, who.by_token)] * 2, "at the first message and at the final one"


def test_plain_client_logs_in_to_the_plain_server_of_muster() -> None:
    client = client_login("PLAIN", PENCIL, "")

    assert log_in(client.first(), {"user": "pencil"}) == Accepted(b"", "user")
    assert client.answer(b"") is None


def test_oauth_client_logs_in_with_a_valid_token_and_not_with_an_invalid_one() -> None:
    def check(token: str) -> TokenClaims | TokenRefused:
        return TokenClaims("alice", 7) if token == "good.one" else TokenRefused("is bad")

    good, server = (
        client_login("OAUTHBEARER", Credentials("", "good.one"), ""),
        OAuthBearerServer(check),
    )
    accepted = server.step(good.first())
    assert accepted == Accepted(b"", "alice", 7)
    assert good.answer(accepted.message) is None

    bad, server = (
        client_login("OAUTHBEARER", Credentials("", "bad.one"), ""),
        OAuthBearerServer(check),
    )
    told = server.step(bad.first())
    assert isinstance(told, Challenge)
    heard = bad.answer(told.message)
    assert heard is not None
    assert isinstance(server.step(heard), Refused)


@pytest.mark.parametrize("token", ["", "two words", "a\x01auth=Bearer b", "é"])
def test_oauth_client_does_not_send_a_malformed_token(token: str) -> None:
    with pytest.raises(NotBelieved, match="a bearer token can't have") as refused:
        client_login("OAUTHBEARER", Credentials("", token), "")
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another exchange"),
        (b"r=nonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another exchange"),
        (b"r=nonce+,s=,i=4096", "another exchange"),
        (b"r=nonce+,s=?,i=4096", "not base64"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000", "2000000000 iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0", "0 iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "requests 1 iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095", "4095 iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=" + b"9" * 5000, "9" * 20 + " iterations"),
        ("r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=٤".encode(), "٤ iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==", "iterations"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_client_refuses_a_malformed_first_message_of_the_server(answer: bytes, said: str) -> None:
    with pytest.raises(NotBelieved, match=said):
        ScramClient(SHA_256, PENCIL, "nonce").answer(answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"v=AAAA", "does not match the password"),
        (b"", "does not match the password"),
        (b"e=other-error", "other-error"),
    ],
)
def test_scram_client_refuses_a_server_that_does_not_know_the_password(
    answer: bytes, said: str
) -> None:
    client = ScramClient(SHA_256, PENCIL, NONCE)
    client.answer(SERVER_FIRST)

    with pytest.raises(NotBelieved, match=said):
        client.answer(answer)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_credentials_are_read_from_the_login_module(mechanism: str) -> None:
    text = f'{module_of(mechanism)} required username="a" password="hidden" tokenauth="true";'

    found = credentials_of(mechanism, parse_jaas(text))

    assert found == Credentials("a", "hidden", mechanism.startswith("SCRAM"))
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("mechanism", "text", "said"),
    [
        ("PLAIN", f"{module_of('SCRAM-SHA-256')} required;", "does not support PLAIN"),
        (
            "SCRAM-SHA-512",
            f'{module_of("PLAIN")} required username="a" password="hidden";',
            "does not support SCRAM",
        ),
        ("PLAIN", f'{module_of("PLAIN")} required password="hidden";', "needs username"),
        ("PLAIN", f'{module_of("PLAIN")} required username="a" user_a="hidden";', "password="),
    ],
)
def test_login_module_without_credentials_is_refused_with_the_reason(
    mechanism: str, text: str, said: str
) -> None:
    with pytest.raises(JaasError, match=said) as refused:
        credentials_of(mechanism, parse_jaas(text))
    assert "hidden" not in str(refused.value)
