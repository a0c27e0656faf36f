"""SCRAM with the exchanges that the RFCs print, and servers that are not to be believed."""

from __future__ import annotations

import pytest

from client.scram import ScramError, ScramExchange

VECTORS = {
    "RFC 5802, section 5": (
        "sha1",
        "fyko+d2lbbFgONRv9qkxdawL",
        b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    "RFC 7677, section 3": (
        "sha256",
        "rOprNGfwEbeRWgbNEkqO",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_the_exchanges_of_the_rfcs(vector: tuple[str, str, bytes, bytes, bytes, bytes]) -> None:
    hash_name, nonce, first, server_first, final, server_final = vector
    exchange = ScramExchange(hash_name, "user", "pencil", nonce)

    assert exchange.first() == first
    assert exchange.final(server_first) == final
    exchange.verify(server_final)


def test_a_name_with_the_format_s_own_signs_is_escaped() -> None:
    assert ScramExchange("sha256", "a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another exchange"),
        (b"r=nonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another exchange"),
        (b"r=nonce+,s=,i=4096", "another exchange"),
        (b"r=nonce+,s=?,i=4096", "not base64"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000", "2000000000 iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0", "0 iterations"),
        (b"r=nonce+,s=W22ZaJ0SNY7soEsUEjb6gQ==", "iterations"),
        (b"\xff", "not text"),
    ],
)
def test_a_server_s_first_message_that_is_none_is_refused(answer: bytes, said: str) -> None:
    with pytest.raises(ScramError, match=said):
        ScramExchange("sha256", "user", "pencil", "nonce").final(answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"v=AAAA", "does not know the password"),
        (b"", "does not know the password"),
        (b"e=other-error", "other-error"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_not_believed(answer: bytes, said: str) -> None:
    hash_name, nonce, _, server_first, *_ = VECTORS["RFC 7677, section 3"]
    exchange = ScramExchange(hash_name, "user", "pencil", nonce)
    exchange.final(server_first)

    with pytest.raises(ScramError, match=said):
        exchange.verify(answer)
