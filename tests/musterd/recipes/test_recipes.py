"""Tests of the recipes in docs/test/testing-with-muster.md with each of the four client libraries.

A recipe about the behaviour of a worker also runs with a careless worker, which loses or repeats
records. A recipe about the behaviour of the broker fails if the broker behaves differently.
"""

from __future__ import annotations

import pytest

from musterd.testing import Muster
from tests import waiting
from tests.musterd.recipes.conftest import Shop
from tests.musterd.recipes.driven import Member, Refused

ORDERS = [f"order-{number}" for number in range(6)]
CAREFUL = pytest.mark.parametrize("careful", [True, False], ids=["careful", "careless"])
REFUSED = {
    "confluent-kafka": "UNKNOWN_MEMBER_ID",
    "aiokafka": "CommitFailedError",
    "kafka-python": "CommitFailedError",
    "java": "CommitFailedException",
}
"""The error of a commit by a member that is no longer in the group, by client library."""
NO_OFFSET = {
    "confluent-kafka": "_AUTO_OFFSET_RESET",
    "aiokafka": "NoOffsetForPartitionError",
    "kafka-python": "NoOffsetForPartitionError",
    "java": "NoOffsetForPartitionException",
}
"""By client library: the error that a consumer raises if no offset is committed and
auto.offset.reset is none."""
TELLS_OF_LOSS = {"confluent-kafka", "kafka-python", "java"}
"""The client libraries that report lost partitions as lost. aiokafka reports lost partitions as
revoked."""


def bill(member: Member, count: int) -> list[str]:
    """Polls and processes until ``count`` records are processed. Returns the values of the
    records."""
    done: list[str] = []
    while len(done) < count:
        member.next_batch()
        done += member.work()
    return done


def polls_until(member: Member, what: str) -> None:
    """Polls until the member has the rebalance event ``what``, and asserts that no record arrives
    before this event."""

    def told() -> bool:
        polled = member.fetch()
        if any(partitions for event, partitions in member.events if event == what):
            return True
        assert polled == []
        return False

    waiting.until(f"{member.name} is told {what}", told, tolerate=())


def fetches_until(shop: Shop[Muster], member: Member) -> None:
    """Polls until the member has sent a Fetch request. The member then knows its position."""

    def asked() -> bool:
        assert member.fetch() == []
        return bool(shop.muster.requests(client_id=member.name, api="Fetch"))

    waiting.until(f"{member.name} asks for records", asked, tolerate=())


@pytest.mark.campaign
@CAREFUL
def test_careful_worker_commits_processed_records_before_a_revocation(
    shop: Shop[Muster], careful: bool
) -> None:
    shop.orders(*ORDERS[:4])
    first = shop.member("first", careful=careful)
    assert bill(first, 4) == ORDERS[:4]

    assert not shop.muster.committed("billing")

    shop.muster.rebalance("billing")
    polls_until(first, "revoked")
    assert bool(shop.muster.committed("billing")) == careful

    shop.close()
    shop.orders(ORDERS[4])
    assert bill(shop.member("second"), 1) == [ORDERS[4 if careful else 0]]


@CAREFUL
def test_careful_worker_sends_a_poison_record_to_a_dead_letter_topic(
    shop: Shop[Muster], careful: bool
) -> None:
    shop.orders("order-0", "poison-1", "order-2")
    first = shop.member("first", careful=careful)
    assert bill(first, 1) == ["order-0"]
    first.commit()
    if careful:
        assert bill(first, 1) == ["order-2"]
        first.commit()
        assert [each.value for each in shop.muster.records("orders.dead")] == [b"poison-1"]
        assert shop.muster.committed("billing").offset("orders") == 3
        return
    for name in ("first", "second"):  # each member is stuck at the poison record
        with pytest.raises(Refused, match="Poison"):
            bill(first if name == "first" else shop.member(name, careful=False), 1)
        shop.close()


@CAREFUL
def test_worker_avoids_double_work_if_it_drops_its_batch_when_a_commit_is_rejected(
    shop: Shop[Muster], careful: bool
) -> None:
    shop.orders(*ORDERS)
    first = shop.member("first", careful=careful, batch=6, heartbeat_ms=30_000, role="crashes")
    assert len(first.next_batch()) == 6
    assert first.work_and_commit(2) == (ORDERS[:2], None)

    shop.muster.expire("first")  # the member has not noticed the end of its session
    by_second = bill(shop.member("second"), 4)
    by_first, refused = first.work_and_commit()
    first.worker.kill()  # a close would take 10 s: aiokafka rejoins in the background

    assert refused == REFUSED[shop.client]
    assert by_second == ORDERS[2:]
    assert by_first == (ORDERS[2:3] if careful else ORDERS[2:]), "billed twice"


