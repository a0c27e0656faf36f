"""Tests of the methods that return the state of a broker, and of the errors of waits that time
out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from musterd.testing import Committed, Muster, WaitedInVain
from tests.musterd.testing.clients import client, consuming, produce
from tests.waiting import until


def test_state_of_a_group_is_returned_by_the_methods_groups_members_and_committed(
    muster: Muster,
) -> None:
    muster.create_topic("orders", partitions=2)
    produce(muster, "orders", "one", "two", partition=0)
    with consuming(muster, "billing", name="till"):
        muster.wait_for("billing").caught_up()
        [group] = muster.groups()
        [member] = muster.members("billing")
        committed = muster.committed("billing")

    assert (group.group, group.state, group.members) == ("billing", "Stable", 1)
    assert (member.client_id, member.subscription) == ("till", ("orders",))
    assert member.assignment == (("orders", 0), ("orders", 1))
    assert committed["orders", 0].offset == 2
    assert abs(committed["orders", 0].committed_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert committed.lag == 0
    assert committed.offset("invoices") is None
    assert "orders-0 at 2 (lag 0)" in repr(committed)


def test_methods_about_a_group_return_empty_results_for_an_unknown_group(muster: Muster) -> None:
    assert muster.groups() == []
    assert muster.group("billing") is None
    assert muster.members("billing") == []
    assert muster.committed("billing") == Committed("billing", {})
    assert muster.journal("billing") == []


def test_journal_has_the_causes_of_rebalances(muster: Muster) -> None:
    muster.create_topic("orders")
    with consuming(muster, "billing"):
        muster.wait_for("billing").stable(members=1)

    events = muster.journal("billing")

    assert events == sorted(events, key=lambda event: event.at_ms)
    assert any("joined" in str(event) for event in events)


def test_requests_are_returned_in_order_with_their_responses(muster: Muster) -> None:
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


def test_method_requests_returns_all_requests_when_they_need_several_http_responses(
    muster: Muster,
) -> None:
    client_of_admin = AdminClient(client(muster, "asking"))
    for _ in range(1100):
        client_of_admin.list_topics(timeout=30)

    seen = muster.requests(client_id="asking")

    assert len(seen) > 1100
    assert [each.seq for each in seen] == sorted({each.seq for each in seen})


def test_method_records_returns_keys_values_headers_and_timestamps(muster: Muster) -> None:
    muster.create_topic("orders", partitions=2)
    producer = Producer(client(muster, "producer"))
    producer.produce("orders", b"\xff\x00", b"key", 1, headers=[("a", b"b"), ("c", None)])
    producer.produce("orders", None, b"key", 1)
    assert producer.flush(30) == 0

    one, two = muster.records("orders")

    assert (one.partition, one.offset, one.key, one.value) == (1, 0, b"key", b"\xff\x00")
    assert one.headers == (("a", b"b"), ("c", None))
    assert (two.offset, two.value) == (1, None)
    assert abs(one.timestamp - datetime.now(UTC)) < timedelta(minutes=1)
    assert muster.records("orders", 0) == []
    assert muster.records("orders", 1) == [one, two]


def test_method_records_returns_more_records_than_fit_into_one_response(muster: Muster) -> None:
    muster.create_topic("orders")
    produce(muster, "orders", *map(str, range(3000)))

    assert [record.offset for record in muster.records("orders")] == list(range(3000))


# Waits


def test_error_of_a_timed_out_wait_describes_the_group(muster: Muster) -> None:
    muster.create_topic("orders")
    with pytest.raises(WaitedInVain, match=r"group does not exist; existing groups: none"):
        muster.wait_for("billing", timeout_s=0).stable()
    with pytest.raises(WaitedInVain, match="does not exist and has never existed"):
        muster.wait_for("billing", timeout_s=0).empty()

    produce(muster, "orders", "one")
    with consuming(muster, "billing", name="till"):
        muster.wait_for("billing").committed("orders", 0, at_least=1)
        with pytest.raises(WaitedInVain) as stable:
            muster.wait_for("billing", timeout_s=0.05).stable(members=3)
        with pytest.raises(WaitedInVain) as committed:
            muster.wait_for("billing", timeout_s=0.05).committed("orders", 0, at_least=9)
        with pytest.raises(WaitedInVain) as empty:
            muster.wait_for("billing", timeout_s=0.05).empty()
    muster.wait_for("billing").empty()

    said = str(stable.value)
    assert said.startswith(
        "timeout after 0.05 s: waited until group 'billing' is stable with 3 members, but the group"
        " is Stable with 1 member, generation 1"
    )
    assert "of till on 127.0.0.1 has orders-0" in said
    assert "committed: orders-0 at 1 (lag 0)" in said
    assert "last: " in said
    assert "has committed offset 9 or higher in orders-0, but the group has committed" in str(
        committed.value
    )
    assert "has no members, but the group is Stable with 1 member" in str(empty.value)


def test_error_of_a_timed_out_wait_mentions_a_frozen_clock(muster: Muster) -> None:
    with muster.time.freeze(), pytest.raises(WaitedInVain, match=r"clock is frozen.*time\.run"):
        muster.wait_for("billing", timeout_s=0).stable()


def test_method_caught_up_waits_until_every_nonempty_partition_is_fully_committed(
    muster: Muster,
) -> None:
    muster.create_topic("orders", partitions=3)
    produce(muster, "orders", "one", partition=1)
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**client(muster, "till"), **settings})
    consumer.subscribe(["orders"])
    read = consumer.poll(30)
    assert read is not None

    with pytest.raises(WaitedInVain, match="no committed offset for orders-1, which has records"):
        muster.wait_for("billing", timeout_s=0.05).caught_up()
    consumer.commit(read, asynchronous=False)
    assert muster.wait_for("billing").caught_up().offset("orders", 1) == 1

    produce(muster, "orders", "two", partition=1)
    with pytest.raises(WaitedInVain, match=r"orders-1 at 1 \(lag 1\)"):
        muster.wait_for("billing", timeout_s=0.05).caught_up()
    consumer.close()


def test_method_caught_up_waits_for_the_end_of_a_rebalance(muster: Muster) -> None:
    muster.create_topic("orders")
    produce(muster, "orders", "one")
    with consuming(muster, "billing"):
        with muster.delay("SyncGroup", 3_600_000):
            until("a SyncGroup waits", lambda: _last_of(muster, "SyncGroup") == "waits")
            with pytest.raises(WaitedInVain, match="but the group is CompletingRebalance"):
                muster.wait_for("billing", timeout_s=0.05).caught_up()
        assert muster.wait_for("billing").caught_up().offset("orders") == 1


def _last_of(muster: Muster, api: str) -> str | None:
    requests = muster.requests(api=api)
    return requests[-1].outcome if requests else None
