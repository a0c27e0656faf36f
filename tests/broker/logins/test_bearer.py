"""OAUTHBEARER: tokens that are signed let in, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
import structlog
from confluent_kafka import Producer
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from structlog.testing import capture_logs

from broker.logins.bearer import BearerSettings, SignedTokens
from broker.net.sockets import CannotListen
from broker.time import Time
from protocol.errors import SASL_AUTHENTICATION_FAILED
from security.sasl.oauthbearer import TokenClaims, TokenRefused
from tests.broker.edge import eventually
from tests.broker.logins.letting_in import (
    AUTHENTICATE,
    GROUPS,
    HANDSHAKE,
    all_until_closed,
    broker_with_logins,
    come,
    port_of,
)

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
NOW_S = 2_000_000_000
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


def keys() -> str:
    own = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "a", "use": "sig"}
    of_rsa = {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "r", "alg": "RS256"}
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    return json.dumps({"keys": [own, of_rsa, shared]})


def token(key: Any = KEY, algorithm: str = "ES256", kid: str = "a", **claims: Any) -> str:
    said = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm, {"kid": kid})


def judge(folder: Path, **more: Any) -> SignedTokens:
    file = folder / "keys.json"
    file.write_text(keys())
    return SignedTokens(BearerSettings(file.as_uri(), **more), Time(wall_s=lambda: NOW_S))


def test_a_signed_token_says_whose_it_is_and_when_it_ends(tmp_path: Path) -> None:
    tokens = judge(tmp_path)
    good = TokenClaims("alice", (NOW_S + 60) * 1000)
    assert tokens.check(token()) == good
    assert tokens.check(token(RSA, "RS256", "r")) == good
    assert tokens.check(token(exp=NOW_S - 29)) == TokenClaims("alice", (NOW_S - 29) * 1000)
    strict = judge(tmp_path, audience=("kafka", "k"), issuer="https://i", name_claim="user")
    assert strict.check(token(user="bob", aud=["x", "k"], iss="https://i")).name == "bob"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: "planted", "the token is no signed JWT"),
        (lambda: token(None, "none"), "the token is not signed in a way that is taken"),
        (lambda: token("s" * 32, "HS256"), "the token is not signed in a way that is taken"),
        (lambda: token(OTHER), "the token is not valid: InvalidSignatureError"),
        (lambda: token(kid="b"), "the token names a key that is not known"),
        (lambda: token("s" * 32, "HS256", "shared"), "the token is not signed in a way"),
        (lambda: token(RSA, "PS256", "r"), "the token is signed in another way than its key"),
        (lambda: token(RSA, "RS256", "a"), "the token is signed in another way than its key"),
        (lambda: token()[:-9], "the token is no signed JWT"),
        (lambda: token(exp=NOW_S - 30), "the token of 'alice' is over"),
        (lambda: token(iat=NOW_S + 31), "the token of 'alice' is from the future"),
        (lambda: token(nbf=NOW_S + 31), "the token of 'alice' is from the future"),
        (lambda: token(exp=None), "the token does not say when it was issued and ends"),
        (lambda: token(iat=None), "the token does not say when it was issued and ends"),
        (lambda: token(exp=1e300), "the token does not say when it was issued and ends"),
        (lambda: token(sub=None), "the token names nobody in sub"),
        (lambda: token(sub=7), "the token names nobody in sub"),
    ],
)
def test_any_other_token_is_refused(tmp_path: Path, make: Callable[[], str], reason: str) -> None:
    made = make()
    found = judge(tmp_path).check(made)
    assert isinstance(found, TokenRefused)
    assert found.reason.startswith(reason)
    assert made not in repr(found)


def test_audience_and_issuer_are_asked_for(tmp_path: Path) -> None:
    tokens = judge(tmp_path, audience=("kafka",), issuer="i")
    reasons = [
        tokens.check(each).reason  # type: ignore[union-attr]
        for each in (token(iss="i"), token(iss="i", aud="x"), token(aud="kafka", iss="j"))
    ]
    assert reasons == [
        "the token of 'alice' is for another audience",
        "the token of 'alice' is for another audience",
        "the token of 'alice' is of another issuer",
    ]


async def test_keys_at_a_url_are_read_again_where_a_token_names_another(lines: list[Any]) -> None:
    asked: list[str] = []

    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b"nonsense" if len(asked) == 1 else keys().encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Issuer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        clock_s = [100.0]
        time = Time(wall_s=lambda: NOW_S, monotonic_s=lambda: clock_s[0])
        url = f"http://127.0.0.1:{server.server_port}/keys"
        tokens = SignedTokens(BearerSettings(url), time)
        await eventually(lambda: lines)
        assert lines[0]["event"] == "the keys of tokens could not be read"
        await eventually(lambda: not tokens._is_reading)
        for _ in range(5):
            assert isinstance(tokens.check(token()), TokenRefused)
        assert len(asked) == 1, "strangers do not make it ask again and again"
        clock_s[0] += 11
        assert isinstance(tokens.check(token()), TokenRefused)
        await eventually(lambda: isinstance(tokens.check(token()), TokenClaims))
        assert asked == ["/keys"] * 2
    finally:
        server.shutdown()
        server.server_close()


def settings(folder: Path) -> dict[str, str]:
    file = folder / "keys.json"
    file.write_text(keys())
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
    }


def of_now(**claims: Any) -> str:
    now_s = Time().now().wall_ms // 1000
    return token(iat=now_s, exp=now_s + 600, **claims)


async def test_librdkafka_logs_in_by_a_token(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, _):
        client = {
            "bootstrap.servers": f"127.0.0.1:{port_of(broker)}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (of_now(), Time().now().wall_ms / 1000 + 600),
        }

        def produce() -> int:
            producer = Producer(client)
            producer.produce("t", b"x")
            left: int = producer.flush(20)
            return left

        assert await asyncio.to_thread(produce) == 0


async def test_a_forged_token_is_told_in_two_messages(tmp_path: Path, lines: list[Any]) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, _):
        good, bad = await come(broker), await come(broker)
        for client in (good, bad):
            await client.call(HANDSHAKE, 1, mechanism="OAUTHBEARER")
        first = b"n,,\x01auth=Bearer " + of_now().encode() + b"\x01\x01"
        answer = await good.call(AUTHENTICATE, 1, auth_bytes=first)
        assert answer["error_code"] == 0
        assert 500_000 < answer["session_lifetime_ms"] <= 600_000, "no longer than the token"
        assert (await good.call(GROUPS, 0))["error_code"] == 0

        forged = of_now(key=OTHER)
        first = b"n,,\x01auth=Bearer " + forged.encode() + b"\x01\x01"
        told = await bad.call(AUTHENTICATE, 1, auth_bytes=first)
        assert (told["error_code"], told["auth_bytes"]) == (0, b'{"status":"invalid_token"}')
        refused = await bad.call(AUTHENTICATE, 1, auth_bytes=b"\x01")
        assert refused["error_code"] == SASL_AUTHENTICATION_FAILED
        assert refused["error_message"] == '{"status":"invalid_token"}'
        assert await all_until_closed(bad) == b""
    text = "\n".join(map(repr, lines))
    assert "InvalidSignatureError" in text
    assert forged not in text
    assert forged.split(".")[2] not in text


async def test_who_does_not_hear_that_its_token_is_forged_is_told_of(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path / "data", settings(tmp_path)) as (broker, _):
        client = await come(broker)
        await client.call(HANDSHAKE, 1, mechanism="OAUTHBEARER")
        first = b"n,,\x01auth=Bearer " + of_now(key=OTHER).encode() + b"\x01\x01"
        assert (await client.call(AUTHENTICATE, 1, auth_bytes=first))["error_code"] == 0
        client.send(GROUPS, 0)
        assert await all_until_closed(client)
    (line,) = [each for each in lines if each["event"] == "login failed"]
    assert line["reason"] == (
        "the token is not valid: InvalidSignatureError; ListGroups came in the middle of the login"
    )


@pytest.mark.parametrize("url", ["", "http://example.com/keys", "file:///nowhere/keys.json"])
async def test_without_keys_there_is_no_start(tmp_path: Path, url: str) -> None:
    given = {**settings(tmp_path), "sasl.oauthbearer.jwks.endpoint.url": url}
    with pytest.raises(CannotListen):
        async with broker_with_logins(tmp_path / "data", given):
            raise AssertionError("it started")
