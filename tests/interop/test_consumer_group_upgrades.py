"""Java consumers move a running group from the classic protocol to that of KIP-848 and back, one
member at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import waiting
from tests.brokers import Broker
from tests.interop.cluster import Cluster, Feed
from tests.interop.verifiable_consumers import (
    QUICK,
    VerifiableConsumer,
    VerifiableGroup,
    described,
)

pytestmark = pytest.mark.interop
PARTITIONS = 6


class Move:
    """A group of two members, which the test replaces one by one while records arrive."""

    def __init__(self, broker: Broker, group: VerifiableGroup) -> None:
        self.broker = broker
        self.group = group
        self.cluster = Cluster(broker.bootstrap)
        self.cluster.create_topic(group.topic, PARTITIONS)
        self.feed = Feed(broker.bootstrap, group.topic, PARTITIONS)
        self.feed.send(30)

    def start(self, name: str, protocol: str) -> VerifiableConsumer:
        if protocol == "consumer":
            return self.group.start(name)
        options = ("--session-timeout", "10000")
        return self.group.start(name, *options, protocol="classic", heartbeat_interval_ms="300")

    def kill_broker(self) -> None:
        """Kills and restarts the broker. Checks that no partition moves to another member."""
        before = described(self.cluster, self.group.group)
        moves = sum(member.moves for member in self.group.members)
        self.broker.kill()
        self.broker.start()
        waiting.until(
            "the group is served", lambda: described(self.cluster, self.group.group) == before
        )
        self.until_read(12)
        assert sum(member.moves for member in self.group.members) == moves, self.group.story()

    def until_read(self, more: int) -> None:
        """Produces ``more`` records and waits until the group has consumed all records."""
        self.feed.send(more)
        self.group.until_read(self.cluster.end_offsets(self.group.topic, PARTITIONS))

    def types(self) -> dict[str, int]:
        """Returns the member type by client id, from ConsumerGroupDescribe. 0 is a classic
        member."""
        members = described(self.cluster, self.group.group).members.values()
        return {member.client_id: member.member_type for member in members}

    def kind(self) -> str:
        """Returns the type of the group, from ListGroups."""
        value = {"states_filter": [], "types_filter": []}
        listed = self.cluster.call("ListGroups", 5, **value)["groups"]
        return next(each["group_type"] for each in listed if each["group_id"] == self.group.group)


def test_java_members_move_a_group_to_the_new_protocol_one_by_one(
    brokers: Callable[..., Broker], name: str, tmp_path: Path
) -> None:
    broker = brokers(QUICK)
    with VerifiableGroup(broker.bootstrap, f"{name}-group", name, tmp_path) as group:
        move = Move(broker, group)
        a, b = move.start("a", "classic"), move.start("b", "classic")
        group.classic_balanced(3, 3)
        move.until_read(12)
        assert move.kind() == "classic"

        move.start("c", "consumer")
        group.balanced(2, 2, 2)
        assert move.types() == {"a": 0, "b": 0, "c": 1}
        move.until_read(12)
        move.kill_broker()

        a.stop(20)
        group.balanced(3, 3)
        b.stop(20)
        move.start("d", "consumer")
        group.balanced(3, 3)
        move.until_read(12)
        assert move.types() == {"c": 1, "d": 1}
        assert move.kind() == "consumer"


def test_java_members_move_a_group_back_to_the_classic_protocol_one_by_one(
    brokers: Callable[..., Broker], name: str, tmp_path: Path
) -> None:
    broker = brokers(QUICK)
    with VerifiableGroup(broker.bootstrap, f"{name}-group", name, tmp_path) as group:
        move = Move(broker, group)
        a, b = move.start("a", "consumer"), move.start("b", "consumer")
        group.balanced(3, 3)
        move.until_read(12)

        move.start("c", "classic")
        group.balanced(2, 2, 2)
        assert move.types() == {"a": 1, "b": 1, "c": 0}
        move.kill_broker()

        a.stop(20)
        group.balanced(3, 3)
        move.until_read(12)
        assert move.kind() == "consumer"
        b.kill()  # the last member of the new protocol
        group.classic_balanced(6)
        assert move.kind() == "classic"
        move.until_read(12)
        move.start("d", "classic")
        group.classic_balanced(3, 3)
        move.until_read(12)
