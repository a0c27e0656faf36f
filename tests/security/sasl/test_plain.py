"""Tests of PLAIN logins. The error texts equal those of Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.jaas import parse_jaas
from security.sasl.plain import MESSAGE_BYTES_MAX, MODULE, log_in, tried_name, users_of
from security.sasl.steps import Accepted, Refused

USERS = {"alice": "secret", "bob": "pässword"}


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_login_with_the_right_password_succeeds(message):
    assert log_in(message, USERS) == Accepted(b"", "alice")


def test_password_is_compared_as_its_utf_8_bytes():
    assert log_in("\0bob\0pässword".encode(), USERS) == Accepted(b"", "bob")


@pytest.mark.parametrize(
    ("message", "said", "reason"),
    [
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1", None),
        (b"a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4", None),
        (b"\0\0x", "Authentication failed: username not specified", None),
        (b"\0alice\0", "Authentication failed: password not specified", None),
        (
            b"\0alice\0wrong",
            "Authentication failed: Invalid username or password",
            "wrong password for user 'alice'",
        ),
        (
            b"\0carol\0x",
            "Authentication failed: Invalid username or password",
            "unknown PLAIN user 'carol'",
        ),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from"
            " username",
            None,
        ),
    ],
)
def test_refused_login_has_the_text_that_kafka_sends(message, said, reason):
    assert log_in(message, USERS) == Refused(reason or said, said)


class Compared(dict[str, str]):
    """An empty mapping of user names to passwords that records each looked-up name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def get(self, name, default=None):
        self.names.append(name)
        return default


@given(st.binary(max_size=30) | st.lists(st.binary(max_size=4), max_size=4).map(b"\0".join))
def test_user_name_in_a_plain_login_error_is_the_name_whose_password_was_checked(message):
    users = Compared()
    log_in(message, users)
    assert users.names in ([], [tried_name(message)])


def test_user_name_is_not_read_from_a_plain_message_above_the_size_limit():
    assert tried_name(b"\0alice\0" + b"x" * MESSAGE_BYTES_MAX) is None


def test_message_that_is_not_utf_8_is_refused():
    assert log_in(b"\0\xff\0\xff", USERS) == Refused("the PLAIN message is not UTF-8")


def test_plain_users_are_read_from_options_of_the_jaas_login_module():
    text = f'{MODULE} required username="broker" user_alice="secret" user_user_x="y";'
    assert users_of(parse_jaas(text).options) == {"alice": "secret", "user_x": "y"}
