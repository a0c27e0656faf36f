"""StreamsGroupHeartbeat: the order of the checks, the written records, the statuses and the
replies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator import on_command
from coordinator.calls import OffsetCommit, TopicOffsets
from coordinator.config import StreamsSettings
from coordinator.consumer.events import EpochBumped, EpochCause, GroupReconciled, TargetComputed
from coordinator.events import Assigned, Cause, JoinRefused
from coordinator.outcome import EndpointTopics, StreamsHeartbeatReply
from coordinator.streams.states import StreamsGroupState
from coordinator.topics_image import Topic
from offsets.streams_records import (
    Endpoint,
    InternalTopic,
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    Subtopology,
    TaskRoles,
    Topology,
)
from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    NONE,
    STREAMS_INVALID_TOPOLOGY,
    UNKNOWN_MEMBER_ID,
)
from tests.coordinator.consumer.groups import WALL_MS
from tests.coordinator.streams.groups import (
    GROUP,
    NO_TASKS,
    STATEFUL,
    STORE,
    SUB,
    TOPOLOGY,
    StreamsGroups,
)

SETTINGS = (("num.standby.replicas", "0"),)
INITIAL_DELAY = "Assignment delayed due to the configured initial rebalance delay."
INTERVAL = "Assignment delayed due to the configured assignment interval."
JOIN: dict[str, Any] = {
    "epoch": 0,
    "rebalance_timeout_ms": 1,
    "topology": TOPOLOGY,
    "active": NO_TASKS,
    "standby": NO_TASKS,
    "warmup": NO_TASKS,
}


@pytest.fixture
def groups() -> StreamsGroups:
    return StreamsGroups()


# ------------------------------------------------------------------------------------- the checks

MALFORMED: list[tuple[dict[str, Any], int, str]] = [
    (
        {"instance_id": "i", "has_task_offsets": True, "member_id": ""},
        INVALID_REQUEST,
        "Static membership is not yet supported.",
    ),
    (
        {"has_task_offsets": True, "has_task_end_offsets": True},
        INVALID_REQUEST,
        "TaskOffsets are not supported yet.",
    ),
    (
        {"has_task_end_offsets": True, "warmup": {SUB: (0,)}},
        INVALID_REQUEST,
        "TaskEndOffsets are not supported yet.",
    ),
    (
        {"warmup": {SUB: (0,)}, "member_id": ""},
        INVALID_REQUEST,
        "WarmupTasks are not supported yet.",
    ),
    (
        {"topology": Topology(0, (Subtopology(SUB, (), ("t.*",)),)), "member_id": ""},
        INVALID_REQUEST,
        "Regular expressions for source topics are not supported yet.",
    ),
    ({"member_id": " ", "group_id": ""}, INVALID_REQUEST, "MemberId can't be empty."),
    ({"group_id": " ", "rack_id": ""}, INVALID_REQUEST, "GroupId can't be empty."),
    ({"rack_id": " ", "epoch": 0}, INVALID_REQUEST, "RackId can't be empty."),
    (
        {**JOIN, "rebalance_timeout_ms": -1, "active": None},
        INVALID_REQUEST,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        {**JOIN, "active": None, "standby": None},
        INVALID_REQUEST,
        "ActiveTasks must be empty when (re-)joining.",
    ),
    (
        {**JOIN, "standby": {SUB: (0,)}, "topology": None},
        INVALID_REQUEST,
        "StandbyTasks must be empty when (re-)joining.",
    ),
    (
        {**JOIN, "warmup": None, "topology": None},
        INVALID_REQUEST,
        "WarmupTasks must be empty when (re-)joining.",
    ),
    (
        {**JOIN, "topology": None},
        INVALID_REQUEST,
        "Topology must be non-null when (re-)joining.",
    ),
    (
        {
            **JOIN,
            "topology": Topology(
                0,
                (Subtopology(SUB, ("t",), state_changelog_topics=(replace(STORE, partitions=1),)),),
            ),
        },
        STREAMS_INVALID_TOPOLOGY,
        "Changelog topic g-store-changelog must have an undefined partition count, but it is set to"
        " 1.",
    ),
    ({"epoch": -2, "active": NO_TASKS}, INVALID_REQUEST, "InstanceId can't be null."),
    (
        {"epoch": -3, "active": NO_TASKS},
        INVALID_REQUEST,
        "MemberEpoch is -3, but must be greater than or equal to -2.",
    ),
    (
        {"active": NO_TASKS, "topology": TOPOLOGY},
        INVALID_REQUEST,
        "If one task-type is non-null, all must be non-null.",
    ),
    (
        {"epoch": 7, "topology": TOPOLOGY, "group_id": "new"},
        INVALID_REQUEST,
        "Topology can only be provided when (re-)joining.",
    ),
]
REFUSED: list[tuple[dict[str, Any], int, str | None]] = [
    ({"epoch": -1, "group_id": "new"}, GROUP_ID_NOT_FOUND, "Group new not found."),
    ({"epoch": 1, "group_id": "new"}, GROUP_ID_NOT_FOUND, "Streams group new not found."),
    ({"epoch": -1, "group_id": "old"}, GROUP_ID_NOT_FOUND, "Group old is not a streams group."),
    ({"epoch": 7, "group_id": "old"}, GROUP_ID_NOT_FOUND, "Group old is not a streams group."),
    (
        {"epoch": -1, "member_id": "z"},
        UNKNOWN_MEMBER_ID,
        "Member z is not a member of group g.",
    ),
    ({"epoch": 4, "member_id": "z"}, UNKNOWN_MEMBER_ID, "Member z is not a member of group g."),
    (
        {**JOIN, "member_id": "z"},
        GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 2 members.",
    ),
    (
        JOIN,
        GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 2 members.",
    ),
    (
        {"epoch": 9},
        FENCED_MEMBER_EPOCH,
        "The streams group member has a greater member epoch (9) than the one known by the group"
        " coordinator (3). The member must abandon all its partitions and rejoin.",
    ),
    (
        {"epoch": 1},
        FENCED_MEMBER_EPOCH,
        "The streams group member has a smaller member epoch (1) than the one known by the group"
        " coordinator (3). The member must abandon all its partitions and rejoin.",
    ),
    (
        {"epoch": 3, "active": {"9": (0,)}, "standby": NO_TASKS, "warmup": NO_TASKS},
        INVALID_REQUEST,
        "Subtopology 9 does not exist in the topology.",
    ),
    (
        {"epoch": 3, "active": {SUB: (2,)}, "standby": NO_TASKS, "warmup": NO_TASKS},
        INVALID_REQUEST,
        "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2",
    ),
    ({"epoch": 3}, NONE, None),
    ({"epoch": -1}, NONE, None),
]


@pytest.mark.parametrize(("fields", "error", "text"), [*MALFORMED, *REFUSED])
def test_first_failing_check_of_a_streams_heartbeat_determines_the_error(
    fields: dict[str, Any], error: int, text: str | None
) -> None:
    groups = StreamsGroups(streams_max_size=2)
    commit = [TopicOffsets("t", [0], [1], [-1], None, None)]
    groups.ask(OffsetCommit("k", "old", -1, "", None, -1, commit))
    assert groups.stable("a", "b") == 3
    fields = dict(fields)
    reply = groups.send(fields.pop("member_id", "a"), fields.pop("epoch", 3), **fields)
    assert (reply.error_code, reply.error_message) == (error, text)
    if error:
        assert reply == StreamsHeartbeatReply(error, text)
        assert groups.written == []


@pytest.mark.parametrize(
    ("owned", "error"),
    [
        (None, FENCED_MEMBER_EPOCH),
        ({SUB: (1,)}, FENCED_MEMBER_EPOCH),
        ({"9": ()}, FENCED_MEMBER_EPOCH),
        ({}, NONE),
        ({SUB: (0,)}, NONE),
    ],
)
def test_previous_member_epoch_is_accepted_if_member_owns_only_assigned_tasks(
    groups: StreamsGroups, owned: dict[str, tuple[int, ...]] | None, error: int
) -> None:
    groups.stable("a", "b")
    assert groups.active("a") == {SUB: (0,)}
    lists = {} if owned is None else {"active": owned, "standby": {}, "warmup": {}}
    assert groups.send("a", 2, **lists).error_code == error


def test_topology_whose_partition_counts_cannot_be_derived_is_refused(
    groups: StreamsGroups,
) -> None:
    both = Subtopology(
        SUB, (), repartition_source_topics=(InternalTopic("r"),), repartition_sink_topics=("r",)
    )
    reply = groups.join("a", topology=Topology(0, (both,)))
    assert reply.error_code == STREAMS_INVALID_TOPOLOGY
    assert groups.written == []
    assert GROUP not in groups.shard.view.streams_groups


def test_changed_topology_is_refused_and_a_lower_topology_epoch_gets_status_stale(
    groups: StreamsGroups,
) -> None:
    groups.stable("a", topology=replace(TOPOLOGY, epoch=3))
    reply = groups.join("b", topology=replace(STATEFUL, epoch=3))
    assert (reply.error_code, reply.error_message) == (
        INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    reply = groups.join("b", topology=replace(STATEFUL, epoch=2))
    text = "The member's topology epoch 2 is behind the group's topology epoch 3."
    assert reply.status == ((0, text),)
    assert groups.send("b", 3).status == ((0, text),)
    assert groups.group.topology == replace(TOPOLOGY, epoch=3)


def test_order_of_subtopologies_does_not_change_the_topology(
    groups: StreamsGroups,
) -> None:
    groups.topics(u=1)
    first, second = Subtopology("0", ("t",)), Subtopology("1", ("u",))
    groups.join("a", topology=Topology(0, (first, second)))
    assert groups.join("b", topology=Topology(0, (second, first))).error_code == NONE


# ------------------------------------------------------------------------------------ the records


def test_first_member_writes_all_records_in_the_order_of_kafka(groups: StreamsGroups) -> None:
    reply = groups.join("a")
    metadata = StreamsMemberMetadata(
        None, None, "client", "/127.0.0.1", 60_000, 0, "process-a", None, ()
    )
    image_hash = groups.image.metadata_hash(["t"])
    assert groups.written == [
        StreamsMemberRecord("a", metadata),
        StreamsTopologyRecord(TOPOLOGY),
        StreamsEpochRecord(StreamsGroupEpoch(2, image_hash, 0, SETTINGS)),
        StreamsTargetRecord("a", TaskRoles({SUB: (0, 1)})),
        StreamsTargetEpochRecord(StreamsTargetEpoch(2, WALL_MS + 1_000)),
        StreamsCurrentRecord("a", StreamsCurrentAssignment(2, 0, 1, {SUB: {0: 2, 1: 2}})),
    ]
    assert reply == StreamsHeartbeatReply(
        NONE, None, "a", 2, 5_000, (), TaskRoles({SUB: (0, 1)}), 0, None
    )
    assert groups.group.state() is StreamsGroupState.STABLE


def test_heartbeat_without_a_change_writes_no_record_and_returns_no_assignment(
    groups: StreamsGroups,
) -> None:
    groups.join("a")
    for _ in range(2):
        reply = groups.send("a", 2)
        assert reply == StreamsHeartbeatReply(NONE, None, "a", 2, 5_000)
        assert groups.written == []
    assert groups.send("a", 2) is groups.send("a", 2)


def test_second_member_waits_until_the_first_member_gives_up_its_task(
    groups: StreamsGroups,
) -> None:
    groups.join("a")
    reply = groups.join("b")
    assert groups.kinds() == "19 17 21 21 20 22"
    assert (reply.member_epoch, reply.assignment) == (3, TaskRoles())
    assert groups.group.state() is StreamsGroupState.RECONCILING
    reply = groups.owning("a", 2, active={SUB: (0, 1)})
    assert (reply.member_epoch, reply.assignment) == (2, TaskRoles({SUB: (0,)}))
    assert groups.send("a", 2).assignment is None  # says nothing of its tasks
    assert groups.owning("b", 3).assignment is None  # task 1 is not released yet
    reply = groups.owning("a", 2, active={SUB: (0,)})
    assert (reply.member_epoch, reply.assignment) == (3, None)
    reply = groups.owning("b", 3)
    assert (reply.member_epoch, reply.assignment) == (3, TaskRoles({SUB: (1,)}))
    assert groups.group.state() is StreamsGroupState.STABLE
    groups.check_loaded()


def test_leaving_member_is_removed_by_tombstones_and_the_group_epoch_rises(
    groups: StreamsGroups,
) -> None:
    groups.stable("a", "b")
    before = groups.group.epoch
    reply = groups.send("b", -1)
    assert reply == StreamsHeartbeatReply(NONE, None, "b", -1)
    assert groups.kinds() == "22T 21T 19T 17"
    assert groups.group.epoch == replace(before, epoch=4)
    [left] = groups.left
    assert left.detail == "left"
    reply = groups.owning("a", 3, active={SUB: (0,)})
    assert groups.kinds() == "21 20 22"
    assert (reply.member_epoch, reply.assignment) == (4, TaskRoles({SUB: (0, 1)}))


def test_changed_process_id_of_a_streams_member_raises_the_group_epoch(
    groups: StreamsGroups,
) -> None:
    groups.join("a")
    reply = groups.send("a", 2, process_id="other")
    assert groups.kinds() == "19 17 20 22"
    assert reply.member_epoch == 3
    bumped = next(each for each in groups.events if isinstance(each, EpochBumped))
    assert bumped.cause is EpochCause.METADATA_CHANGED


def test_changed_number_of_standby_replicas_raises_the_epoch(groups: StreamsGroups) -> None:
    groups.topic(STORE.name, 2)
    groups.stable("a", "b", topology=STATEFUL)
    streams = StreamsSettings(
        assignment_interval_ms=0, initial_rebalance_delay_ms=0, num_standby_replicas=1
    )
    groups.config = replace(groups.config, streams=streams)
    groups.shard.configure(groups.config)
    groups.send("a", 3)
    bumped = next(each for each in groups.events if isinstance(each, EpochBumped))
    assert bumped.cause is EpochCause.SETTINGS_CHANGED
    groups.settle()
    current = {name: each.current for name, each in groups.group.members.items()}
    assert (groups.active("a"), current["a"].standby) == ({SUB: (0,)}, {SUB: (1,)})
    assert (groups.active("b"), current["b"].standby) == ({SUB: (1,)}, {SUB: (0,)})
    assert groups.group.epoch.last_assignment_configs == (("num.standby.replicas", "1"),)
    groups.check_loaded()


# ------------------------------------------------------------------------------------- the topics


def test_streams_member_gets_no_tasks_until_the_missing_source_topic_is_created(
    groups: StreamsGroups,
) -> None:
    topology = Topology(0, (Subtopology(SUB, ("later",)),))
    reply = groups.join("a", topology=topology)
    assert reply.status == ((1, "Source topics later are missing."),)
    assert (reply.member_epoch, reply.assignment) == (2, TaskRoles())
    assert groups.group.state() is StreamsGroupState.NOT_READY
    groups.topic("later", 3)
    reply = groups.send("a", 2)
    assert groups.kinds() == "17 21 20 22"
    assert (reply.status, reply.assignment) == ((), TaskRoles({SUB: (0, 1, 2)}))


def test_missing_internal_topic_sets_a_status_and_is_returned_for_creation(
    groups: StreamsGroups,
) -> None:
    reply = groups.join("a", topology=STATEFUL)
    assert reply.status == ((3, "Internal topics are missing: g-store-changelog"),)
    assert reply.missing_topics == (replace(STORE, partitions=2, replication_factor=-1),)
    assert groups.send("a", 2).missing_topics == reply.missing_topics
    groups.topic(STORE.name, 2)
    reply = groups.send("a", 2)
    assert (reply.status, reply.missing_topics) == ((), ())
    assert reply.assignment == TaskRoles({SUB: (0, 1)})


def test_group_epoch_rises_when_a_source_topic_gets_partitions(groups: StreamsGroups) -> None:
    groups.join("a")
    groups.image.put(Topic(b"other".ljust(16), "other", 1))
    groups.shard.topic_changed("other")
    assert groups.send("a", 2).member_epoch == 2
    groups.topics(t=3)
    reply = groups.send("a", 2)
    assert (reply.member_epoch, reply.assignment) == (3, TaskRoles({SUB: (0, 1, 2)}))
    bumped = next(each for each in groups.events if isinstance(each, EpochBumped))
    assert bumped.cause is EpochCause.TOPICS_CHANGED
    assert "more partitions" in bumped.detail


def test_tasks_are_revoked_when_their_source_topic_is_deleted(groups: StreamsGroups) -> None:
    groups.join("a")
    groups.topics(t=-1)
    reply = groups.owning("a", 2, active={SUB: (0, 1)})
    assert [code for code, _ in reply.status] == [1]
    assert reply.assignment == TaskRoles()
    assert groups.group.state() is StreamsGroupState.NOT_READY


# ------------------------------------------------------------------------------------- the delays


def test_initial_delay_collects_members_before_the_first_assignment() -> None:
    groups = StreamsGroups(delay_ms=3_000)
    for member_id in ("a", "b"):
        reply = groups.join(member_id)
        assert reply.status == ((5, INITIAL_DELAY),)
        assert (reply.member_epoch, reply.assignment) == (1, TaskRoles())
        groups.pass_ms(1_000)
    assert groups.send("a", 1).status == ((5, INITIAL_DELAY),)
    assert groups.group.state() is StreamsGroupState.ASSIGNING
    groups.pass_ms(1_000)
    assert groups.kinds() == "21 21 20"
    assert [type(each) for each in groups.events] == [TargetComputed]
    reply = groups.send("a", 1)
    assert (reply.status, reply.assignment) == ((), TaskRoles({SUB: (0,)}))
    assert reply.member_epoch == 3
    groups.check_loaded()


def test_initial_delay_begins_again_when_a_member_joins_an_empty_group() -> None:
    groups = StreamsGroups(delay_ms=3_000)
    groups.join("a")
    groups.pass_ms(3_000)
    groups.send("a", 1)
    groups.send("a", -1)
    reply = groups.join("b")
    assert reply.status == ((5, INITIAL_DELAY),)
    assert (reply.member_epoch, reply.assignment) == (2, TaskRoles())


def test_end_of_the_initial_delay_writes_no_record_in_an_empty_group() -> None:
    groups = StreamsGroups(delay_ms=3_000)
    groups.join("a")
    groups.send("a", -1)
    before = len(groups.log)
    groups.pass_ms(10_000)
    assert len(groups.log) == before


def test_assignment_is_returned_again_to_a_member_that_lists_no_tasks() -> None:
    groups = StreamsGroups()
    groups.join("a")
    lost = groups.owning("a", 1)
    lost = lost if lost.assignment is not None else groups.owning("a", lost.member_epoch)
    epoch, tasks = groups.group.members["a"].current.epoch, groups.active("a")
    again = groups.owning("a", epoch)
    assert tasks
    assert again.assignment == TaskRoles(active=tasks)
    assert groups.owning("a", epoch, active=tasks).assignment is None
    assert groups.send("a", epoch).assignment is None


def test_revocation_is_returned_again_to_a_member_that_still_lists_the_task() -> None:
    groups = StreamsGroups()
    epoch = groups.stable("a")
    owned = groups.active("a")
    groups.join("b")
    lost = groups.owning("a", epoch, active=owned)
    again = groups.owning("a", epoch, active=owned)
    assert lost.assignment is not None
    assert lost.assignment.active != owned
    assert again.assignment == lost.assignment


def test_assignment_interval_delays_the_next_target_assignment() -> None:
    groups = StreamsGroups(interval_ms=1_000)
    groups.join("a")
    reply = groups.join("b")
    assert reply.status == ((5, INTERVAL),)
    assert (reply.member_epoch, reply.assignment) == (2, TaskRoles())
    assert groups.kinds() == "19 17 22"
    groups.pass_ms(1_000)
    reply = groups.send("b", 2)
    assert groups.kinds() == "21 21 20 22"
    assert (reply.status, reply.member_epoch) == ((), 3)


# ------------------------------------------------------------------------- shutdown and endpoints


def test_all_streams_members_get_the_shutdown_status_until_the_group_is_empty(
    groups: StreamsGroups,
) -> None:
    groups.stable("a", "b")
    text = (
        "Streams group member a encountered a fatal error and requested a shutdown for the entire"
        " application."
    )
    assert groups.send("a", 3, shutdown_application=True).status == ((4, text),)
    assert groups.send("b", 3, shutdown_application=True).status == ((4, text),)
    assert groups.join("c").status == ((4, text),)
    for member_id in ("a", "b", "c"):
        groups.send(member_id, -1)
    assert groups.join("a").status == ()


def test_shutdown_may_be_requested_by_a_member_that_leaves(groups: StreamsGroups) -> None:
    groups.stable("a", "b")
    groups.send("b", -1, shutdown_application=True)
    assert [code for code, _ in groups.send("a", 3).status] == [4]


def test_heartbeat_response_has_endpoints_only_when_the_request_has_an_outdated_endpoint_epoch(
    groups: StreamsGroups,
) -> None:
    here, there = Endpoint("here", 1), Endpoint("there", 2)
    reply = groups.join("a", user_endpoint=here)
    assert (reply.endpoint_epoch, reply.endpoints) == (
        0,
        (EndpointTopics(here, [("t", (0, 1))], []),),
    )
    groups.join("b", user_endpoint=there)
    groups.settle()
    version = groups.group.endpoint_epoch
    expected = (
        EndpointTopics(there, [("t", (1,))], []),
        EndpointTopics(here, [("t", (0,))], []),
    )
    assert groups.send("a", 3, endpoint_epoch=version - 1).endpoints == expected
    reply = groups.send("a", 3, endpoint_epoch=version)
    assert (reply.endpoint_epoch, reply.endpoints) == (version, None)


def test_endpoint_of_a_streams_member_has_no_partitions_when_the_source_topic_is_missing(
    groups: StreamsGroups,
) -> None:
    groups.topics(t=-1)
    reply = groups.join("a", user_endpoint=Endpoint("here", 1))
    assert reply.endpoints == (EndpointTopics(Endpoint("here", 1), [], []),)


# ------------------------------------------------------------------------------------- the timers


def test_streams_member_is_removed_when_its_session_expires(groups: StreamsGroups) -> None:
    groups.stable("a", "b")
    groups.pass_ms(30_000)
    groups.send("a", 3)
    groups.pass_ms(15_000)
    assert list(groups.group.members) == ["a"]
    [left] = groups.left
    assert left.detail == "session expired, no heartbeat for 45.0 s"
    bumped = next(each for each in groups.events if isinstance(each, EpochBumped))
    assert bumped.cause is EpochCause.SESSION_EXPIRED
    assert groups.send("b", 3).error_code == UNKNOWN_MEMBER_ID


def test_refused_heartbeat_does_not_extend_the_session(groups: StreamsGroups) -> None:
    groups.join("a")
    groups.pass_ms(30_000)
    assert groups.send("a", 9).error_code == FENCED_MEMBER_EPOCH
    groups.pass_ms(15_000)
    assert groups.group.members == {}


def test_member_that_keeps_its_revoked_task_is_fenced_after_its_rebalance_timeout(
    groups: StreamsGroups,
) -> None:
    groups.stable("a")
    groups.join("b")
    groups.owning("a", 2, active={SUB: (0, 1)})
    for _ in range(6):
        groups.pass_ms(10_000)
        for member_id in list(groups.group.members):
            groups.send(member_id, groups.group.members[member_id].current.epoch)
    assert list(groups.group.members) == ["b"]
    assert [(each.cause, each.detail) for each in groups.left] == [
        (
            Cause.REBALANCE_TIMED_OUT,
            "the member did not give up the tasks 0_1 within 60.0 s (max.poll.interval.ms)",
        )
    ]
    assert groups.active("b") == {SUB: (0, 1)}


def test_rebalance_timeout_stops_when_the_member_gives_up_its_task(
    groups: StreamsGroups,
) -> None:
    groups.stable("a")
    groups.join("b")
    groups.owning("a", 2, active={SUB: (0, 1)})
    groups.owning("a", 2, active={SUB: (0,)})
    for _ in range(10):
        groups.pass_ms(10_000)
        for member_id in ("a", "b"):
            groups.send(member_id, 3)
    assert sorted(groups.group.members) == ["a", "b"]


# ------------------------------------------------------------------------------------- the events


def test_events_of_a_streams_group_explain_a_rebalance_in_sentences(groups: StreamsGroups) -> None:
    groups.stable("a")
    groups.join("b")
    bumped = next(each for each in groups.events if isinstance(each, EpochBumped))
    assert (bumped.detail, bumped.awaited) == ("client (b) from 127.0.0.1 joined", ("a",))
    computed = next(each for each in groups.events if isinstance(each, TargetComputed))
    assert (computed.assignor, computed.moved) == ("sticky", "0_1 from a to b")
    groups.owning("a", 2, active={SUB: (0,)})
    groups.owning("b", 3)
    assert [type(each) for each in groups.events][-2:] == [GroupReconciled, Assigned]


def test_rebalance_command_of_test_mode_raises_the_streams_group_epoch(
    groups: StreamsGroups,
) -> None:
    groups.stable("a")
    groups.take(groups.shard.do(lambda step: on_command.rebalance(step, GROUP), groups.now))
    assert groups.kinds() == "17"
    assert groups.send("a", 2).member_epoch == 3


def test_expire_command_of_test_mode_removes_the_streams_member(groups: StreamsGroups) -> None:
    groups.stable("a", "b")
    groups.take(groups.shard.do(lambda step: on_command.expire(step, GROUP, "b"), groups.now))
    assert list(groups.group.members) == ["a"]


def test_topology_is_refused_when_its_tasks_do_not_fit_a_batch(
    groups: StreamsGroups,
) -> None:
    groups.topics(t=10_000)
    many = tuple(Subtopology(str(number), ("t",)) for number in range(1_000))
    reply = groups.join("a", topology=Topology(0, many))
    assert reply.error_code == GROUP_MAX_SIZE_REACHED
    assert GROUP not in groups.shard.view.streams_groups


def test_streams_heartbeat_is_refused_when_its_assignment_does_not_fit_a_batch() -> None:
    groups = StreamsGroups(max_record_bytes=400)
    groups.topics(t=90)
    reply = groups.join("a")
    assert reply.error_code == GROUP_MAX_SIZE_REACHED
    assert "max.message.bytes" in str(reply.error_message)
    assert GROUP not in groups.shard.view.streams_groups


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"client_tags": (("zone", "z" * 900),)},
            "The metadata of the member, with its client tags,",
        ),
        ({"topology": Topology(0, (Subtopology("s" * 900, ("t",)),))}, "The topology"),
    ],
)
def test_error_message_names_the_metadata_or_topology_that_does_not_fit_a_batch(
    fields: dict[str, Any], text: str
) -> None:
    groups = StreamsGroups(max_record_bytes=900)
    reply = groups.join("a", **fields)
    assert reply.error_code == GROUP_MAX_SIZE_REACHED
    assert reply.error_message == (
        f"{text} does not fit into a batch of __consumer_offsets (max.message.bytes)."
    )
    assert GROUP not in groups.shard.view.streams_groups
    assert [type(each) for each in groups.events] == [JoinRefused]


def test_known_member_whose_new_metadata_does_not_fit_a_batch_keeps_its_old_metadata() -> None:
    groups = StreamsGroups(max_record_bytes=900)
    groups.stable("a")
    reply = groups.send("a", 2, client_tags=(("zone", "z" * 900),))
    assert "client tags" in str(reply.error_message)
    assert groups.group.members["a"].metadata.client_tags == ()
