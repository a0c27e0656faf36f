"""Tests the keys that sign tokens: their sources, their refresh, and invalid documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.authentication.bearer import BearerSettings, SignedTokens, bearer_settings
from broker.config.config import BadConfig
from broker.config.sources import load
from broker.net.sockets import CannotListen
from broker.time import Time
from security.sasl.oauthbearer import TokenClaims, TokenRefused
from tests.broker.authentication.bearers import (
    HANDLER,
    NOW_S,
    Issuer,
    keys,
    settings,
    signed_tokens,
    token,
)
from tests.broker.authentication.letting_in import broker_with_logins
from tests.broker.edge import eventually
from tests.certificates import Authority

UNREAD = "signing keys of tokens can't be fetched"
ODD = {"kty": "EC", "kid": ["a", "list"]}


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


class Clock:
    def __init__(self) -> None:
        self.s = 100.0
        self.time = Time(wall_s=lambda: NOW_S, monotonic_s=lambda: self.s)


def accepts_token(tokens: SignedTokens) -> bool:
    return isinstance(tokens.check(token()), TokenClaims)


async def fetch_error(lines: list[Any], tokens: SignedTokens) -> str:
    """Returns the logged reason why the keys could not be fetched."""
    await eventually(lambda: lines)
    await eventually(lambda: not tokens._is_reading)
    (line,) = lines
    assert line["event"] == UNREAD
    assert not accepts_token(tokens)
    return str(line["error"])


async def test_keys_are_fetched_again_when_a_token_names_an_unknown_key(lines: list[Any]) -> None:
    clock = Clock()
    with Issuer(b"nonsense", keys().encode()).serving() as issuer:
        tokens = SignedTokens(BearerSettings(issuer.url), clock.time)
        await fetch_error(lines, tokens)
        for _ in range(5):
            assert isinstance(tokens.check(token()), TokenRefused)
        assert len(issuer.asked) == 1, "strangers do not make it ask again and again"
        clock.s += 11
        assert isinstance(tokens.check(token()), TokenRefused)
        await eventually(lambda: accepts_token(tokens))
        assert issuer.asked == ["/keys"] * 2


async def test_keys_are_fetched_again_after_the_refresh_period() -> None:
    clock = Clock()
    with Issuer(keys().encode(), b'{"keys": [{"kty": "RSA"}]}').serving() as issuer:
        tokens = SignedTokens(BearerSettings(issuer.url, refresh_ms=60_000), clock.time)
        await eventually(lambda: accepts_token(tokens))
        clock.s += 59.9
        assert accepts_token(tokens)
        assert not tokens._is_reading
        clock.s += 0.1
        issuer.may_answer.clear()
        assert accepts_token(tokens), "nobody waits for what is being read"
        issuer.may_answer.set()
        await eventually(lambda: not accepts_token(tokens))  # the issuer has withdrawn its key
        assert issuer.asked == ["/keys"] * 2


def configured(url: str) -> BearerSettings:
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "7000",
    }
    config = load(None, {}, [f"{name}={value}" for name, value in given.items()], {})
    return bearer_settings(config.of_mechanism("SASL_PLAINTEXT", "OAUTHBEARER"))


async def test_keys_are_fetched_by_https_from_an_issuer_with_a_trusted_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    issued = authority.issue("issuer")
    with Issuer(keys().encode()).serving(issued.pem) as issuer:
        assert issuer.url.startswith("https:")
        clock = Clock()
        tokens = SignedTokens(configured(issuer.url), clock.time)
        await eventually(lambda: accepts_token(tokens))
        clock.s += 7
        assert accepts_token(tokens)
        await eventually(lambda: len(issuer.asked) == 2)


@pytest.mark.parametrize(
    ("address", "believed", "why"),
    [("127.0.0.1", False, "certificate verify failed"), ("127.0.0.2", True, "IP address mismatch")],
)
async def test_keys_are_not_fetched_from_an_issuer_with_an_invalid_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[Any],
    address: str, believed: bool, why: str,
) -> None:  # fmt: skip
    authority = Authority(tmp_path)
    trusted = authority if believed else Authority(tmp_path, "another authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.certificate))
    with Issuer(keys().encode()).serving(authority.issue("issuer", address).pem) as issuer:
        tokens = SignedTokens(BearerSettings(issuer.url), Clock().time)
        said = await fetch_error(lines, tokens)
        assert why in said
        assert issuer.asked == []


async def test_key_fetch_does_not_follow_a_redirect_from_https_to_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with Issuer(keys().encode()).serving() as plain:
        redirecting = Issuer(b"", location=plain.url)
        with redirecting.serving(authority.issue("issuer").pem):
            tokens = SignedTokens(BearerSettings(redirecting.url), Clock().time)
            assert "the server redirects the request to a URL without TLS" in await fetch_error(
                lines, tokens
            )
        assert (redirecting.asked, plain.asked) == (["/keys"], [])


async def test_key_fetch_follows_a_redirect_to_https(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    certificate = authority.issue("issuer").pem
    redirecting = Issuer(b"")
    with Issuer(keys().encode()).serving(certificate) as there, redirecting.serving(certificate):
        redirecting.location = there.url
        tokens = SignedTokens(BearerSettings(redirecting.url), Clock().time)
        await eventually(lambda: accepts_token(tokens))


@pytest.mark.parametrize(
    "answer",
    [
        b"this is no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{",
        b'{"keys": ' + b"[" * 100_000,
        b'{"keys": [{"kty": "oct", "kid": "a"}]}',
        json.dumps({"keys": [ODD]}).encode(),
    ],
)
async def test_invalid_response_of_the_token_issuer_is_logged(
    lines: list[Any], answer: bytes
) -> None:
    with Issuer(answer).serving() as issuer:
        assert await fetch_error(lines, SignedTokens(BearerSettings(issuer.url), Clock().time))


def test_signing_key_is_ignored_when_its_id_is_not_a_string(tmp_path: Path) -> None:
    tokens = signed_tokens(tmp_path, keys(ODD, {**ODD, "kid": {}}))
    assert accepts_token(tokens)


@pytest.mark.parametrize("text", [json.dumps({"keys": [ODD]}), '{"keys": ' + "[" * 100_000])
def test_key_file_without_usable_keys_is_a_config_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig, match="has no signing keys"):
        signed_tokens(tmp_path, text)


@pytest.mark.parametrize("url", ["", "http://example.com/keys", "file:///nowhere/keys.json"])
async def test_start_fails_when_the_jwks_endpoint_url_is_unusable(tmp_path: Path, url: str) -> None:
    given = {**settings(tmp_path), "sasl.oauthbearer.jwks.endpoint.url": url}
    with pytest.raises(CannotListen):
        async with broker_with_logins(tmp_path / "data", given):
            raise AssertionError("it started")
