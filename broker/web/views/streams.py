"""Converts streams groups (KIP-1071) to dicts and lists for JSON: the topology, the problem that
prevents the assignment of tasks, and the tasks of each member. docs/use/http-api.md describes the
fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.read_only import GroupView, MemberView
from protocol.now import Now

if TYPE_CHECKING:
    from coordinator.streams.explained import WaitingTask

View = dict[str, Any]
STREAMS = "streams"
WAITS_SHOWN = 20


def topology_view(group: GroupView, now: Now) -> View | None:
    """Returns the topology of a streams group and its problem; None for a group of another type."""
    if group.type != STREAMS:
        return None
    from coordinator.streams.group_view import StreamsGroupView  # most brokers have none

    assert isinstance(group, StreamsGroupView)
    found = group.look()
    problem, until_ms = found.problem, found.delayed_until_ms
    return {
        "topology_epoch": found.topology_epoch,
        "problem": None
        if problem is None
        else {"code": problem.code, "detail": problem.detail, "topics": list(problem.topics)},
        "delayed_until_ms": None if until_ms is None else now.wall_ms - now.mono_ms + until_ms,
        "shutdown_by": found.shutdown_by,
        "subtopologies": [
            {
                "subtopology": each.subtopology_id,
                "tasks": each.tasks,
                "source_topics": list(each.source_topics),
                "repartition_topics": list(each.repartition_topics),
                "changelog_topics": list(each.changelog_topics),
            }
            for each in found.subtopologies
        ],
    }


def task_waits(group: GroupView | None) -> list[View]:
    """Returns at most `WAITS_SHOWN` waits in a streams group: the member that waits for a task, and
    the member that must release the task."""
    if group is None or group.type != STREAMS:
        return []
    from coordinator.streams.group_view import StreamsMemberView

    found: list[View] = []
    for member in group.members.values():
        assert isinstance(member, StreamsMemberView)
        found += (
            {"waiting": member.member_id, **_awaited(each)} for each in member.awaited_tasks()
        )
        if len(found) >= WAITS_SHOWN:
            break
    return found[:WAITS_SHOWN]


def tasks_view(group: GroupView, member: MemberView) -> View | None:
    """Returns the tasks of a streams group's member; None for a group of another type."""
    if group.type != STREAMS:
        return None
    from coordinator.streams.group_view import StreamsMemberView

    assert isinstance(member, StreamsMemberView)
    found = member.tasks()
    return {
        "process": found.process_id,
        "endpoint": found.endpoint,
        "topology_epoch": found.topology_epoch,
        "assigned": dict(found.assigned),
        "target": dict(found.target),
        "revoking": dict(found.revoking),
        "waits_for": [_awaited(each) for each in found.waits_for],
    }


def _awaited(each: WaitingTask) -> View:
    return {"task": each.task, "role": each.role, "member": each.holder}
