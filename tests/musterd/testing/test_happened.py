"""What happened is told as values, and what did not come as a sentence."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from musterd.testing import Muster
from tests.musterd.testing.clients import client, produce


def test_requests_are_told_in_their_order_with_their_answers(muster: Muster) -> None:
    muster.create_topic("orders")
    produce(muster, "orders", "one")
    muster.fail("Metadata", "INVALID_TOPIC_EXCEPTION", client_id="other", times=1)
    other = Producer(client(muster, "other"))
    other.list_topics("orders", timeout=30)

    seen = muster.requests(client_id="producer")
    [sent] = muster.requests(api="Produce")

    assert [each.seq for each in seen] == sorted(each.seq for each in seen)
    assert seen[0].api == "ApiVersions"
    assert {each.client_id for each in seen} == {"producer"}
    assert sent in seen
    assert sent.error is None
    assert sent.response is not None
    assert "orders" in str(sent.request)
    assert any(each.error for each in muster.requests(client_id="other", api="Metadata"))


def test_all_requests_are_told_however_many(muster: Muster) -> None:
    client_of_admin = AdminClient(client(muster, "asking"))
    for _ in range(1100):
        client_of_admin.list_topics(timeout=30)

    seen = muster.requests(client_id="asking")

    assert len(seen) > 1100
    assert [each.seq for each in seen] == sorted({each.seq for each in seen})
