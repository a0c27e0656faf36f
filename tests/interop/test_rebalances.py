"""Difficult rebalances: suspended members, static members, cooperative assignment, and changing
topics."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import waiting
from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import PYTHON_CLIENTS, Group, Member

pytestmark = pytest.mark.interop
PARTITIONS = 6


def _moves(*members: Member) -> list[int]:
    """Returns for each member how often it has gained or lost partitions."""
    return [sum(e["event"] in ("assigned", "revoked", "lost") for e in m.events) for m in members]


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_member_suspended_beyond_its_session_is_replaced_and_rejoins(
    broker: Broker, client: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    with Group(client, broker.bootstrap, f"{name}-group", topics=[name]) as group:
        sleeper, b, c = (group.start(each) for each in "abc")
        held = group.balanced(cluster, 2, 2, 2).held["a"]
        group.until_seen(feed.send(2 * PARTITIONS))
        sleeper.commit()
        uncommitted = feed.send(2 * PARTITIONS)
        group.until_seen(uncommitted)
        its = {v for v in uncommitted if (name, feed.sent[v].partition) in held}

        sleeper.pause()
        assert set(group.balanced(cluster, 3, 3).held) == {"b", "c"}
        group.watch.until(
            "the others see what the sleeper had not committed",
            lambda: its <= set(b.values) | set(c.values),
            show=group.story,
        )
        later = feed.send(2 * PARTITIONS)
        group.until_seen(later)
        b.commit()
        c.commit()
        before = cluster.committed(group.name)
        assert before == cluster.end_offsets(name, PARTITIONS)

        sleeper.tell("commit")  # its first request is a commit of an old generation
        sleeper.go_on()
        group.balanced(cluster, 2, 2, 2)
        assert cluster.committed(group.name) == before, "a commit of an old generation was taken"
        group.until_seen(feed.send(2 * PARTITIONS))
        group.leave_in_turn(cluster, sleeper, b, c)
        assert cluster.committed(group.name) == cluster.end_offsets(name, PARTITIONS)


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_restart_of_a_static_member_causes_no_rebalance(
    broker: Broker, client: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    with Group(client, broker.bootstrap, f"{name}-group", topics=[name]) as group:
        config = {"session_timeout_ms": 20000}
        a, b, c = (group.start(each, instance=f"instance-{each}", **config) for each in "abc")
        held = group.balanced(cluster, 2, 2, 2).held
        group.until_seen(feed.send(PARTITIONS))
        for member in (a, b, c):
            member.commit()
        moves = _moves(b, c)

        a.kill()
        missed = feed.send(PARTITIONS)
        back = group.start("a", instance="instance-a", **config)
        group.until_seen(missed)
        assert back.assigned == held["a"], group.story()
        assert cluster.describe(group.name).held == held
        assert _moves(b, c) == moves, "the others noticed:\n" + group.story()
        counts = Counter(group.seen())
        assert set(counts.values()) == {1}, "everything was committed before the restart"


def test_second_process_with_the_same_instance_id_fences_the_first_process(
    broker: Broker, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, 2)
    with Group("confluent", broker.bootstrap, f"{name}-group", topics=[name]) as group:
        first = group.start("first", instance="same", session_timeout_ms=20000)
        group.balanced(cluster, 2)
        second = group.start("second", instance="same", session_timeout_ms=20000)
        group.watch.until("the second is assigned", lambda: len(second.assigned) == 2)
        group.watch.until(
            "the first is told",
            lambda: any(e["event"] == "error" for e in first.events) or "FENCED" in first.story(),
            show=group.story,
        )
        assert group.members["first"].values == []
        assert cluster.describe(group.name).sizes() == [2], "one member, under one of the two names"


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_cooperative_members_keep_partitions_that_do_not_move(
    broker: Broker, client: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    feed = Feed(broker.bootstrap, name, PARTITIONS)
    with Group(
        client, broker.bootstrap, f"{name}-group", topics=[name], strategy="cooperative-sticky"
    ) as group:
        members = [group.start(each) for each in "abc"]
        before = group.balanced(cluster, 2, 2, 2).held
        group.watch.until(
            "the members know", lambda: sorted(len(m.assigned) for m in members) == [2, 2, 2]
        )
        revoked = [len(m.events) for m in members]
        with feed.flow():
            newcomer = group.start("d")
            after = group.balanced(cluster, 1, 1, 2, 2).held
        moved = [
            tuple(pair)
            for member, since in zip(members, revoked, strict=True)
            for event in member.events[since:]
            if event["event"] == "revoked"
            for pair in event["partitions"]
        ]
        assert len(moved) == 1, "one of six partitions had to move\n" + group.story()
        assert after["d"] == set(moved)
        group.watch.until("the newcomer knows", lambda: newcomer.assigned == set(moved))
        assert all(after[m.name] <= before[m.name] for m in members)
        group.until_seen(list(feed.sent))
        assert set(Counter(group.seen()).values()) == {1}


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_partitions_created_during_a_rebalance_are_assigned(
    broker: Broker, client: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(name, PARTITIONS)
    with Group(client, broker.bootstrap, f"{name}-group", topics=[name]) as group:
        a, _, _ = (group.start(each) for each in "abc")
        group.balanced(cluster, 2, 2, 2)
        a.pause()  # this member will not rejoin, so that the rebalance cannot end
        group.start("d")
        waiting.until(
            "the group prepares",
            lambda: cluster.describe(group.name).state == "PreparingRebalance",
        )
        cluster.grow_topic(name, 9)
        a.go_on()
        group.balanced(cluster, 2, 2, 2, 3)
        feed = Feed(broker.bootstrap, name, 9)
        group.until_seen(feed.send(18))
        assert set(Counter(group.seen()).values()) == {1}


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_pattern_subscription_includes_topics_that_are_created_later(
    broker: Broker, client: str, name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(f"{name}-one", 3)
    cluster.create_topic(f"other-{name}", 3)
    with Group(client, broker.bootstrap, f"{name}-group", pattern=f"{name}-.*") as group:
        a, b, c = (group.start(each) for each in "abc")
        group.balanced(cluster, 1, 1, 1)
        cluster.create_topic(f"{name}-two", 3)
        held = group.balanced(cluster, 2, 2, 2).held
        assert {topic for keys in held.values() for topic, _ in keys} == {
            f"{name}-one",
            f"{name}-two",
        }
        sent = Feed(broker.bootstrap, f"{name}-one", 3).send(6)
        sent += Feed(broker.bootstrap, f"{name}-two", 3).send(6)
        Feed(broker.bootstrap, f"other-{name}", 3).send(6)
        group.until_seen(sent)
        group.leave_in_turn(cluster, a, b, c)
        assert sorted(group.seen()) == sorted(sent)
