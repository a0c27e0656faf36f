"""Random streams groups for tests of the sticky task assignor. Their members join and leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from coordinator.assignors.sticky_tasks import SubtopologyTasks, TaskMember, assign
from offsets.streams_records import TaskRoles

STEPS = 5


class TaskGroup(NamedTuple):
    """The arguments of the sticky task assignor for one group."""

    members: Mapping[str, TaskMember]
    subtopologies: Mapping[str, SubtopologyTasks]
    replicas: int


def with_previous(group: TaskGroup, targets: Mapping[str, TaskRoles]) -> TaskGroup:
    """Returns the group with ``targets`` as the previous tasks of its members. A member without a
    target has no previous tasks."""
    return group._replace(
        members={
            member_id: member._replace(previous=targets.get(member_id, TaskRoles()))
            for member_id, member in group.members.items()
        }
    )


def joined(group: TaskGroup, member_id: str, process_id: str) -> TaskGroup:
    return group._replace(members={**group.members, member_id: TaskMember(process_id, TaskRoles())})


def left(group: TaskGroup, member_id: str) -> TaskGroup:
    return group._replace(
        members={each: member for each, member in group.members.items() if each != member_id}
    )


def random_lives(seed: int) -> Iterator[TaskGroup]:
    """Yields a random group, and then the same group after each of several changes. After a change,
    the previous tasks of the members are the target that was computed before the change."""
    random = Random(seed)
    stateful = random.random()
    subtopologies = {
        str(random.randrange(20)): SubtopologyTasks(
            random.randint(1, 9), random.random() < stateful
        )
        for _ in range(random.randint(1, 4))
    }
    processes = random.randint(1, 6)
    group = TaskGroup({}, subtopologies, random.randrange(4))
    for _ in range(random.randint(1, 9)):
        group = joined(group, f"m{random.randrange(100)}", f"p{random.randrange(processes)}")
    for _ in range(STEPS):
        yield group
        group = with_previous(group, assign(*group))
        chance = random.random()
        if chance < 0.4 and len(group.members) > 1:
            group = left(group, random.choice(sorted(group.members)))
        elif chance < 0.8:
            group = joined(group, f"m{random.randrange(100)}", f"p{random.randrange(6)}")
        elif chance < 0.9:
            group = group._replace(replicas=random.randrange(4))
        else:
            name = random.choice(sorted(subtopologies))
            grown = subtopologies[name]._replace(tasks=random.randint(1, 12))
            group = group._replace(subtopologies={**group.subtopologies, name: grown})
