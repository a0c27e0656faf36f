"""Tests that OAUTHBEARER accepts a valid signed token and refuses every other token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import structlog
from confluent_kafka import Producer
from structlog.testing import capture_logs

from broker.authentication.logins import FAILURE, Result
from broker.broker import Broker
from broker.time import Time
from protocol.errors import SASL_AUTHENTICATION_FAILED
from security.sasl.oauthbearer import TokenClaims, TokenRefused
from tests.broker.authentication.bearers import (
    NOW_S,
    OTHER,
    RSA,
    first_message,
    forged,
    settings,
    signed_tokens,
    token,
    token_valid_now,
)
from tests.broker.authentication.letting_in import (
    AUTHENTICATE,
    GROUPS,
    HANDSHAKE,
    LISTENER,
    Client,
    all_until_closed,
    broker_with_logins,
    connect,
    port_of,
)


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


def test_valid_bearer_token_sets_user_name_and_session_expiry(tmp_path: Path) -> None:
    tokens = signed_tokens(tmp_path)
    good = TokenClaims("alice", (NOW_S + 60) * 1000)
    assert tokens.check(token()) == good
    assert tokens.check(token(RSA, "RS256", "r")) == good
    assert tokens.check(token(exp=NOW_S - 29)) == TokenClaims("alice", (NOW_S - 29) * 1000)
    strict = signed_tokens(tmp_path, audience=("kafka", "k"), issuer="https://i", name_claim="user")
    assert strict.check(token(user="bob", aud=["x", "k"], iss="https://i")).name == "bob"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: "planted", "the token is not a signed JWT"),
        (lambda: token(None, "none"), "the token's signature algorithm is not supported"),
        (lambda: token("s" * 32, "HS256"), "the token's signature algorithm is not supported"),
        (
            lambda: forged('{"alg":["RS256"],"kid":"r"}'),
            "the token's signature algorithm is not supported",
        ),
        (
            lambda: forged('{"alg":{},"kid":"r"}'),
            "the token's signature algorithm is not supported",
        ),
        (lambda: forged('{"alg":"RS256","kid":["r"]}'), "the token is not a signed JWT"),
        (lambda: token(OTHER), "the token is not valid: InvalidSignatureError"),
        (lambda: token(kid="b"), "the token names an unknown key"),
        (
            lambda: token("s" * 32, "HS256", "shared"),
            "the token's signature algorithm is not supported",
        ),
        (
            lambda: token(RSA, "PS256", "r"),
            "the token's signature algorithm does not match its key",
        ),
        (
            lambda: token(RSA, "RS256", "a"),
            "the token's signature algorithm does not match its key",
        ),
        (lambda: token()[:-9], "the token is not a signed JWT"),
        (lambda: token(exp=NOW_S - 30), "the token of 'alice' has expired"),
        (lambda: token(iat=NOW_S + 31), "the token of 'alice' is not valid yet"),
        (lambda: token(nbf=NOW_S + 31), "the token of 'alice' is not valid yet"),
        (lambda: token(exp=None), "the token has no valid exp or iat claim"),
        (lambda: token(iat=None), "the token has no valid exp or iat claim"),
        (lambda: token(exp=1e300), "the token has no valid exp or iat claim"),
        (lambda: token(sub=None), "the token has no user name in claim sub"),
        (lambda: token(sub=7), "the token has no user name in claim sub"),
    ],
)
def test_reason_of_a_refused_bearer_token_does_not_contain_the_token(
    tmp_path: Path, make: Callable[[], str], reason: str
) -> None:
    made = make()
    found = signed_tokens(tmp_path).check(made)
    assert isinstance(found, TokenRefused)
    assert found.reason.startswith(reason)
    assert made not in repr(found)


def test_token_of_another_audience_or_issuer_is_refused(tmp_path: Path) -> None:
    tokens = signed_tokens(tmp_path, audience=("kafka",), issuer="i")
    reasons = [
        tokens.check(each).reason  # type: ignore[union-attr]
        for each in (token(iss="i"), token(iss="i", aud="x"), token(aud="kafka", iss="j"))
    ]
    assert reasons == [
        "the audience of the token of 'alice' is not in sasl.oauthbearer.expected.audience",
        "the audience of the token of 'alice' is not in sasl.oauthbearer.expected.audience",
        "the issuer of the token of 'alice' is not sasl.oauthbearer.expected.issuer",
    ]


async def test_librdkafka_logs_in_with_a_token(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, _):
        client = {
            "bootstrap.servers": f"127.0.0.1:{port_of(broker)}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token_valid_now(), Time().now().wall_ms / 1000 + 600),
        }

        def produce() -> int:
            producer = Producer(client)
            producer.produce("t", b"x")
            left: int = producer.flush(20)
            return left

        assert await asyncio.to_thread(produce) == 0


async def test_forged_token_gets_invalid_token_status_then_error_response(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, _):
        good, bad = await connect(broker), await connect(broker)
        for client in (good, bad):
            await client.call(HANDSHAKE, 1, mechanism="OAUTHBEARER")
        answer = await good.call(AUTHENTICATE, 1, auth_bytes=first_message(token_valid_now()))
        assert answer["error_code"] == 0
        assert 500_000 < answer["session_lifetime_ms"] <= 600_000, "no longer than the token"
        assert (await good.call(GROUPS, 0))["error_code"] == 0

        unsigned = token_valid_now(OTHER)
        told = await bad.call(AUTHENTICATE, 1, auth_bytes=first_message(unsigned))
        assert (told["error_code"], told["auth_bytes"]) == (0, b'{"status":"invalid_token"}')
        refused = await bad.call(AUTHENTICATE, 1, auth_bytes=b"\x01")
        assert refused["error_code"] == SASL_AUTHENTICATION_FAILED
        assert refused["error_message"] == '{"status":"invalid_token"}'
        assert await all_until_closed(bad) == b""
    text = "\n".join(map(repr, lines))
    assert "InvalidSignatureError" in text
    assert unsigned not in text
    assert unsigned.split(".")[2] not in text


async def connect_with_token(bearer: str, broker: Broker) -> Client:
    """Connects a client and sends its token. An invalid token raises no error here: the broker
    reports the error in its response to the client's next message, which the caller sends."""
    client = await connect(broker)
    await client.call(HANDSHAKE, 1, mechanism="OAUTHBEARER")
    answer = await client.call(AUTHENTICATE, 1, auth_bytes=first_message(bearer))
    assert answer["error_code"] == 0
    return client


