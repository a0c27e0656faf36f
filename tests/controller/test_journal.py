"""The journal entries about leaders, ISRs, brokers and topics contain the reason from the
controller's event."""

from __future__ import annotations

from controller.events import (
    BrokerJoined,
    BrokerLeft,
    Cause,
    ControllerReady,
    DeletionQueued,
    Event,
    LogDirsFailed,
    ReassignmentDone,
    ReassignmentStarted,
    RequestRefused,
    ShutdownAsked,
    StateWritten,
    TopicRemoved,
)
from controller.journal import Story
from controller.states import PartitionState
from controller.values import NO_LEADER, Assignment, Replicas
from journal.happened import Happened
from protocol.now import Now

READY = ControllerReady(4, (1, 2, 3), 1, 1)


def entries_of(*events: Event) -> list[tuple[str, Happened]]:
    story = Story(1)
    found = [story.entry(event, Now(0, 77)) for event in (READY, *events)]
    return [each for each in found[1:] if each is not None]


def written(
    cause: Cause, before: int, leader: int, isr: Replicas, isr_before: Replicas = (1, 2, 3)
) -> StateWritten:
    """Returns the controller's event about a write of the state of t-0."""
    state = PartitionState.OFFLINE if leader == NO_LEADER else PartitionState.ONLINE
    return StateWritten("t", 0, state, cause, leader, before, 7, isr, isr_before)


def why(*events: Event) -> str:
    """Returns the reason in the last journal entry."""
    name, entry = entries_of(*events)[-1]
    assert name == "t-0"
    assert (entry.at_ms, entry.controller_epoch, entry.leader_epoch) == (77, 4, 7)
    return entry.why


def test_journal_entry_of_a_lost_leader_has_the_reason_of_the_loss() -> None:
    moved = written(Cause.OFFLINE, 3, 1, (1, 2))
    first = "; broker 1 is the first live member of the ISR"

    assert (
        why(BrokerLeft(3, 9), moved)
        == f"the leader, broker 3, is no longer registered in ZooKeeper{first}"
    )
    assert why(ShutdownAsked(3), written(Cause.SHUTDOWN, 3, 1, (1, 2))) == (
        f"the leader, broker 3, is in controlled shutdown{first}"
    )
    assert why(ShutdownAsked(3), BrokerLeft(3, 9), moved) == (
        f"the leader, broker 3, has shut down cleanly{first}"
    )
    assert why(BrokerLeft(3, 9), BrokerJoined(3, 10, bounced=True), moved) == (
        f"the leader, broker 3, has restarted{first}"
    )
    assert why(BrokerLeft(3, 9), BrokerJoined(3, 10, bounced=False), moved) == (
        f"the leader, broker 3, was briefly unregistered{first}"
    )
    assert why(LogDirsFailed(3, (("t", 0),)), moved) == (
        f"the leader, broker 3, has lost the log directory of this replica{first}"
    )
    assert why(written(Cause.OFFLINE, 4, 1, (1, 2))) == (
        f"the leader, broker 4, was down when this controller was elected{first}"
    )


def test_journal_entry_of_a_leaderless_partition_names_the_dead_isr_members() -> None:
    assert why(BrokerLeft(3, 9), written(Cause.OFFLINE, 3, NO_LEADER, (3,), (3,))) == (
        "the leader, broker 3, is no longer registered in ZooKeeper; no member of the ISR (3) is"
        " alive"
    )
    assert why(written(Cause.OFFLINE, NO_LEADER, 3, (3,), (3,))) == (
        "broker 3, a member of the ISR, has returned"
    )
    assert why(written(Cause.UNCLEAN, NO_LEADER, 1, (1,), (3,))) == (
        "no member of the ISR (3) is alive; an unclean election is enabled or was requested:"
        " records that only the ISR had are lost"
    )


def test_journal_entry_of_a_requested_leader_change_has_its_reason() -> None:
    assert why(written(Cause.PREFERRED, 2, 1, (1, 2, 3))) == (
        "the election of the preferred leader, broker 1, was requested"
    )
    assert why(written(Cause.BALANCE, 2, 1, (1, 2, 3))) == (
        "broker 1, the preferred leader, is in the ISR again, and auto.leader.rebalance.enable is"
        " set"
    )
    assert why(written(Cause.CREATED, NO_LEADER, 1, (1, 2, 3), ())) == (
        "elected when the partition was created"
    )
    assert (
        why(written(Cause.REASSIGNED, 2, 1, (1, 3)))
        == "the partition's replicas are being reassigned"
    )


def test_journal_entry_of_an_isr_change_names_its_cause() -> None:
    assert why(BrokerLeft(3, 9), written(Cause.OFFLINE, 1, 1, (1, 2))) == (
        "broker 3 is no longer registered in ZooKeeper"
    )
    assert why(written(Cause.ISR, 1, 1, (1, 2))) == (
        "the leader, broker 1, changed the ISR: removed broker 3"
    )
    assert why(written(Cause.ISR, 1, 1, (1, 3), (1, 2))) == (
        "the leader, broker 1, changed the ISR: removed broker 2, added broker 3"
    )


def test_write_of_an_unchanged_partition_state_adds_no_journal_entry() -> None:
    assert entries_of(written(Cause.REASSIGNED, 1, 1, (1, 2, 3))) == []


def test_journal_entries_of_brokers_and_topics_have_name_cause_and_reason() -> None:
    way = Assignment((2, 3, 1), (3,), (1,))
    found = [
        (name, entry.cause, entry.why)
        for name, entry in entries_of(
            BrokerLeft(3, 9),
            DeletionQueued("t", (3,)),
            TopicRemoved("t"),
            ReassignmentStarted("u", 1, way, (2, 1)),
            ReassignmentDone("u", 1, (2, 3)),
            RequestRefused(2, "LeaderAndIsr", 11),
        )
    ]

    assert found == [
        ("broker 3", "gone", "broker 3 is no longer registered in ZooKeeper"),
        (
            "topic t",
            "queued",
            "the deletion of the topic was requested; the deletion waits for broker 3 to return",
        ),
        ("topic t", "deleted", "the topic is deleted"),
        ("u-1", "started", "reassignment started from replicas 2, 1 to 2, 3"),
        ("u-1", "done", "reassignment completed: the replicas are 2, 3"),
        ("broker 2", "refused", "broker 2 refused LeaderAndIsr: STALE_CONTROLLER_EPOCH"),
    ]
