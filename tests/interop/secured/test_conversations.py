"""To clients that are not logged in, Muster returns the same responses as Kafka 4.3.1."""

from __future__ import annotations

import pytest

from tests.brokers import KIND
from tests.interop.secured.brokers import Secured
from tests.interop.secured.conversations import (
    Conversation,
    gist,
    hear,
    hello_of_tls,
    is_cut_off,
)
from tests.interop.secured.table.logins import CONVERSATIONS

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 22")]


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=[each.name for each in CONVERSATIONS])
def test_login_messages_get_the_same_responses_as_from_kafka(
    kafka: Secured, request: pytest.FixtureRequest, conversation: Conversation
) -> None:
    theirs = hear(kafka, conversation)

    assert gist(theirs) == conversation.expected
    if KIND == "muster":
        assert hear(request.getfixturevalue("secured"), conversation) == theirs


@pytest.mark.parametrize(
    ("listener", "data"),
    [
        ("SSL", b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\0\0"),
        ("SASL_SSL", b"GET / HTTP/1.1\r\n\r\n"),
        ("PLAINTEXT", hello_of_tls()),
        ("SASL_PLAINTEXT", hello_of_tls()),
    ],
)
def test_bytes_of_another_protocol_close_the_connection(
    secured: Secured, listener: str, data: bytes
) -> None:
    assert is_cut_off(secured, listener, data)
