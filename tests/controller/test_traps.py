"""Cases that controllers often handle wrongly: invalid states, old epochs and repeated facts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.calls import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Call,
    ControlledShutdown,
    ElectLeaders,
    IsrChange,
    ListReassignments,
)
from controller.config import ControllerConfig
from controller.controller import SLICE, Controller
from controller.events import OtherController
from controller.facts import (
    Answered,
    BrokersSeen,
    DeletionsSeen,
    Fact,
    PreferredSeen,
    Ready,
    ReassignmentsSeen,
    Resigned,
    Result,
    StatesRead,
    Tick,
    TopicGone,
    TopicSeen,
    TopicsSeen,
    UncleanSeen,
    WriteResult,
    Written,
)
from controller.outcome import CreateState, SetState
from controller.requests import LeaderAndIsrRequest, UpdateMetadataRequest
from controller.values import NO_LEADER, Assignment, LeaderAndIsr
from protocol.now import Now
from tests.controller.test_stories import T0, cluster
from tests.controller.world import Host, World, replicas

NOW = Now(0, 0)


def begun(states: dict[int, LeaderAndIsr | None], partitions: dict[int, Assignment]) -> Host:
    """Returns a newly elected controller that has read these partition states of topic t."""
    world = World(3)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    world.nodes.create_topic("t", partitions, world.spare_id())
    world.nodes.states = {
        ("t", i): state._replace(written=world.nodes.zxid)
        for i, state in states.items()
        if state is not None
    }
    return world.elect()


@pytest.mark.parametrize("unclean", [False, True])
def test_partition_with_an_empty_isr_gets_a_leader_only_by_unclean_election(unclean: bool) -> None:
    host = begun({0: LeaderAndIsr(NO_LEADER, 4, (), 0, False, 6)}, {0: replicas(1, 2)})
    host.world.nodes.unclean["t"] = unclean
    host.settle()

    state = host.world.nodes.states[T0]
    assert state[:3] == ((1, 5, (1,)) if unclean else (NO_LEADER, 4, ()))
    assert state.recovering is unclean


@pytest.mark.proves("clusters 22")
def test_invalid_partition_states_are_read_and_corrected_where_possible() -> None:
    host = begun(
        {
            0: LeaderAndIsr(1, 3, (), 0),  # a leader outside its ISR
            1: LeaderAndIsr(7, 3, (7, 8), 0),  # unknown brokers
            2: LeaderAndIsr(1, 3, (1, 3), 0),  # a member that is not a replica
            3: None,
        },
        {0: replicas(1, 2), 1: replicas(7, 8), 2: replicas(1, 2), 3: replicas(), 4: replicas(9)},
    )
    host.settle()

    states = host.world.nodes.states
    assert states[T0][:3] == (1, 3, ())
    assert states["t", 1][:3] == (NO_LEADER, 4, (7, 8))
    assert states["t", 2][:3] == (1, 4, (1,))
    assert ("t", 3) not in states
    assert ("t", 4) not in states


@pytest.mark.proves("clusters 22")
def test_deletion_of_unknown_topics_or_topics_without_partitions_is_completed() -> None:
    world = World(1)
    world.register(1)
    world.nodes.deletions = {"empty", "nothing"}
    world.nodes.create_topic("empty", {}, None)

    host = world.elect()
    host.settle()

    assert not world.nodes.deletions
    assert not world.nodes.topics


@pytest.mark.parametrize(
    "fact",
    [
        TopicGone("nothing"),
        StatesRead([(("nothing", 0), None), (("nothing", 1), LeaderAndIsr(1, 1, (1,), 1))]),
        StatesRead([(T0, None)]),
        UncleanSeen("nothing", True),
        Written([WriteResult(999, Result.BAD_VERSION)]),
        PreferredSeen([]),
        ReassignmentsSeen({}),
        DeletionsSeen([]),
        Ready(),
        Tick(),
    ],
)
def test_controller_changes_nothing_after_an_outdated_or_unexpected_notification(
    fact: Fact,
) -> None:
    host = cluster()
    before = dict(host.world.nodes.states)

    outcome = host.give(fact)
    host.settle()

    assert not outcome.sends
    assert host.world.nodes.states == before


def test_facts_that_the_controller_receives_again_have_no_effect() -> None:
    host = cluster()
    nodes = host.world.nodes
    topic = nodes.topics["t"]
    facts: list[Fact] = [
        host.world.see_brokers(),
        TopicsSeen(["t"]),
        TopicSeen(topic, host.world.spare_id()),
        TopicSeen(topic._replace(znode_version=0, topic_id=None), host.world.spare_id()),
        StatesRead([*nodes.states.items()]),
        BrokersSeen([each._replace(epoch=each.epoch - 1) for each in nodes.brokers.values()]),
    ]
    for fact in facts:
        outcome = host.give(fact)
        came = (*outcome.writes, *outcome.sends, *outcome.reads, *outcome.events)
        assert not came, fact


def test_changed_broker_registration_is_sent_to_all_brokers() -> None:
    host = cluster()
    broker = host.world.nodes.brokers[2]
    host.world.nodes.brokers[2] = broker._replace(rack="r1")

    outcome = host.give(host.world.see_brokers())

    assert [type(each) for each in outcome.sends] == [UpdateMetadataRequest] * 3
    assert not outcome.writes


@pytest.mark.proves("clusters 10")
def test_update_metadata_includes_brokers_in_controlled_shutdown() -> None:
    host = cluster()
    outcome = host.give(ControlledShutdown("bye", 1, -1))
    outcome = host.give(Written([host.write_one() for _ in outcome.writes]))

    shown = [each for each in outcome.sends if isinstance(each, UpdateMetadataRequest)]
    assert len(shown) == 3
    assert all({b.broker_id for b in each.brokers} == {1, 2, 3} for each in shown)


@pytest.mark.proves("clusters 13")
@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (0, 77), (1, 0), (99, 0)])
def test_controlled_shutdown_checks_the_broker_epoch(epoch: int, error: int) -> None:
    host = cluster()
    host.give(ControlledShutdown("bye", 1, epoch))
    host.settle()

    assert host.replies["bye"].error_code == error


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (AlterPartition("call", 1, 0, []), 77),
        (AlterPartition("call", 1, 99, []), 77),
        (AlterPartition("call", 9, 1, []), 77),
        (AlterPartition("call", 1, 1, []), 0),
        (AllocateProducerIds("call", 9, 1), 102),
        (AllocateProducerIds("call", 1, 0), 77),
        (ControlledShutdown("call", 9, -1), 8),
        (ElectLeaders("call", False, []), 0),
        (AlterReassignments("call", {}), 0),
    ],
)
def test_controller_refuses_an_invalid_call_immediately(call: Call, error: int) -> None:
    host = cluster()
    host.give(call)

    assert host.replies["call"].error_code == error


def test_controller_ignores_a_response_that_a_broker_sent_before_it_registered_again() -> None:
    host = cluster()
    world = host.world
    world.nodes.deletions.add("t")
    host.give(DeletionsSeen(["t"]))
    channel = (1, world.brokers[1].epoch)
    stale = host.channels[channel][-1]
    world.register(1)
    host.give(world.see_brokers())

    outcome = host.give(Answered(stale, 0, {T0: 0}))

    assert not outcome.writes
    assert all(each.broker_epoch != channel[1] for each in outcome.sends)
    host.settle()
    assert not world.nodes.topics


def test_requests_to_a_restarted_broker_have_its_new_epoch() -> None:
    host = cluster()
    host.world.register(1)

    outcome = host.give(host.world.see_brokers())

    to_it = [each for each in outcome.sends if each.broker_id == 1]
    assert {each.broker_epoch for each in to_it} == {host.world.brokers[1].epoch}
    assert isinstance(to_it[0], UpdateMetadataRequest)


@pytest.mark.proves("clusters 9")
def test_controller_sends_update_metadata_before_leader_and_isr_to_a_started_broker() -> None:
    """A follower ignores a leader that its metadata does not contain."""
    host = cluster(1, 2, topics={"t": {0: (1, 3)}})
    host.world.register(3)

    outcome = host.give(host.world.see_brokers())

    heard = [type(each) for each in outcome.sends if each.broker_id == 3]
    assert heard[:2] == [UpdateMetadataRequest, LeaderAndIsrRequest]
    shown = [each for each in outcome.sends if isinstance(each, UpdateMetadataRequest)]
    assert all({b.broker_id for b in each.brokers} == {1, 2, 3} for each in shown)


def test_partition_state_deleted_by_another_process_is_created_with_a_later_epoch() -> None:
    host = cluster()
    world = host.world
    del world.nodes.states[T0]
    world.unregister(1)
    host.give(world.see_brokers())
    host.settle()

    assert world.nodes.states[T0][:3] == (2, 1, (2, 3))


def test_partition_state_that_a_later_controller_wrote_is_not_overwritten() -> None:
    host = cluster()
    world = host.world
    later = world.nodes.states[T0]._replace(controller_epoch=9, partition_epoch=5)
    world.nodes.states[T0] = later
    world.unregister(1)
    host.give(world.see_brokers())
    result = host.write_one()
    assert result.result is Result.BAD_VERSION
    host.give(Written([result]))
    host.read_one()

    assert OtherController("t", 0, 9) in host.events


def test_topic_creation_is_retried_when_the_existing_state_is_unreadable() -> None:
    host = cluster(topics={"t": {}})
    world = host.world
    world.nodes.rewrite_topic("t", partitions={0: replicas(1)})
    host.give(TopicSeen(world.nodes.topics["t"], b""))
    (write,) = host.writes
    assert isinstance(write, CreateState)
    host.give(Written([WriteResult(write.ticket, Result.NODE_EXISTS)]))

    outcome = host.give(StatesRead([(T0, None)]))

    assert not outcome.writes
    assert host.controller.next_deadline() == 1000


def every_call() -> list[Call]:
    change = IsrChange("t", None, 0, 0, 0, (1, 2))
    return [
        AlterPartition(1, 1, 1, [change]),
        ControlledShutdown(2, 1, 1),
        ElectLeaders(3, False, [T0]),
        AlterReassignments(4, {T0: (2, 3)}),
        ListReassignments(5, None),
        AllocateProducerIds(6, 1, 1),
    ]


ERRORS = {1: 41, 2: 11, 3: 41, 4: 41, 5: 41, 6: 41}


@pytest.mark.parametrize("resigned", [False, True])
def test_controller_that_is_not_ready_or_has_resigned_refuses_calls(resigned: bool) -> None:
    controller = Controller(ControllerConfig(1), 1)
    if resigned:
        controller.handle(Ready(), NOW)
        assert controller.handle(Resigned(), NOW).resign
    for call in every_call():
        ((ticket, reply),) = controller.handle(call, NOW).replies
        assert reply.error_code == ERRORS[ticket]


def test_parked_calls_are_refused_when_the_controller_resigns() -> None:
    host = cluster()
    for call in every_call():
        host.give(call)
    outcome = host.give(Resigned())

    assert {ticket: reply.error_code for ticket, reply in outcome.replies} == {
        ticket: error for ticket, error in ERRORS.items() if ticket != 5
    }
    assert not (*outcome.writes, *outcome.sends, *outcome.reads)
    assert not outcome.more
    assert host.controller.next_deadline() is None


@pytest.mark.proves("clusters 24")
def test_reassignment_waits_until_all_target_replicas_are_in_the_isr() -> None:
    host = cluster(1, 2, 3, 4, topics={"t": {0: (1, 2)}})
    world = host.world
    host.give(world.isr_asked("shrink", 1, {T0: (1,)}))
    host.settle()
    host.give(AlterReassignments("move", {T0: (2, 3)}))
    host.settle()
    host.give(world.isr_asked("added", 1, {T0: (1, 3)}))
    host.settle()
    assert world.nodes.topics["t"].partitions[0].removing == (1,)
    assert world.nodes.states[T0].leader == 1

    host.give(world.isr_asked("all", 1, {T0: (1, 3, 2)}))
    host.settle()

    assert world.nodes.topics["t"].partitions[0] == ((2, 3), (), ())
    assert world.nodes.states[T0].leader == 2


def test_new_controller_continues_a_reassignment() -> None:
    host = cluster(1, 2, 3, 4)
    world = host.world
    host.give(AlterReassignments("move", {T0: (4, 2)}))
    host.settle()

    newer = world.elect(2)
    newer.settle()
    newer.give(world.isr_asked("isr", 1, {T0: (1, 2, 3, 4)}))
    newer.settle()

    assert world.nodes.topics["t"].partitions[0] == ((4, 2), (), ())
    assert world.nodes.states[T0][:3] == (4, 5, (2, 4))


def test_cancellation_of_a_reassignment_is_refused_if_it_leaves_no_live_isr_member() -> None:
    host = cluster(1, 2, 3, 4, topics={"t": {0: (1, 2)}})
    world = host.world
    host.give(AlterReassignments("move", {T0: (3, 4)}))
    host.settle()
    host.give(world.isr_asked("isr", 1, {T0: (1, 2, 3)}))
    host.settle()
    for broker_id in (1, 2):
        world.unregister(broker_id)
        host.give(world.see_brokers())
        host.settle()
    assert world.nodes.states[T0][:1] == (3,)

    host.give(AlterReassignments("cancel", {T0: None}))
    host.settle()

    code, text = host.replies["cancel"].partitions[T0]  # type: ignore[union-attr]
    assert code == 39
    assert "records could be lost" in text
    assert world.nodes.states[T0].leader == 3


def large(partitions: int) -> Host:
    world = World(3)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    for topic in range(partitions // 50):
        ids = [tuple((i + j) % 3 + 1 for j in range(3)) for i in range(50)]
        assignments = {i: replicas(*each) for i, each in enumerate(ids)}
        world.nodes.create_topic(f"t{topic}", assignments, world.spare_id())
    host = world.elect()
    host.settle()
    return host


@pytest.mark.parametrize("event", ["dies", "returns", "stops", "is elected"])
def test_controller_work_on_a_large_cluster_is_done_in_slices(event: str) -> None:
    host = large(2_000)
    world = host.world
    outcomes = []
    take = Host.take

    def noting(self: Host, outcome: object) -> object:
        outcomes.append(outcome)
        return take(self, outcome)  # type: ignore[arg-type]

    steps: dict[str, Callable[[], None]] = {
        "dies": lambda: world.unregister(3),
        "returns": lambda: world.register(3),
        "stops": lambda: None,
        "is elected": lambda: None,
    }
    steps[event]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Host, "take", noting)
        if event == "is elected":
            host = world.elect(2)
        elif event == "stops":
            host.give(ControlledShutdown("bye", 3, -1))
        else:
            host.give(world.see_brokers())
        host.settle()

    assert max(len(each.writes) for each in outcomes) <= SLICE
    told = [
        sum(len(topic.partitions) for topic in send.topics)
        for each in outcomes
        for send in each.sends
        if isinstance(send, LeaderAndIsrRequest)
    ]
    assert max(told, default=0) <= SLICE
    leaders = {state.leader for state in world.nodes.states.values()}
    assert leaders <= ({1, 2} if event in ("dies", "stops") else {1, 2, 3})
    assert sum(isinstance(each, SetState) for o in outcomes for each in o.writes) <= 2_000


def test_partition_without_a_stored_state_is_reassigned_immediately() -> None:
    host = cluster(1, 2, topics={"t": {0: (4, 5)}})
    world = host.world
    assert T0 not in world.nodes.states

    host.give(AlterReassignments("move", {T0: (2, 1)}))
    host.settle()

    assert host.replies["move"].partitions == {T0: (0, "")}  # type: ignore[union-attr]
    assert world.nodes.topics["t"].partitions[0] == ((2, 1), (), ())
    assert world.nodes.states[T0][:3] == (2, 0, (2, 1))


@pytest.mark.proves("clusters 24")
def test_first_target_replica_is_the_preferred_leader_during_and_after_reassignment() -> None:
    host = cluster(1, 2, 3, topics={"t": {0: (1, 2)}})
    world = host.world
    host.give(AlterReassignments("move", {T0: (3, 1)}))
    host.settle()
    host.give(ElectLeaders("too early", False, [T0]))
    host.settle()
    assert host.replies["too early"].partitions[T0][0] == 80  # type: ignore[union-attr]

    host.give(world.isr_asked("all", 1, {T0: (1, 2, 3)}))
    host.settle()
    assert world.nodes.topics["t"].partitions[0] == ((3, 1), (), ())
    assert world.nodes.states[T0].leader == 1, "it may go on"
    host.give(ElectLeaders("now", False, [T0]))
    host.settle()

    assert world.nodes.states[T0].leader == 3
