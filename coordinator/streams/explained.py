"""A streams group as values for views: its topology, the problem of its topics, and the tasks of
each member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.streams.group import StreamsGroup, StreamsMember
from coordinator.streams.states import Role, Task
from coordinator.streams.topology import (
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    ConfiguredTopology,
    configure,
)
from coordinator.streams.wording import by_role
from coordinator.topics_image import TopicsImage
from offsets.streams_records import TaskRoles, Topology
from protocol.deadlines import NEVER


class Problem(NamedTuple):
    """The reason why the group assigns no tasks."""

    code: int
    """Kafka's status code: 1 missing source topics, 2 incorrectly partitioned topics, 3 missing
    internal topics."""
    detail: str
    """Kafka's text for the status code."""
    topics: tuple[str, ...]


class SubtopologyLook(NamedTuple):
    """A subtopology with its topics and the number of its tasks."""

    subtopology_id: str
    tasks: int | None
    """The number of tasks; None if it is unknown, because a topic is missing or the broker has not
    received all topics yet."""
    source_topics: tuple[str, ...]
    repartition_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]


class StreamsLook(NamedTuple):
    """The topology of a group, and the reason why the group assigns no tasks."""

    topology_epoch: int | None
    problem: Problem | None
    delayed_until_ms: int | None
    """The monotonic time in ms at which the first target will be computed; None if it is not
    delayed."""
    shutdown_by: str | None
    """The id of the member that requested the shutdown of the application; None without such a
    request."""
    subtopologies: tuple[SubtopologyLook, ...]


class WaitingTask(NamedTuple):
    """A task in a member's target that another member must give up before this member can get
    it."""

    task: str
    role: str
    """The role in which the member will get the task: "active", "standby" or "warmup"."""
    holder: str
    """The id of the member that must give up the task before the waiting member can get it."""


class MemberTasks(NamedTuple):
    """The tasks of a member, by role. The name of a task is SUBTOPOLOGY_PARTITION."""

    process_id: str
    endpoint: str | None
    topology_epoch: int
    assigned: Mapping[str, list[str]]
    target: Mapping[str, list[str]]
    revoking: Mapping[str, list[str]]
    waits_for: tuple[WaitingTask, ...]


def look(group: StreamsGroup, image: TopicsImage) -> StreamsLook:
    topology, configured = group.topology, group.configured
    if topology is not None and (configured is None or group.refresh_wanted):
        # The next heartbeat does the same; it is refused while the image is not complete.
        configured = configure(topology, image) if image.is_complete else None
    due_ms = group.initial_delay.due_ms
    tasks = {} if configured is None else configured.tasks
    subtopologies = () if topology is None else topology.subtopologies
    return StreamsLook(
        None if topology is None else topology.epoch,
        None if topology is None or configured is None else _problem(topology, configured, image),
        None if due_ms == NEVER else due_ms,
        group.shutdown_by,
        tuple(
            SubtopologyLook(
                each.subtopology_id,
                tasks[each.subtopology_id].tasks if each.subtopology_id in tasks else None,
                each.source_topics,
                tuple(topic.name for topic in each.repartition_source_topics),
                tuple(topic.name for topic in each.state_changelog_topics),
            )
            for each in subtopologies
        ),
    )


def _problem(
    topology: Topology, configured: ConfiguredTopology, image: TopicsImage
) -> Problem | None:
    if not configured.status:
        return None
    code, detail = configured.status[0]
    missing: set[str] = set()
    if code == MISSING_SOURCE_TOPICS:
        sources = {name for each in topology.subtopologies for name in each.source_topics}
        missing = {name for name in sources if name not in image.by_name}
    elif code == MISSING_INTERNAL_TOPICS:
        missing = {each.name for each in configured.missing_internal}
    return Problem(code, detail, tuple(sorted(missing)))


def member_tasks(group: StreamsGroup, member: StreamsMember) -> MemberTasks:
    current, endpoint = member.current, member.metadata.user_endpoint
    active = {name: tuple(epochs) for name, epochs in current.active.items()}
    revoking = {name: tuple(epochs) for name, epochs in current.revoking_active.items()}
    target = group.target_of(member.member_id)
    return MemberTasks(
        member.metadata.process_id,
        None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        member.metadata.topology_epoch,
        _named(TaskRoles(active, current.standby, current.warmup)),
        _named(target),
        _named(TaskRoles(revoking, current.revoking_standby, current.revoking_warmup)),
        awaited_tasks(group, member),
    )


def _named(roles: TaskRoles) -> dict[str, list[str]]:
    return {
        role.value: [
            f"{name}_{partition}" for name in sorted(tasks) for partition in sorted(tasks[name])
        ]
        for role, tasks in by_role(roles)
    }


def awaited_tasks(group: StreamsGroup, member: StreamsMember) -> tuple[WaitingTask, ...]:
    """Returns the tasks in the member's target that the member can't get yet, by the rules of
    `reconcile`."""
    if group.is_reconciled(member.current):
        return ()
    target = group.target_of(member.member_id)
    found = []
    had = dict(by_role(TaskRoles(_plain(member), member.current.standby, member.current.warmup)))
    for role, tasks in by_role(target):
        for name, partitions in tasks.items():
            for partition in partitions:
                if partition in had[role].get(name, ()):
                    continue
                holder = _holder(group, member, role, (name, partition))
                if holder is not None:
                    found.append(WaitingTask(f"{name}_{partition}", role.value, holder))
    return tuple(found)


def _plain(member: StreamsMember) -> dict[str, tuple[int, ...]]:
    return {name: tuple(epochs) for name, epochs in member.current.active.items()}


def _holder(group: StreamsGroup, member: StreamsMember, role: Role, task: Task) -> str | None:
    """Returns the id of a member that must give up the task before ``member`` can get the task in
    the role ``role``; None if no member must.

    A member in the same process must give up the task, whatever its role. If ``role`` is ACTIVE,
    any other member that has the task as an active task must give it up too.
    """
    process = member.metadata.process_id
    for other in Role:
        for holder in sorted(group.holders(other, task)):
            is_active = role is Role.ACTIVE and other is Role.ACTIVE
            is_same_process = group.members[holder].metadata.process_id == process
            if (is_active and holder != member.member_id) or is_same_process:
                return holder
    return None