def test_records_since_the_last_commit_are_reread_after_a_worker_crash(shop: Shop[Muster]) -> None:
    shop.orders(*ORDERS)
    first = shop.member("first", role="crashes")
    bill(first, 3)
    first.commit()
    assert bill(first, 2) == ORDERS[3:5]
    first.worker.kill()
    assert [each.client_id for each in shop.muster.members("billing")] == ["first"]

    shop.muster.time.advance(minutes=1)  # the session of the dead member expires

    assert bill(shop.member("second"), 3) == ORDERS[3:]


def test_commits_survive_a_crash_of_the_broker(shop: Shop[Muster]) -> None:
    shop.orders(*ORDERS)
    first = shop.member("first", careful=False)
    bill(first, 3)
    first.commit()
    bill(first, 1)
    shop.muster.kill()
    shop.muster.restart()
    assert bill(first, 1) == ORDERS[4:5], "the worker continues after the restart"
    shop.close()
    shop.muster.time.advance(minutes=1)  # expire the session: librdkafka did not leave the group
    assert bill(shop.member("second"), 3) == ORDERS[3:]


def test_session_expires_when_the_clock_is_advanced(shop: Shop[Muster]) -> None:
    shop.orders(*ORDERS[:3])
    first = shop.member("first", careful=False)
    bill(first, 3)

    shop.muster.time.advance(minutes=1)

    assert not shop.muster.members("billing")
    assert any("session" in each.sentence for each in shop.muster.journal("billing"))
    polls_until(first, "lost" if shop.client in TELLS_OF_LOSS else "revoked")
    shop.close()
    assert bill(shop.member("second"), 3) == ORDERS[:3], "nothing was committed"


def test_worker_finds_a_moved_coordinator_without_a_rebalance(shop: Shop[Muster]) -> None:
    shop.orders(*ORDERS[:2])
    first = shop.member("first")
    bill(first, 1)
    first.commit()
    asked = len(shop.muster.requests(client_id="first", api="FindCoordinator"))

    shop.muster.move_coordinator("billing")
    bill(first, 1)
    first.commit()

    assert len(shop.muster.requests(client_id="first", api="FindCoordinator")) > asked
    assert [what for what, partitions in first.events if partitions] == ["assigned"]
    assert shop.muster.committed("billing").offset("orders") == 2


@pytest.mark.campaign
@pytest.mark.parametrize("reset", ["none", "earliest", "latest"])
def test_worker_whose_offset_expired_follows_auto_offset_reset(
    shop: Shop[Muster], reset: str
) -> None:
    shop.orders(*ORDERS[:3])
    first = shop.member("first")
    bill(first, 2)
    first.commit()
    shop.close()
    shop.muster.time.advance(days=6)
    assert shop.muster.committed("billing").offset("orders") == 2
    shop.muster.time.advance(days=2)
    assert not shop.muster.committed("billing")

    second = shop.member("second", reset=reset)
    match reset:
        case "none":
            with pytest.raises(Refused) as refused:
                second.next_batch()
            assert refused.value.name == NO_OFFSET[shop.client]
        case "earliest":
            assert bill(second, 3) == ORDERS[:3], "two orders are processed again"
        case "latest":
            polls_until(second, "assigned")
            fetches_until(shop, second)
            shop.orders(ORDERS[3])
            assert bill(second, 1) == ORDERS[3:4], "one order is never processed"


def test_records_produced_on_a_full_disk_are_written_later_and_once(shop: Shop[Muster]) -> None:
    assert shop.orders(ORDERS[0]) == 1
    with shop.muster.disk_full():
        assert shop.orders(*ORDERS[1:5], within_s=0.2) == 0
        shop.muster.time.advance(minutes=1)
        assert len(shop.muster.records("orders")) == 1
        assert shop.muster.requests(api="Produce")[-1].error
    assert shop.orders() == 4
    assert shop.orders(ORDERS[5]) == 1
    assert [each.value.decode() for each in shop.muster.records("orders")] == ORDERS