async def test_login_fails_when_algorithm_of_the_token_is_not_a_string(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, logins):
        client = await connect_with_token(forged('{"alg":["RS256"]}'), broker)
        refused = await client.call(AUTHENTICATE, 1, auth_bytes=b"\x01")
        assert refused["error_code"] == SASL_AUTHENTICATION_FAILED
        assert logins.counts == {Result(LISTENER, "OAUTHBEARER", FAILURE): 1}
    (line,) = [each for each in lines if each["event"] == "login failed"]
    assert line["reason"] == "the token's signature algorithm is not supported"


def test_token_is_refused_when_the_jwt_library_raises_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: object, **__: object) -> None:
        raise MemoryError("planted")

    tokens = signed_tokens(tmp_path)
    monkeypatch.setattr(jwt, "decode", decode)
    assert tokens.check(token()) == TokenRefused("the token can't be checked: MemoryError")


async def test_forged_bearer_token_is_logged_when_the_client_sends_a_request_before_the_login_ends(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, _):
        client = await connect_with_token(token_valid_now(OTHER), broker)
        client.send(GROUPS, 0)
        assert await all_until_closed(client)
    (line,) = [each for each in lines if each["event"] == "login failed"]
    assert line["reason"] == (
        "the token is not valid: InvalidSignatureError; ListGroups arrived during the login"
    )
