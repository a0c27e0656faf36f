"""Tests of the OAUTHBEARER mechanism: the client's message with a token, and the server's
responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.sasl.oauthbearer import OAuthBearerServer, TokenClaims, TokenRefused
from security.sasl.steps import Accepted, Challenge, Refused

TOKEN = "eyJh.bGci-_~+/=="


def check(token):
    if token == TOKEN:
        return TokenClaims("alice", 65_000)
    if token == "poor":
        return TokenRefused("lacks the scope kafka", "insufficient_scope", "kafka")
    return TokenRefused("its signature is wrong")


def first(token=TOKEN, authzid="", extensions=""):
    return f"n,{authzid},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


@pytest.mark.parametrize(
    "message",
    [
        first(),
        first(authzid="a=alice"),
        first(extensions="logicalCluster=lkc 1\x01"),
        b"n,,\x01x=y\x01auth=bearer  " + TOKEN.encode() + b"\x01\x01",
    ],
)
def test_valid_token_logs_its_user_in_until_the_token_expires(message):
    assert OAuthBearerServer(check).step(message) == Accepted(b"", "alice", 65_000)


def test_later_oauthbearer_messages_do_not_count_as_login_attempts_with_a_token():
    one = OAuthBearerServer(check)
    assert one.tries(first("bad")) == first("bad").decode()
    one.step(first("bad"))
    assert one.tries(b"\x01") is None


def test_server_sends_the_error_of_an_invalid_token_and_then_refuses_the_login():
    one = OAuthBearerServer(check)
    assert one.step(first("bad")) == Challenge(
        b'{"status":"invalid_token"}', "its signature is wrong"
    )
    assert one.step(b"\x01") == Refused("its signature is wrong", '{"status":"invalid_token"}')
    other = OAuthBearerServer(check)
    told = '{"status":"insufficient_scope","scope":"kafka"}'
    assert other.step(first("poor")) == Challenge(told.encode(), "lacks the scope kafka")
    assert other.step(first()) == Refused(
        "lacks the scope kafka; the client did not confirm the error message"
    )


def test_authorization_id_of_another_user_is_refused():
    refused = OAuthBearerServer(check).step(first(authzid="a=bob"))
    assert refused.to_client == (
        "Authentication failed: Client requested an authorization id that is different from the"
        " token's principal name"
    )


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
    ],
)
def test_malformed_token_message_is_refused(message):
    refused = OAuthBearerServer(check).step(message)
    assert isinstance(refused, Refused)
    assert refused.to_client is None


@given(st.binary(max_size=200))
def test_random_token_message_is_refused(message):
    assert isinstance(OAuthBearerServer(check).step(message), Refused)
