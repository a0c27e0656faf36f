"""Histories of the controller without failures of ZooKeeper or the network: the expected writes,
and the expected requests to brokers."""

from __future__ import annotations

import pytest

from controller.calls import (
    AllocateProducerIds,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    ListReassignments,
)
from controller.facts import (
    DeletionsSeen,
    PreferredSeen,
    ReassignmentsSeen,
    Result,
    TopicSeen,
    TopicsSeen,
    WriteResult,
    Written,
)
from controller.outcome import ControlledShutdownReply, Outcome, ProducerIdsReply, SetState
from controller.requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from controller.values import LEADER_OF_DELETED, NO_LEADER
from tests.controller.world import Host, World, replicas

T0 = ("t", 0)


def cluster(*broker_ids: int, topics: dict[str, dict[int, tuple[int, ...]]] | None = None) -> Host:
    """Returns the controller of a cluster with these brokers and topics. The controller has no
    pending work."""
    world = World(4)
    for broker_id in broker_ids or (1, 2, 3):
        world.register(broker_id)
    for name, partitions in (topics or {"t": {0: (1, 2, 3)}}).items():
        world.nodes.create_topic(
            name, {index: replicas(*ids) for index, ids in partitions.items()}, world.spare_id()
        )
    host = world.elect()
    host.settle()
    return host


def test_new_controller_sends_the_live_brokers_before_the_partitions() -> None:
    world = World(3)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    world.nodes.create_topic("t", {0: replicas(1, 2, 3)}, world.spare_id())

    host = world.elect()

    first = [requests[0] for requests in host.channels.values()]
    assert all(isinstance(each, UpdateMetadataRequest) and not each.topics for each in first)
    host.settle()
    assert world.nodes.states[T0][:3] == (1, 0, (1, 2, 3))
    assert all(each.replicas[T0].leader == 1 for each in world.brokers.values())
    assert all(each.shown == {T0: 1} for each in world.brokers.values())


def test_controller_elects_another_leader_when_the_elected_broker_has_restarted() -> None:
    """ZooKeeper refuses to write the state with the chosen leader, because this broker has
    registered again."""
    host = cluster()
    world = host.world
    world.unregister(3)
    host.give(world.see_brokers())
    write = host.writes.popleft()
    assert isinstance(write, SetState)
    assert write.state[:3] == (1, 1, (1, 2))

    host.give(Written([WriteResult(write.ticket, Result.OUTDATED)]))
    assert [type(each) for each in host.writes] == [SetState], "as long as no more is known"
    world.unregister(1)
    world.register(1)
    host.give(world.see_brokers())
    host.give(Written([WriteResult(host.writes.popleft().ticket, Result.OUTDATED)]))
    host.settle()
    assert world.nodes.states[T0][:3] == (2, 1, (2,))


def test_next_isr_member_leads_when_the_leader_dies() -> None:
    host = cluster()
    world = host.world

    world.unregister(1)
    host.give(world.see_brokers())
    host.settle()

    assert world.nodes.states[T0][:3] == (2, 1, (2, 3))
    assert world.brokers[3].replicas[T0].leader == 2
    assert world.brokers[3].shown == {T0: 2}


SIX = {"t": {index: ((1, 2, 3), (2, 3, 1), (3, 1, 2))[index % 3] for index in range(6)}}
"""A topic with six partitions. Each of three brokers leads two of them."""


@pytest.mark.parametrize("how", ["dies", "stops"])
def test_leaderless_partitions_get_new_leaders_before_other_partitions_are_changed(
    how: str,
) -> None:
    host = cluster(topics=SIX)
    world = host.world

    if how == "dies":
        world.unregister(2)
        begun = host.give(world.see_brokers())
    else:
        begun = host.give(ControlledShutdown("ticket", 2, 2))

    def led_anew(outcome: Outcome) -> list[list[int]]:
        return [
            sorted(each.partition for topic in send.topics for each in topic.partitions)
            for send in outcome.sends
            if isinstance(send, LeaderAndIsrRequest)
        ]

    assert [each.partition for each in begun.writes if isinstance(each, SetState)] == [1, 4]
    assert begun.more
    results = [host.write_one(), host.write_one()]
    assert all(each == [1, 4] for each in led_anew(host.give(Written(results))))
    assert host.more
    rest = host.work()
    assert [each.partition for each in rest.writes if isinstance(each, SetState)] == [0, 2, 3, 5]
    host.settle()
    assert {each.leader for each in world.nodes.states.values()} == {1, 3}


def test_restarted_leader_loses_its_leadership() -> None:
    host = cluster()
    world = host.world

    world.register(1)
    host.give(world.see_brokers())
    host.settle()

    assert world.nodes.states[T0][:3] == (2, 1, (2, 3))
    assert world.brokers[1].replicas[T0].leader == 2
    assert world.brokers[1].shown == {T0: 2}


