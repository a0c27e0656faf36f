"""Tests of the SASL exchange on a connection: the response to each frame, and the resulting
login."""

from __future__ import annotations

import pytest

from protocol.errors import (
    ILLEGAL_SASL_STATE,
    NONE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
)
from protocol.now import Now
from security.principal import user
from security.sasl.exchange import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Exchange,
    Reply,
    Then,
)
from security.sasl.plain import log_in, tried_name
from security.sasl.steps import Accepted, Challenge, Refused

METADATA = 3
START = Now(1_000, 5_000)
USERS = {"alice": "secret", "bob": "his"}
GOOD, BAD, BOBS = (
    {"auth_bytes": each} for each in (b"\0alice\0secret", b"\0alice\0x", b"\0bob\0his")
)


class Plain:
    def tries(self, message):
        return tried_name(message)

    def step(self, message):
        return log_in(message, USERS)


class Slow:
    """A SASL mechanism with one challenge. It accepts user alice with a credential that expires at
    wall time 65,000 ms."""

    def tries(self, message):
        return None

    def step(self, message):
        if message == b"first":
            return Challenge(b"and?")
        return Accepted(b"done", "alice", 65_000) if message == b"final" else Refused("no")


def exchange(**session_ms):
    return Exchange({"PLAIN": Plain, "SLOW": Slow}, session_ms)


def handshake(one, mechanism="PLAIN", version=1, now=START):
    return one.request(SASL_HANDSHAKE, version, {"mechanism": mechanism}, now)


def authenticate(one, body=GOOD, now=START):
    return one.request(SASL_AUTHENTICATE, 2, body, now)


def logged_in(now=START, **session_ms):
    one = exchange(**session_ms)
    handshake(one)
    authenticate(one, now=now)
    return one


def test_attempted_user_name_is_read_only_from_an_authentication_request():
    one, token = exchange(PLAIN=60_000), GOOD["auth_bytes"]
    assert one.tries(token) is None
    handshake(one)
    assert one.tries(token) == "alice"
    authenticate(one)
    assert one.tries(token) is None
    one.renew(1, {"mechanism": "SLOW"}, START)
    assert one.tries(token) is None


def test_plain_login_requires_a_handshake_and_one_authentication_request():
    one = exchange()
    assert handshake(one) == Reply(
        Then.GO_ON, {"error_code": NONE, "mechanisms": ["PLAIN", "SLOW"]}
    )
    assert not one.takes_raw
    done = authenticate(one)
    assert done.then == Then.LOGGED_IN
    assert done.answer == {
        "error_code": NONE,
        "error_message": "",
        "auth_bytes": b"",
        "session_lifetime_ms": 0,
    }
    assert one.login == (user("alice"), "PLAIN", False, None)
    assert not one.is_under_way


def test_mechanism_with_a_challenge_requires_a_second_authentication_request():
    one = exchange()
    handshake(one, "SLOW")
    assert authenticate(one, {"auth_bytes": b"first"}).answer["auth_bytes"] == b"and?"
    assert one.is_under_way
    assert authenticate(one, {"auth_bytes": b"final"}).then == Then.LOGGED_IN


def test_sasl_tokens_have_no_request_header_after_handshake_version_0():
    one = exchange()
    handshake(one, version=0)
    assert one.takes_raw
    assert one.token(GOOD["auth_bytes"], START) == Reply(Then.LOGGED_IN, b"")
    assert not one.takes_raw
    other = exchange()
    handshake(other, version=0)
    refused = other.token(BAD["auth_bytes"], START)
    assert (refused.then, refused.answer) == (Then.FAIL, None)


def test_second_api_versions_request_is_served_only_after_error_unsupported_version():
    one = exchange()
    for error_code in (UNSUPPORTED_VERSION, NONE):
        assert one.request(API_VERSIONS, 3, {}, START) == Reply(Then.SERVE)
        one.served(error_code)
    assert one.request(API_VERSIONS, 3, {}, START).then == Then.CLOSE
    assert handshake(one).then == Then.GO_ON


