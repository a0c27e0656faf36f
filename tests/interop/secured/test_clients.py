"""Python clients with each security protocol and SASL mechanism. Their users have only the ACLs
that they need."""

from __future__ import annotations

import re

import pytest

from tests.brokers import KIND
from tests.interop.secured.brokers import Secured, called
from tests.interop.secured.clients import LIBRARIES, who
from tests.interop.secured.least_rights import GROUPS, LOGINS, READER, WRITER, make_topic

pytestmark = [pytest.mark.interop, pytest.mark.proves("security 24")]
VALUES = ["a", "b", "c"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_producer_acls_allow_to_produce_and_consumer_acls_allow_to_consume(
    secured: Secured, name: str, library: str, protocol: str, mechanism: str | None
) -> None:
    topic, group = make_topic(secured, name), f"{GROUPS}{name}"
    client = LIBRARIES[library]

    client.send(who(secured, protocol, mechanism, WRITER), topic, VALUES)
    received = client.receive(who(secured, protocol, mechanism, READER), topic, group, 3)

    assert received == VALUES
    answer = called(secured, "OffsetFetch", {"group_id": group, "topics": None}, 5)
    assert [p["committed_offset"] for t in answer["topics"] for p in t["partitions"]] == [3]


@pytest.mark.parametrize("library", LIBRARIES)
def test_consumer_acls_do_not_allow_produce_and_producer_acls_do_not_allow_consume(
    secured: Secured, name: str, library: str
) -> None:
    topic, group = make_topic(secured, name), f"{GROUPS}{name}"
    client = LIBRARIES[library]
    reader, writer = (
        who(secured, "SASL_PLAINTEXT", "SCRAM-SHA-256", each) for each in (READER, WRITER)
    )

    with pytest.raises(Exception) as written:  # noqa: PT011 - each library has its own
        client.send(reader, topic, VALUES)
    with pytest.raises(Exception) as read:  # noqa: PT011
        client.receive(writer, topic, group, 1)

    # A producer that requests its producer id first is rejected there: it may write to no topic.
    assert re.search(r"(?i)(topic|cluster)_?authorization_?failed", repr(written.value))
    assert re.search(r"(?i)group_?authorization_?failed", repr(read.value))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_wrong_password_and_forged_token_are_rejected(
    secured: Secured,
    name: str,
    library: str,
    mechanism: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = make_topic(secured, name)
    wrong = secured.issuer.forged(WRITER) if mechanism == "OAUTHBEARER" else "wrong"
    stranger = who(secured, "SASL_SSL", mechanism, WRITER)._replace(password=wrong)

    with pytest.raises(Exception) as refused:  # noqa: PT011
        LIBRARIES[library].send(stranger, topic, VALUES)

    told = r"(?i)authentication_?failed|_AUTHENTICATION"
    if (library, mechanism) == ("aiokafka", "OAUTHBEARER"):
        # kafka-python treats a token error as success, and is disconnected at its next request.
        told = "KafkaConnectionError: Connection at [0-9.:]+ closed"
    if KIND == "kafka":
        # It sometimes closes before its response is read; and aiokafka believes its advertised
        # error 34.
        told += "|socket disconnected|No broker metadata found"
    # Two of the three report it only in their logs.
    assert re.search(told, repr(refused.value) + caplog.text)