def test_single_isr_member_leads_again_after_its_restart() -> None:
    host = cluster(topics={"t": {0: (1,)}})
    world = host.world

    world.register(1)
    host.give(world.see_brokers())
    host.settle()

    assert world.nodes.states[T0][:3] == (1, 1, (1,))


def test_partition_without_a_live_isr_member_waits_until_an_isr_member_is_live() -> None:
    host = cluster()
    world = host.world
    for broker_id in (3, 2, 1):
        world.unregister(broker_id)
        host.give(world.see_brokers())
        host.settle()
    assert world.nodes.states[T0][:3] == (NO_LEADER, 3, (1,))

    world.register(2)
    host.give(world.see_brokers())
    host.settle()
    assert world.nodes.states[T0].leader == NO_LEADER
    world.register(1)
    host.give(world.see_brokers())
    host.settle()

    assert world.nodes.states[T0][:3] == (1, 4, (1,))
    assert world.brokers[2].replicas[T0].leader == 1


def test_new_and_added_partitions_get_a_leader_and_isr() -> None:
    host = cluster()
    world = host.world
    world.nodes.create_topic("new", {0: replicas(2, 3)}, None)

    host.give(TopicsSeen([*world.nodes.topics]))
    host.settle()
    assert world.nodes.states["new", 0][:3] == (2, 0, (2, 3))
    topic_id = world.nodes.topics["new"].topic_id
    assert topic_id is not None
    world.nodes.rewrite_topic(
        "new", partitions={0: replicas(2, 3), 1: replicas(3, 1)}, topic_id=None
    )
    host.give(TopicSeen(world.nodes.topics["new"], world.spare_id()))
    host.settle()

    assert world.nodes.states["new", 1][:3] == (3, 0, (3, 1))
    assert world.nodes.topics["new"].topic_id == topic_id


def test_topic_is_deleted_after_its_last_replica_is_deleted() -> None:
    host = cluster()
    world = host.world
    world.nodes.deletions.add("t")

    host.give(DeletionsSeen(["t"]))
    host.settle()

    assert not world.nodes.topics
    assert not world.nodes.states
    assert not world.nodes.deletions
    assert all(not each.directories and not each.shown for each in world.brokers.values())


def test_topic_under_deletion_keeps_its_node_when_a_replica_is_down() -> None:
    host = cluster()
    world = host.world
    world.unregister(3)
    host.give(world.see_brokers())
    host.settle()
    world.nodes.deletions.add("t")
    host.give(DeletionsSeen(["t"]))
    host.settle()
    for broker_id in (1, 2):
        assert not world.brokers[broker_id].shown
        assert not world.brokers[broker_id].directories
    assert world.nodes.topics, "its name is not free while broker 3 has a replica"

    world.register(3)
    host.give(world.see_brokers())
    host.settle()

    assert not world.nodes.topics
    assert all(not each.directories for each in world.brokers.values())


def test_new_controller_sends_only_update_metadata_for_a_topic_under_deletion() -> None:
    host = cluster()
    world = host.world
    world.unregister(3)
    host.give(world.see_brokers())
    world.nodes.deletions.add("t")
    host.give(DeletionsSeen(["t"]))
    host.settle()

    host = world.elect()
    host.settle(answers=False)

    sent = [each for requests in host.channels.values() for each in requests]
    assert not [each for each in sent if isinstance(each, LeaderAndIsrRequest)]
    leaders = {
        partition.leader
        for each in sent
        if isinstance(each, UpdateMetadataRequest)
        for topic in each.topics
        for partition in topic.partitions
    }
    assert leaders == {LEADER_OF_DELETED}


def test_controlled_shutdown_moves_leaderships() -> None:
    host = cluster(topics={"t": {0: (1, 2, 3), 1: (2, 1, 3), 2: (1,)}})
    world = host.world

    host.give(ControlledShutdown("bye", 1, world.brokers[1].epoch))
    assert "bye" not in host.replies
    host.settle()

    assert host.replies["bye"] == ControlledShutdownReply(0, [])
    assert world.nodes.states[T0][:3] == (2, 1, (2, 3))
    assert world.nodes.states["t", 1][:3] == (2, 1, (2, 3))
    assert world.nodes.states["t", 2][:3] == (1, 0, (1,))


def test_reassignment_requested_by_the_api_moves_the_replicas() -> None:
    host = cluster(1, 2, 3, 4)
    world = host.world

    host.give(AlterReassignments("move", {T0: (4, 2)}))
    host.settle()
    assert host.replies["move"].partitions == {T0: (0, "")}  # type: ignore[union-attr]
    assert world.nodes.topics["t"].partitions[0] == ((4, 2, 1, 3), (4,), (1, 3))
    assert world.brokers[4].replicas[T0].is_new
    host.give(ListReassignments("list", None))
    assert host.replies["list"].partitions == {T0: ((4, 2, 1, 3), (4,), (1, 3))}  # type: ignore[union-attr]
    host.give(world.isr_asked("isr", 1, {T0: (1, 2, 3, 4)}))
    host.settle()

    assert world.nodes.topics["t"].partitions[0] == ((4, 2), (), ())
    assert world.nodes.states[T0][:3] == (4, 4, (2, 4))
    assert T0 not in world.brokers[1].directories
    assert T0 not in world.brokers[3].directories
    assert world.brokers[2].replicas[T0].leader == 4


