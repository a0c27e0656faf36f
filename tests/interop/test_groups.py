"""A consumer group with each client: it forms, rebalances, commits, loses a member, and
continues."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed, Key, read_topic
from tests.interop.group_members import CLIENTS, JAVA_CLIENTS, Group, Member
from tests.interop.producers import produce

pytestmark = pytest.mark.interop
PARTITIONS = 6


def _seen_twice(group: Group) -> set[str]:
    return {value for value, times in Counter(group.seen()).items() if times > 1}


@pytest.mark.smoke
@pytest.mark.parametrize("client", CLIENTS)
def test_group_reads_all_records_when_members_join_leave_and_are_killed(
    request: pytest.FixtureRequest, client: str, name: str
) -> None:
    old = client == "java-0.10.2.2"
    broker: Broker = request.getfixturevalue("old_client_broker" if old else "broker")
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    # The client's own producer writes the first records; their offsets are read back at the end.
    first = [f"first-{number}" for number in range(60)]
    produce(client, broker.bootstrap, name, first)

    with Group(client, broker.bootstrap, f"{name}-group", topics=[name]) as group:
        a, b, c = (group.start(each) for each in "abc")
        group.balanced(cluster, 2, 2, 2)
        group.until_seen(first)

        with feed.flow():  # new records arrive while members join and leave
            group.start("d")
            group.balanced(cluster, 1, 1, 2, 2)
            b.leave()
            group.balanced(cluster, 2, 2, 2)
        group.until_seen(first + list(feed.sent))
        assert not _seen_twice(group), "no member was killed, and yet records were seen twice"

        acknowledged = _kill_one_of_three(cluster, group, a, feed, is_java=client in JAVA_CLIENTS)
        truth = _where(cluster, broker, name)
        again = {
            value
            for value in a.values
            if truth[value][1] >= acknowledged.get((name, truth[value][0]), 1 << 62)
        }
        assert again, "the killed member had consumed nothing that it had not committed"
        assert _seen_twice(group) == again

        group.leave_in_turn(cluster, c, group.members["d"])
        assert cluster.committed(group.name) == cluster.end_offsets(name, PARTITIONS)

        missed = feed.send(30)  # while the group has no member
        e = group.start("e")
        group.until_seen(missed)
        assert sorted(e.values) == sorted(missed), "a member resumes where the group committed"
        e.leave()
        assert cluster.committed(group.name) == cluster.end_offsets(name, PARTITIONS)
        assert set(group.seen()) == set(first) | set(feed.sent)


def _kill_one_of_three(
    cluster: Cluster, group: Group, dead: Member, feed: Feed, *, is_java: bool
) -> dict[Key, int]:
    """Kills the member ``dead`` after it has consumed more records than it has committed. Waits
    until the other members have read all records. Returns the last acknowledged commits of
    ``dead``."""
    group.until_seen(feed.send(2 * PARTITIONS))
    for member in (dead, group.members["c"], group.members["d"]):
        member.commit()
    group.until_seen(feed.send(5 * PARTITIONS))
    held = cluster.describe(group.name).held[dead.name]
    assert len(held) == 2
    dead.kill()
    committed = cluster.committed(group.name)
    if is_java:
        acknowledged = {key: committed[key] for key in held}
    else:
        acknowledged = {key: dead.acknowledged[key] for key in held}
        assert acknowledged == {key: committed[key] for key in held}
    while_dead = feed.send(5 * PARTITIONS)
    group.balanced(cluster, 3, 3)
    group.until_seen(while_dead + feed.send(PARTITIONS))
    return acknowledged


def _where(cluster: Cluster, broker: Broker, topic: str) -> dict[str, tuple[int, int]]:
    """Returns partition and offset of each value in the topic."""
    records = read_topic(broker.bootstrap, topic, cluster.end_offsets(topic, PARTITIONS))
    where = {record.value: (record.partition, record.offset) for record in records}
    assert len(where) == len(records), "a record is in the topic twice"
    return where
