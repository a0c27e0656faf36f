"""The controller sends all partitions of a topic to brokers together, even if the topic has many
partitions."""

from __future__ import annotations

from controller.facts import (
    DeletionsSeen,
    Result,
    Tick,
    TopicGone,
    TopicSeen,
    TopicsSeen,
    WriteResult,
    Written,
)
from controller.outcome import CreateState, Outcome, SetState
from controller.requests import LeaderAndIsrRequest, Send, UpdateMetadataRequest
from controller.values import LEADER_OF_DELETED, Assignment
from controller.work import RETRY_MS
from tests.controller.world import Host, World, replicas

MANY = 600
MULTI = 64
"""The number of partition states that the controller's host writes in one multi request to
ZooKeeper."""
THREE = ("t0", "t1", "t2")


def cluster(*broker_ids: int) -> Host:
    """Returns the controller of a cluster with these brokers and no topics. The controller has no
    pending work."""
    world = World(4)
    for broker_id in broker_ids:
        world.register(broker_id)
    host = world.elect()
    host.settle()
    return host


def assignments(count: int, *broker_ids: int) -> dict[int, Assignment]:
    return {index: replicas(*broker_ids) for index in range(count)}


def seen(host: Host, partitions: dict[int, Assignment]) -> None:
    """Notifies the controller of the new topic `t`. The writes of the partition states stay
    pending."""
    host.world.nodes.create_topic("t", partitions, host.world.spare_id())
    host.give(TopicsSeen([*host.world.nodes.topics]))
    host.read_one()
    work(host)


def work(host: Host) -> list[Send]:
    """Lets the controller complete its work, and returns the requests that it sends."""
    sends = list[Send]()
    while host.more:
        sends += host.work().sends
    return sends


def results(host: Host, among: int, failed: frozenset[int] = frozenset()) -> Written:
    """Completes the first ``among`` pending writes, and returns their results. A write for a
    partition in ``failed`` fails."""
    done = []
    for _ in range(among):
        write = host.writes[0]
        if isinstance(write, CreateState | SetState) and write.partition in failed:
            done.append(WriteResult(host.writes.popleft().ticket, Result.FAILED))
        else:
            done.append(host.write_one())
    return Written(done)


def land(host: Host, failed: frozenset[int] = frozenset()) -> list[Send]:
    """Completes all pending writes, `MULTI` at a time. Returns the requests that the controller
    sends."""
    sends = list[Send]()
    while host.writes:
        outcome: Outcome = host.give(results(host, min(MULTI, len(host.writes)), failed))
        sends += outcome.sends
        sends += work(host)
    return sends


def shown(sends: list[Send], broker_id: int) -> list[list[int]]:
    """Returns the partitions in each UpdateMetadata request to a broker. Requests without
    partitions are omitted."""
    return [
        sorted(each.partition for topic in send.topics for each in topic.partitions)
        for send in sends
        if isinstance(send, UpdateMetadataRequest) and send.broker_id == broker_id and send.topics
    ]


def three_topics(*broker_ids: int) -> World:
    """Returns a cluster with three topics and no pending work. Each of the brokers has replicas of
    all partitions."""
    world = World(4)
    for broker_id in broker_ids:
        world.register(broker_id)
    for name in THREE:
        world.nodes.create_topic(name, assignments(MANY, *broker_ids), world.spare_id())
    world.elect().settle()
    return world


def wholes(sends: list[Send], broker_id: int) -> list[str]:
    """Returns the topics in the UpdateMetadata requests to a broker, in order. Checks that the
    first entry of each topic contains all partitions of the topic."""
    topics = [
        topic
        for send in sends
        if isinstance(send, UpdateMetadataRequest) and send.broker_id == broker_id
        for topic in send.topics
        if topic.partitions[0].leader != LEADER_OF_DELETED
    ]
    first: dict[str, int] = {}
    for topic in topics:
        first.setdefault(topic.name, len(topic.partitions))
    assert set(first.values()) <= {MANY}, first
    return [*first]


