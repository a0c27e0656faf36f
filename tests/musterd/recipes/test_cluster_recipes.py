"""The recipes of docs/test/clusters.md with confluent-kafka, aiokafka and the Java client.

Each recipe runs twice. In the second run, it lacks the setting or the code that the recipe
explains, and the test shows the damage.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from musterd.testing import MusterCluster
from tests import waiting
from tests.musterd.recipes.conftest import JAVA, Shop
from tests.musterd.recipes.driven import Member, Pool

pytestmark = pytest.mark.campaign
CAREFUL = pytest.mark.parametrize("careful", [True, False], ids=["careful", "careless"])
CLIENTS = ("confluent-kafka", "aiokafka", pytest.param("java", marks=JAVA))
TOO_FEW_REPLICAS = {
    "confluent-kafka": "NOT_ENOUGH_REPLICAS",
    "aiokafka": "NotEnoughReplicasError",
    "java": "NotEnoughReplicasException",
}
"""By client: the error of a record that the leader refuses because of min.insync.replicas."""
END = "end"
"""The value of the record up to which `read` reads."""

Cluster = Shop[MusterCluster]


@pytest.fixture(scope="module")
def started() -> Iterator[MusterCluster]:
    with MusterCluster() as cluster:
        yield cluster


@pytest.fixture(params=CLIENTS)
def shop(started: MusterCluster, pool: Pool, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """An empty cluster without topics, and the workers of one client library."""
    started.reset()
    made = Shop(started, pool, request.param)
    yield made
    made.close()


def stored(shop: Cluster) -> list[str]:
    """Returns the values of the records that consumers with read_uncommitted get."""
    return [each.value.decode() for each in shop.muster.records("orders") if each.value]


def bill(member: Member, count: int, *, and_commit: bool = False) -> list[str]:
    """Polls and processes until ``count`` records are processed, and returns their values."""
    done: list[str] = []
    while len(done) < count:
        member.next_batch()
        if and_commit:
            values, refused = member.work_and_commit()
            assert refused is None
        else:
            values = member.work()
        done += values
    return done


def read(shop: Cluster, isolation: str) -> list[str]:
    """Produces the record END and reads the topic with ``isolation`` up to this record. Returns the
    values of all other records."""
    assert shop.orders(END) == 1
    reader = shop.member("reader", group="audit", batch=100, isolation=isolation)
    values: list[str] = []
    while END not in values:
        values += bill(reader, 1)
    return values[:-1]


@CAREFUL
def test_acknowledged_record_survives_the_loss_of_its_leader_with_acks_all(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders")
    leader = shop.muster.leader("orders")
    till = shop.producer("till", acks="all" if careful else 1, idempotent=False)
    till.send("tea")

    shop.muster.isolate(leader, from_=["brokers"])  # the followers can't fetch the next order
    till.send("coffee", within_s=0.3 if careful else 30)
    assert till.acknowledged == (["tea"] if careful else ["tea", "coffee"])
    shop.muster.kill(leader)
    till.send()

    assert till.acknowledged == ["tea", "coffee"]
    assert stored(shop) == (["tea", "coffee"] if careful else ["tea"])


@CAREFUL
def test_consumer_continues_at_its_position_when_the_leader_changes(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders", replication_factor=3 if careful else 1)
    shop.orders("tea")
    worker = shop.member("worker")
    assert bill(worker, 1) == ["tea"]
    leader = shop.muster.leader("orders")
    slow = shop.muster.broker(leader).delay("Fetch", ms=60_000, client_id="worker")
    waiting.until(
        "the next order can't reach the worker", lambda: worker.fetch() == [] and slow.hits
    )
    shop.orders("coffee")

    with shop.muster.kill(leader):
        if careful:
            assert bill(worker, 1) == ["coffee"]
            assert [what for what, partitions in worker.events if partitions] == ["assigned"]
        else:
            assert shop.muster.partition("orders").leader is None
            assert worker.fetch(within_s=1) == []


@CAREFUL
def test_next_worker_starts_at_the_committed_offsets_when_the_coordinator_was_killed(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders")
    shop.orders("tea", "coffee", "cocoa")
    first = shop.member("first", careful=careful)
    assert bill(first, 1, and_commit=careful) == ["tea"]
    coordinator = shop.muster.coordinator("billing")
    assert coordinator is not None

    with shop.muster.kill(coordinator):
        assert bill(first, 1, and_commit=careful) == ["coffee"]
        assert shop.muster.coordinator("billing") not in (None, coordinator)
        first.close()
        shop.muster.time.advance(minutes=1)  # a member without a coordinator can't leave
        assert bill(shop.member("second"), 1) == ["cocoa" if careful else "tea"]


@CAREFUL
def test_idempotent_producer_writes_once_when_the_leader_dies_before_its_response(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders")
    leader = shop.muster.leader("orders")
    till = shop.producer("till", idempotent=careful)

    with shop.muster.isolate(leader, from_=["brokers"]):
        till.send("tea", within_s=0)
        waiting.until(
            "the leader has the record", lambda: shop.muster.broker(leader).requests(api="Produce")
        )
        shop.muster.isolate(leader, from_=["clients"])  # the acknowledgement is lost
    waiting.until("the followers have the record", lambda: stored(shop) == ["tea"])
    shop.muster.kill(leader)
    till.send()

    assert till.acknowledged == ["tea"]
    assert stored(shop) == (["tea"] if careful else ["tea", "tea"])


@CAREFUL
def test_transaction_completes_although_its_coordinator_and_a_partition_leader_are_killed(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders")
    till = shop.producer("till", transactional_id="till")
    till.begin()
    till.send("mistake")
    till.abort()

    till.begin()
    till.send("tea")
    coordinator = shop.muster.coordinator(transactional_id="till")
    assert coordinator is not None
    with shop.muster.kill(coordinator):
        till.send("coffee")
    shop.muster.wait_for_partition("orders").in_sync()
    with shop.muster.kill(shop.muster.leader("orders")):
        till.commit()
        found = read(shop, "read_committed" if careful else "read_uncommitted")

    assert till.failed == {}
    assert found == (["tea", "coffee"] if careful else ["mistake", "tea", "coffee"])


@CAREFUL
def test_producer_with_acks_all_is_refused_when_too_few_replicas_are_in_sync(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders")
    leader = shop.muster.leader("orders")
    others = [each for each in shop.muster.brokers if each != leader]
    till = shop.producer("till", acks="all" if careful else 1, idempotent=False, gives_up=True)
    till.send("tea")

    with shop.muster.shrink_isr("orders"):
        till.send("coffee")
        shop.muster.kill(leader)
        shop.muster.elect_unclean("orders")
        shop.muster.wait_for_partition("orders").in_sync(*others)

    assert till.failed == ({"coffee": TOO_FEW_REPLICAS[shop.client]} if careful else {})
    assert till.acknowledged == (["tea"] if careful else ["tea", "coffee"])
    assert stored(shop) == ["tea"], "the order that acks=1 acknowledged is lost"


@CAREFUL
def test_no_record_is_lost_when_the_only_in_sync_replica_returns(
    shop: Cluster, careful: bool
) -> None:
    shop.muster.create_topic("orders", min_insync_replicas=1)
    leader = shop.muster.leader("orders")
    till = shop.producer("till", idempotent=False)
    till.send("tea")
    with shop.muster.shrink_isr("orders"):
        till.send("coffee")
        shop.muster.kill(leader)
        assert shop.muster.partition("orders").leader is None

    if not careful:
        assert shop.muster.elect_unclean("orders") != leader
    shop.muster.restart(leader)
    shop.muster.wait_for_partition("orders").in_sync()
    till.send("cocoa")

    assert till.acknowledged == ["tea", "coffee", "cocoa"]
    assert read(shop, "read_uncommitted") == ["tea", *(["coffee"] if careful else []), "cocoa"]


@CAREFUL
def test_clients_have_no_error_during_a_rolling_restart(shop: Cluster, careful: bool) -> None:
    shop.muster.create_topic("orders", replication_factor=3 if careful else 1)
    till = shop.producer("till")
    till.send("order 0")
    worker = shop.member("worker")
    assert bill(worker, 1) == ["order 0"]
    for broker in shop.muster.brokers:
        with shop.muster.stop(broker):
            till.send(f"order {broker}", within_s=30 if careful else 1)
            sold = len(till.acknowledged) - 1
            if sold < broker:
                break
            assert bill(worker, 1) == [f"order {broker}"]
        shop.muster.wait_for_partition("orders").in_sync()

    assert till.failed == {}
    assert (sold == 3) == careful, "a topic with one replica is unavailable during one restart"
