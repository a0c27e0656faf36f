"""Tests of the events and views that explain a streams group: problems with topics, the tasks of
members, and tasks for which a member waits."""

from __future__ import annotations

from coordinator.streams.events import FirstTargetDelayed, ShutdownRequested, TopologyChecked
from coordinator.streams.explained import WaitingTask, look, member_tasks
from coordinator.streams.group_view import StreamsGroupView
from coordinator.streams.topology import MISSING_INTERNAL_TOPICS, MISSING_SOURCE_TOPICS
from tests.coordinator.consumer.groups import batches_of, load
from tests.coordinator.streams.groups import GROUP, STATEFUL, STORE, SUB, StreamsGroups


def named(groups: StreamsGroups, kind: type) -> list[object]:
    return [each for each in groups.events if isinstance(each, kind)]


def test_begin_change_and_end_of_a_topology_problem_are_reported() -> None:
    groups = StreamsGroups()
    groups.topics(t=-1)
    groups.join("a", topology=STATEFUL)
    [missing] = named(groups, TopologyChecked)
    assert isinstance(missing, TopologyChecked)
    assert missing.code == MISSING_SOURCE_TOPICS
    problem = look(groups.group, groups.image).problem
    assert problem is not None
    assert problem.topics == ("t",)
    groups.send("a", 2)
    assert named(groups, TopologyChecked) == []
    groups.topics(t=2)
    problem = look(groups.group, groups.image).problem  # before the next heartbeat
    assert problem is not None
    assert problem.topics == (STORE.name,)
    groups.send("a", 2)
    [missing] = named(groups, TopologyChecked)
    assert isinstance(missing, TopologyChecked)
    assert missing.code == MISSING_INTERNAL_TOPICS
    problem = look(groups.group, groups.image).problem
    assert problem is not None
    assert problem.topics == (STORE.name,)
    groups.topic(STORE.name, 2)
    groups.send("a", groups.group.members["a"].current.epoch)
    assert named(groups, TopologyChecked) == [TopologyChecked(GROUP, 0, "")]
    assert look(groups.group, groups.image).problem is None


def test_streams_group_has_no_problem_while_the_topic_metadata_of_the_broker_is_incomplete() -> (
    None
):
    groups = StreamsGroups()
    groups.stable("a")
    groups.topics(t=-1)
    groups.image.is_complete = False
    found = look(groups.group, groups.image)
    assert (found.problem, [each.tasks for each in found.subtopologies]) == (None, [None])
    groups.image.is_complete = True
    assert look(groups.group, groups.image).problem is not None


def test_delayed_assignment_is_reported_with_the_end_of_the_delay() -> None:
    groups = StreamsGroups(delay_ms=3_000)
    groups.join("a")
    assert named(groups, FirstTargetDelayed) == [FirstTargetDelayed(GROUP, 3_000)]
    assert look(groups.group, groups.image).delayed_until_ms == groups.now_ms + 3_000
    groups.join("b")
    assert named(groups, FirstTargetDelayed) == []
    groups.pass_ms(3_000)
    assert look(groups.group, groups.image).delayed_until_ms is None


def test_requested_shutdown_is_reported_once_with_the_requesting_member() -> None:
    groups = StreamsGroups()
    groups.join("a")
    groups.send("a", 2, shutdown_application=True)
    [event] = named(groups, ShutdownRequested)
    assert isinstance(event, ShutdownRequested)
    assert (event.member_id, event.who) == ("a", "client (a) from 127.0.0.1")
    groups.send("a", 2, shutdown_application=True)
    assert named(groups, ShutdownRequested) == []
    assert look(groups.group, groups.image).shutdown_by == "a"


def test_member_waits_for_the_task_that_another_member_must_give_up() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.join("b")
    groups.send("a", 2)
    a, b = (member_tasks(groups.group, groups.group.members[each]) for each in "ab")
    assert a.assigned["active"] == [f"{SUB}_0"]
    assert a.revoking["active"] == [f"{SUB}_1"]
    assert b.target["active"] == [f"{SUB}_1"]
    assert b.waits_for == (WaitingTask(f"{SUB}_1", "active", "a"),)
    view = groups.shard.view.groups[GROUP]
    waits = view.awaited()
    assert (waits.phase, waits.members) == ("revoke", ("a",))
    assert waits.deadline_ms == groups.now_ms + 60_000
    groups.settle()
    b = member_tasks(groups.group, groups.group.members["b"])
    assert (b.assigned["active"], b.waits_for) == ([f"{SUB}_1"], ())
    assert view.awaited().deadline_ms is None


def test_member_that_has_all_its_standby_tasks_is_not_shown_as_waiting() -> None:
    groups = StreamsGroups(standby=1)
    groups.topic(STORE.name, 2)
    groups.stable("a", "b", topology=STATEFUL)
    tasks = member_tasks(groups.group, groups.group.members["a"])
    assert tasks.assigned["standby"] == tasks.target["standby"] != []
    assert tasks.waits_for == ()


def test_start_time_of_a_problem_survives_assignments_and_instance_restarts() -> None:
    groups = StreamsGroups(delay_ms=3_000)
    groups.topics(t=-1)
    began = groups.now
    groups.join("a")
    view = groups.shard.view.groups[GROUP]
    assert isinstance(view, StreamsGroupView)
    groups.pass_ms(15_000)  # the delayed first target is written after 3 s
    groups.send("a", 2)  # and the member's assignment with its next heartbeat
    assert (view.state_since_ms, view.state_timestamp_ms) == (began.mono_ms, began.wall_ms)
    groups.send("a", -1)
    assert view.state_since_ms == groups.now_ms  # the group is Empty since now
    assert view.not_ready_since == began
    groups.pass_ms(4_000)
    groups.join("b")
    assert view.state_since_ms == began.mono_ms
    groups.topics(t=2)
    groups.send("b", groups.group.members["b"].current.epoch)
    assert view.not_ready_since is None
    assert view.state_since_ms == groups.now_ms


def test_start_time_of_a_problem_in_a_loaded_group_is_the_time_of_the_load() -> None:
    groups = StreamsGroups()
    groups.topics(t=-1)
    groups.join("a")
    groups.pass_ms(20_000)

    loaded = load(batches_of(groups.log), groups.config, groups.now, groups.image)

    view = loaded.view.groups[GROUP]
    assert view.state_since_ms == groups.now_ms
    assert loaded.view.streams_groups[GROUP].not_ready_since == groups.now
