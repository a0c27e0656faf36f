"""Consumer groups (KIP-848) with members that use franz-go's kgo."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import waiting
from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import KGO, Group
from tests.interop.verifiable_consumers import QUICK, Described, described

pytestmark = [pytest.mark.interop, pytest.mark.timeout(700), pytest.mark.proves("kafka 6")]
PARTITIONS = 6
CONSUMER_MEMBER = 1
"""The member type of the consumer protocol in ConsumerGroupDescribe version 1. The type 0 is
classic."""


def balanced(cluster: Cluster, group: Group, *sizes: int) -> Described:
    """Waits until the group is Stable, and until its members own ``sizes`` partitions, in ascending
    order, according to both ConsumerGroupDescribe and the members."""

    def settled() -> Described | None:
        found = described(cluster, group.name)
        reported = sorted(len(each.assigned) for each in group.members.values() if each.runs)
        fits = found.sizes() == sorted(sizes) == reported
        return found if found.state == "Stable" and fits else None

    try:
        return waiting.until(f"{group.name} is Stable with {sizes}", settled)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{group.story()}") from None


def test_kgo_group_keeps_its_commits_when_a_member_and_the_broker_are_killed(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers(QUICK)
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    feed.send(60)
    with Group(KGO, broker.bootstrap, f"{name}-group", topics=[name]) as group:
        a, b, c = (group.start(each) for each in "abc")
        found = balanced(cluster, group, 2, 2, 2)
        assert found.assignor == "uniform"
        assert {each.member_type for each in found.members.values()} == {CONSUMER_MEMBER}
        listed = cluster.call("ListGroups", 5, states_filter=[], types_filter=["consumer"])
        assert [each["group_id"] for each in listed["groups"]] == [group.name]

        group.until_seen(set(feed.sent))
        for member in (a, b, c):
            member.commit()
        ends = cluster.end_offsets(name, PARTITIONS)
        assert cluster.committed(group.name) == ends
        broker.kill()
        broker.start()
        assert cluster.committed(group.name) == ends
        assert waiting.until("it is served", lambda: described(cluster, group.name)) == found

        feed.send(30)
        group.until_seen(set(feed.sent))
        a.leave()  # it commits what it read when its partitions are revoked
        balanced(cluster, group, 3, 3)
        b.commit()
        c.commit()
        feed.send(30)
        group.until_seen(set(feed.sent))
        assert len(group.seen()) == len(set(group.seen())), "records were seen twice"

        committed, owned = cluster.committed(group.name), set(c.assigned)
        c.process.kill()
        balanced(cluster, group, 6)
        again = {
            value
            for value, sent in feed.sent.items()
            if (key := (name, sent.partition)) in owned and sent.offset >= committed[key]
        }
        group.watch.until(
            "the records that the killed member did not commit are read again",
            lambda: len(group.seen()) >= len(feed.sent) + len(again),
            60,
            group.story,
        )
        assert sorted(group.seen()) == sorted([*feed.sent, *again])
        b.commit()
        assert cluster.committed(group.name) == cluster.end_offsets(name, PARTITIONS)
        b.leave()
        assert described(cluster, group.name).state == "Empty"