def test_reassignment_requested_in_zookeeper_moves_the_replicas() -> None:
    host = cluster(1, 2, 3, 4)
    world = host.world
    world.nodes.moves = {T0: (4,), ("nothing", 1): (1,)}

    host.give(ReassignmentsSeen(dict(world.nodes.moves)))
    host.settle()
    assert world.nodes.moves == {T0: (4,)}
    host.give(world.isr_asked("isr", 1, {T0: (1, 2, 3, 4)}))
    host.settle()

    assert world.nodes.moves == {}
    assert world.nodes.states[T0][:3] == (4, 5, (4,))


def test_cancelled_reassignment_restores_the_original_replicas() -> None:
    host = cluster(1, 2, 3, 4)
    world = host.world
    host.give(AlterReassignments("move", {T0: (4, 2)}))
    host.settle()

    host.give(AlterReassignments("cancel", {T0: None}))
    host.settle()

    # As in Kafka, the order is that of the whole replica list.
    assert world.nodes.topics["t"].partitions[0] == ((2, 1, 3), (), ())
    assert T0 not in world.brokers[4].directories
    host.give(AlterReassignments("again", {T0: None}))
    host.settle()
    assert host.replies["again"].partitions[T0][0] == 85  # type: ignore[union-attr]


def test_repeated_reassignment_creates_a_replica_whose_creation_failed() -> None:
    """The first reassignment fails, because the disk of broker 4 fails. It is cancelled, the disk
    is repaired, and the reassignment is requested again."""
    host = cluster(1, 2, 3, 4)
    world = host.world
    full = world.brokers[4]
    full.failed.add(T0)
    host.give(AlterReassignments("move", {T0: (4, 1, 2)}))
    host.settle()
    assert T0 not in full.replicas
    host.give(AlterReassignments("cancel", {T0: None}))
    host.settle()

    full.failed.clear()
    host.give(AlterReassignments("again", {T0: (4, 1, 2)}))
    host.settle()
    assert full.replicas[T0].replicas == (4, 1, 2, 3)


def test_elect_leaders_elects_preferred_leaders() -> None:
    host = cluster()
    world = host.world
    world.register(1)
    host.give(world.see_brokers())
    host.settle()
    host.give(world.isr_asked("isr", 2, {T0: (2, 3, 1)}))
    host.settle()

    host.give(ElectLeaders("elect", unclean=False, partitions=None))
    host.settle()
    assert world.nodes.states[T0][:3] == (1, 2, (2, 3, 1))
    host.give(ElectLeaders("again", unclean=False, partitions=[T0]))
    host.settle()
    assert host.replies["elect"].partitions == {T0: (0, "")}  # type: ignore[union-attr]
    assert host.replies["again"].partitions[T0][0] == 84  # type: ignore[union-attr]
    world.nodes.preferred = [T0]
    host.give(PreferredSeen([T0]))
    host.settle()
    assert not world.nodes.preferred


def test_producer_id_blocks_are_allocated_in_sequence() -> None:
    host = cluster()
    epoch = host.world.brokers[2].epoch
    host.give(AllocateProducerIds("a", 2, epoch))
    host.give(AllocateProducerIds("b", 2, epoch))
    host.settle()

    assert host.replies["a"] == ProducerIdsReply(0, 0, 1000)
    assert host.replies["b"] == ProducerIdsReply(0, 1000, 1000)


def test_fenced_controller_resigns_and_writes_nothing() -> None:
    host = cluster()
    world = host.world
    newer = world.elect(2)
    newer.settle()

    world.unregister(1)
    host.give(world.see_brokers())
    host.settle()

    assert host.resigned
    assert world.nodes.states[T0].leader == 1
    newer.give(world.see_brokers())
    newer.settle()
    assert world.nodes.states[T0][:4] == (2, 1, (2, 3), 2)


def test_requests_to_a_broker_are_queued_in_kafkas_order() -> None:
    host = cluster(topics={"t": {0: (1, 2, 3), 1: (2, 1, 3)}})
    world = host.world
    host.give(ControlledShutdown("bye", 1, world.brokers[1].epoch))
    host.settle(answers=False)
    led, followed = LeaderAndIsrRequest, StopReplicaRequest
    # Each of the two state changes sends an UpdateMetadata request.
    order = [led, UpdateMetadataRequest, UpdateMetadataRequest, followed]

    requests = [type(each) for each in host.channels[1, world.brokers[1].epoch]]

    assert requests == order
