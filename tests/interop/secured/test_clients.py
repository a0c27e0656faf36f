"""Real clients of Python on each protocol and mechanism, with the least rights that they need."""

from __future__ import annotations

import re

import pytest

from tests.brokers import KIND
from tests.interop.secured.brokers import Secured, called
from tests.interop.secured.clients import LIBRARIES, who
from tests.interop.secured.least_rights import GROUPS, LOGINS, READER, WRITER, make_topic

pytestmark = pytest.mark.interop
VALUES = ["a", "b", "c"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_a_writer_writes_and_a_reader_reads(
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
def test_a_reader_does_not_write_nor_a_writer_read(
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

    # A producer that asks for its id first is refused there: nothing lets it write anywhere.
    assert re.search(r"(?i)(topic|cluster)_?authorization_?failed", repr(written.value))
    assert re.search(r"(?i)group_?authorization_?failed", repr(read.value))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_wrong_password_or_a_forged_token_lets_nobody_in(
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
        # It takes what is wrong with its token for a yes, and is cut off at its next request.
        told = "KafkaConnectionError: Connection at [0-9.:]+ closed"
    if KIND == "kafka":
        # It closes at times before its answer is read; and aiokafka believes what it says of 34.
        told += "|socket disconnected|No broker metadata found"
    # Two of the three say it in their logs only.
    assert re.search(told, repr(refused.value) + caplog.text)