@pytest.mark.parametrize("after", [(), (API_VERSIONS,)])
def test_request_before_the_login_fails_without_a_response(after):
    one = exchange()
    for key in after:
        one.request(key, 0, {}, START)
        one.served(NONE)
    reply = one.request(METADATA, 9, {}, START)
    assert (reply.then, reply.answer) == (Then.FAIL, None)
    assert (
        reply.reason
        == "Metadata arrived before the login: check that the client is configured for SASL"
    )


def test_error_about_an_unknown_mechanism_lists_the_enabled_mechanisms():
    reply = handshake(exchange(), "GSSAPI")
    assert reply.then == Then.FAIL
    assert reply.answer == {
        "error_code": UNSUPPORTED_SASL_MECHANISM,
        "mechanisms": ["PLAIN", "SLOW"],
    }


def test_another_request_during_the_login_returns_illegal_sasl_state():
    one = exchange()
    handshake(one)
    reply = one.request(METADATA, 9, {}, START)
    assert (reply.then, reply.error_code, reply.answer) == (Then.FAIL, ILLEGAL_SASL_STATE, {})


def test_refused_login_returns_the_error_text_of_the_mechanism_or_a_general_text():
    one = exchange()
    handshake(one)
    refused = authenticate(one, BAD)
    assert refused.then == Then.FAIL
    assert refused.answer["error_code"] == SASL_AUTHENTICATION_FAILED
    said = "Authentication failed: Invalid username or password"
    assert refused.answer["error_message"] == said
    slow = exchange()
    handshake(slow, "SLOW")
    assert authenticate(slow, {"auth_bytes": b"?"}).answer["error_message"] == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism"
        " SLOW"
    )


@pytest.mark.parametrize(
    ("mechanism", "session_ms", "lifetime_ms"),
    [
        ("PLAIN", {}, 0),
        ("PLAIN", {"PLAIN": 90_000}, 90_000),
        ("SLOW", {}, 60_000),
        ("SLOW", {"SLOW": 90_000}, 60_000),
        ("SLOW", {"SLOW": 10_000}, 10_000),
    ],
)
def test_sasl_session_lifetime_is_the_minimum_of_setting_and_credential_lifetime(
    mechanism, session_ms, lifetime_ms
):
    one = exchange(**session_ms)
    handshake(one, mechanism)
    body = GOOD if mechanism == "PLAIN" else {"auth_bytes": b"final"}
    assert authenticate(one, body).answer["session_lifetime_ms"] == lifetime_ms
    assert one.login.expires_ms == (START.mono_ms + lifetime_ms if lifetime_ms else None)


def test_sasl_reauthentication_is_accepted_at_most_once_a_second():
    one = logged_in(PLAIN=60_000)
    at = Now(1_500, 5_500)
    assert one.renew(1, {"mechanism": "PLAIN"}, at).then == Then.GO_ON
    assert authenticate(one, now=at).then == Then.LOGGED_IN
    assert one.login.expires_ms == 61_500
    assert one.renew(1, {"mechanism": "PLAIN"}, Now(2_499, 0)) is None
    assert one.renew(1, {"mechanism": "PLAIN"}, Now(2_500, 0)).then == Then.GO_ON


def test_sasl_reauthentication_of_a_login_without_expiry_is_not_accepted():
    assert logged_in().renew(1, {"mechanism": "PLAIN"}, START) is None


def test_sasl_reauthentication_as_another_user_is_refused():
    one = logged_in(PLAIN=60_000)
    one.renew(1, {"mechanism": "PLAIN"}, START)
    refused = authenticate(one, BOBS)
    assert refused.answer["error_message"] == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert one.login.principal == user("alice")


def test_sasl_reauthentication_with_another_mechanism_is_refused_at_the_next_frame():
    one = logged_in(PLAIN=60_000)
    assert one.renew(1, {"mechanism": "SLOW"}, START).then == Then.GO_ON
    closed = authenticate(one, {"auth_bytes": b"final"})
    assert (closed.then, closed.answer) == (Then.CLOSE, None)
    assert "is not supported for re-authentication of mechanism 'PLAIN'" in closed.reason


def test_sasl_reauthentication_with_an_unknown_mechanism_is_refused():
    one = logged_in(PLAIN=60_000)
    assert one.renew(1, {"mechanism": "X"}, START).error_code == UNSUPPORTED_SASL_MECHANISM