def queued(host: Host) -> list[Send]:
    """Returns all requests that wait to be sent to brokers."""
    return [each for channel in host.channels.values() for each in channel]


def test_new_topic_is_sent_when_all_its_partitions_have_leaders() -> None:
    host = cluster(1, 2)
    seen(host, assignments(MANY, 1, 2))

    sends = land(host)

    assert shown(sends, 1) == shown(sends, 2) == [[*range(MANY)]]
    told = [each for each in sends if isinstance(each, LeaderAndIsrRequest)]
    assert len(told) > 2  # sent without waiting for the whole topic
    assert isinstance(sends[0], LeaderAndIsrRequest)


def test_partitions_added_to_a_topic_are_sent_together() -> None:
    host = cluster(1, 2)
    seen(host, assignments(2, 1, 2))
    host.settle()
    world = host.world
    world.nodes.rewrite_topic("t", partitions=assignments(MANY, 1, 2))

    host.give(TopicSeen(world.nodes.topics["t"], world.spare_id("t")))
    work(host)
    sends = land(host)

    assert shown(sends, 1) == shown(sends, 2) == [[*range(2, MANY)]]


def test_partition_without_a_live_replica_does_not_delay_its_topic() -> None:
    host = cluster(1, 2)
    seen(host, {**assignments(MANY, 1, 2), MANY: replicas(3)})

    assert shown(land(host), 1) == [[*range(MANY)]]


def test_partition_state_is_sent_to_brokers_when_the_retry_of_a_failed_write_succeeds() -> None:
    host = cluster(1, 2)
    seen(host, assignments(MANY, 1, 2))

    assert shown(land(host, frozenset({7, 599})), 1) == [
        [each for each in range(MANY) if each not in (7, 599)]
    ]
    for _ in ("the state is read", "it is written"):
        host.now_ms += RETRY_MS
        host.give(Tick())
        host.settle()

    assert host.world.brokers[1].shown.keys() == {("t", each) for each in range(MANY)}


def test_partition_states_that_already_existed_are_sent_together_with_the_new_states() -> None:
    host = cluster(1, 2)
    seen(host, assignments(MANY, 1, 2))
    written = host.write_one()
    host.give(Written([WriteResult(written.ticket, Result.NODE_EXISTS)]))

    assert shown(land(host), 1) == []
    host.read_one()

    sends = queued(host)
    assert shown(sends, 1) == shown(sends, 2) == [[*range(MANY)]]


def test_broker_that_registers_during_a_topic_creation_receives_the_whole_topic() -> None:
    host = cluster(1, 2)
    seen(host, assignments(MANY, 1, 2))
    host.give(results(host, MULTI))
    work(host)
    world = host.world
    world.register(3)

    sends = [*host.give(world.see_brokers()).sends, *work(host)]
    assert shown(sends, 3) == []

    assert shown(land(host), 3) == [[*range(MANY)]]


def test_topic_that_is_deleted_during_its_creation_is_not_sent() -> None:
    host = cluster(1, 2)
    seen(host, assignments(MANY, 1, 2))
    host.give(results(host, MULTI))
    work(host)
    del host.world.nodes.topics["t"]

    sends = [*host.give(TopicGone("t")).sends, *work(host), *land(host)]

    assert shown(sends, 1) == []


def test_topic_that_is_deleted_while_partitions_are_added_is_removed() -> None:
    host = cluster(1, 2)
    seen(host, assignments(2, 1, 2))
    host.settle()
    world = host.world
    world.nodes.rewrite_topic("t", partitions=assignments(MANY, 1, 2))
    host.give(TopicSeen(world.nodes.topics["t"], world.spare_id("t")))
    work(host)
    world.nodes.deletions.add("t")

    host.give(DeletionsSeen(["t"]))
    host.settle()

    assert not world.nodes.topics
    assert not any(each.shown or each.directories for each in world.brokers.values())


