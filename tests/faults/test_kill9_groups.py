from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests import waiting
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster, Feed, read_topic
from tests.interop.group_members import PYTHON_CLIENTS, Group
from tests.raw_connection import RawConnection

pytestmark = [pytest.mark.faults, pytest.mark.proves("faults 10")]
PARTITIONS = 6
LOADING = (14, 15, 16)


def _join(connection: RawConnection, group: str) -> tuple[str, int]:
    """Joins the group as its only member and syncs. Returns the member id and the generation."""
    waiting.until(
        "the broker coordinates the group",
        lambda: connection.call("FindCoordinator", 1, key=group, key_type=0)["error_code"] == 0,
    )
    asked: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 30000,
        "rebalance_timeout_ms": 30000,
        "member_id": "",
        "protocol_type": "test",
        "protocols": [{"name": "only", "metadata": b"m"}],
    }
    named = waiting.until(
        "the group is loaded",
        lambda: _unless_loading(connection.call("JoinGroup", 5, **asked)),
    )
    assert named["error_code"] == 79, "MEMBER_ID_REQUIRED (KIP-394)"
    joined = connection.call("JoinGroup", 5, **{**asked, "member_id": named["member_id"]})
    assert joined["error_code"] == 0
    member, generation = joined["member_id"], joined["generation_id"]
    given = [{"member_id": member, "assignment": b"all of it"}]
    synced = connection.call(
        "SyncGroup",
        3,
        group_id=group,
        generation_id=generation,
        member_id=member,
        assignments=given,
    )
    assert synced["error_code"] == 0
    return member, generation


def _unless_loading(found: dict[str, Any]) -> dict[str, Any] | None:
    return None if found["error_code"] in LOADING else found


@pytest.mark.smoke
def test_stable_group_continues_in_the_same_generation_after_a_broker_kill(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers()
    with RawConnection(broker.port) as connection:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        connection.call("CreateTopics", 4, topics=[topic], timeout_ms=20000)
        member, generation = _join(connection, "steady")
        who = {"group_id": "steady", "generation_id": generation, "member_id": member}
    for offset in range(1, 4):  # repeated after each of three kills
        broker.kill()
        broker.start()
        with RawConnection(broker.port) as connection:

            def beat(connection: RawConnection = connection) -> int | None:
                code = int(connection.call("Heartbeat", 3, **who)["error_code"])
                # Kafka listens before it leads its partitions; Muster leads them from the start.
                return None if KIND == "kafka" and code in LOADING else 1000 + code

            assert waiting.until("a heartbeat is answered", beat) == 1000, "0, loading or not"
            partition = {
                "partition_index": 0,
                "committed_offset": offset,
                "committed_metadata": "",
            }
            asked = {
                "group_id": "steady",
                "generation_id_or_member_epoch": generation,
                "member_id": member,
                "topics": [{"name": "t", "partitions": [partition]}],
            }

            def commit(
                connection: RawConnection = connection, asked: dict[str, Any] = asked
            ) -> int | None:
                found = connection.call("OffsetCommit", 7, **asked)
                code = int(found["topics"][0]["partitions"][0]["error_code"])
                return None if code in LOADING else 1000 + code

            assert waiting.until("the group is loaded", commit) == 1000
            synced = connection.call("SyncGroup", 3, **who, assignments=[])
            assert (synced["error_code"], synced["assignment"]) == (0, b"all of it")
            described = connection.call("DescribeGroups", 4, groups=["steady"])["groups"][0]
            assert described["group_state"] == "Stable"
            assert [m["member_id"] for m in described["members"]] == [member]


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_members_of_real_clients_keep_their_partitions_after_a_broker_kill(
    brokers: Callable[..., Broker], client: str, name: str
) -> None:
    broker = brokers()
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    config = {"topics": [name], "session_timeout_ms": 20000}
    with Group(client, broker.bootstrap, f"{name}-group", **config) as group:
        members = [group.start(each) for each in "abc"]
        held = group.balanced(cluster, 2, 2, 2).held
        group.until_seen(feed.send(2 * PARTITIONS))
        for member in members:
            member.commit()
        committed = cluster.committed(group.name)

        broker.kill()
        broker.start()
        again = Cluster(broker.bootstrap)
        group.until_seen(feed.send(2 * PARTITIONS), 60)
        assert group.balanced(again, 2, 2, 2).held == held
        assert again.committed(group.name) == committed
        for member in members:
            member.commit()
        group.leave_in_turn(again, *members)
        assert again.committed(group.name) == again.end_offsets(name, PARTITIONS)
        assert set(Counter(group.seen()).values()) == {1}


def test_idempotent_producer_loses_and_duplicates_no_record_after_broker_kills(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS, **{"enable.idempotence": True})
    sent_before = 0
    with feed.flow():
        for _ in range(3):
            waiting.until("records flow", lambda before=sent_before: len(feed.sent) > before + 60)
            broker.kill()
            broker.start()
            sent_before = len(feed.sent)
        waiting.until("records flow again", lambda: len(feed.sent) > sent_before + 60)
    records = read_topic(broker.bootstrap, name, cluster.end_offsets(name, PARTITIONS))
    assert sorted(r.value for r in records) == sorted(feed.sent)
    assert {r.value: r for r in records} == feed.sent, "each is where its reply said"