def test_new_controller_sends_all_partitions_of_a_topic_together() -> None:
    world = World(4)
    world.register(1)
    world.register(2)
    world.nodes.create_topic("t", assignments(MANY, 1, 2), world.spare_id())
    world.elect().settle()

    host = world.elect(2)
    host.settle(answers=False)

    sends = queued(host)
    assert shown(sends, 1) == shown(sends, 2) == [[*range(MANY)]]


def test_registered_broker_receives_all_partitions_of_a_topic_together() -> None:
    world = three_topics(2, 3)
    host = world.hosts[-1]
    world.unregister(3)
    host.give(world.see_brokers())
    host.settle()
    world.register(3)

    first = host.give(world.see_brokers()).sends
    sends = [*first, *work(host), *land(host)]

    hears = [each for each in first if each.broker_id == 3]
    assert isinstance(hears[0], UpdateMetadataRequest)  # followers need their leader in it
    assert {each.broker_id for each in hears[0].brokers} == {2, 3}
    assert isinstance(hears[1], LeaderAndIsrRequest)  # sent without waiting for the whole topic
    assert shown(hears, 3) == []
    assert wholes(sends, 3) == [*THREE]


def test_registered_broker_receives_the_topics_of_its_replicas_first() -> None:
    world = three_topics(1, 2)
    world.nodes.rewrite_topic("t2", partitions=assignments(MANY, 3))
    host = world.elect()
    host.settle()
    world.register(3)

    assert wholes([*host.give(world.see_brokers()).sends, *work(host)], 3)[0] == "t2"


def test_new_broker_receives_partition_states_that_change_while_it_receives_the_topics() -> None:
    world = three_topics(2, 1)
    host = world.hosts[-1]
    world.register(3)
    first = host.give(world.see_brokers()).sends
    assert shown([*first], 3) == []  # the controller has processed a part of the first topic
    world.unregister(2)
    sends = [*first, *host.give(world.see_brokers()).sends, *work(host), *land(host)]

    assert wholes(sends, 3) == [*THREE]
    for send in queued(host):
        if send.broker_id == 3:
            world.brokers[3].take(send)
    assert set(world.brokers[3].shown.values()) == {1}


def test_broker_that_restarts_while_it_receives_the_topics_gets_all_topics_again() -> None:
    world = three_topics(1, 2)
    host = world.hosts[-1]
    world.register(3)
    host.give(world.see_brokers())
    host.work()
    host.work()
    world.register(3)

    assert wholes([*host.give(world.see_brokers()).sends, *work(host)], 3) == [*THREE]


def test_new_broker_does_not_receive_a_topic_that_is_deleted_before_it_is_sent() -> None:
    world = three_topics(1, 2)
    host = world.hosts[-1]
    world.register(3)
    host.give(world.see_brokers())
    del world.nodes.topics["t0"]
    sends = [*host.give(TopicGone("t0")).sends]
    world.nodes.deletions.add("t1")
    host.give(DeletionsSeen(["t1"]))

    sends += work(host)
    host.settle()

    assert wholes(sends, 3) == ["t2"]
    assert {topic for topic, _ in world.brokers[3].shown} == {"t2"}


def test_broker_that_registers_during_an_election_receives_whole_topics() -> None:
    world = three_topics(1, 2)
    host = world.elect(2)
    host.work()
    host.work()  # the first topic is complete, the second in part
    world.register(3)

    sends = [*host.give(world.see_brokers()).sends, *work(host), *land(host)]

    assert sorted(wholes(sends, 3)) == [*THREE]
    assert wholes(queued(host), 1) == wholes(queued(host), 2) == [*THREE]


def test_new_controller_sends_the_stored_partition_state_when_a_write_of_a_new_state_failed() -> (
    None
):
    world = three_topics(2, 1)
    world.unregister(2)
    host = world.elect()
    work(host)

    land(host, frozenset({7, 599}))

    assert wholes(queued(host), 1) == [*THREE]
