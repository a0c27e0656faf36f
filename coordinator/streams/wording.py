"""Texts about streams groups for the journal, log lines and verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coordinator.streams.states import Role, Task
from coordinator.wording import some_of
from offsets.streams_records import StreamsMemberMetadata, TaskRoles

_PAIRS_SHOWN = 3


def who(member_id: str, metadata: StreamsMemberMetadata) -> str:
    """Returns the name by which texts refer to a member: its client id and member id, with its
    host."""
    name = member_id
    if not member_id.startswith(metadata.client_id):
        name = f"{metadata.client_id} ({member_id})"
    return f"{name} from {metadata.client_host.lstrip('/')}"


def tasks_named(tasks: Iterable[tuple[Role, Task]]) -> str:
    """Returns the names of the first tasks, such as "0_4, 0_5, standby 1_0", and how many more
    there are."""
    return some_of([_name(role, task) for role, task in tasks], ", ")


def _name(role: Role, task: Task) -> str:
    name = f"{task[0]}_{task[1]}"
    return name if role is Role.ACTIVE else f"{role.value} {name}"


def by_role(roles: TaskRoles) -> Iterable[tuple[Role, Mapping[str, Collection[int]]]]:
    return (
        (Role.ACTIVE, roles.active),
        (Role.STANDBY, roles.standby),
        (Role.WARMUP, roles.warmup),
    )


def moves(before: Mapping[str, TaskRoles], after: Mapping[str, TaskRoles]) -> str:
    """Returns a text about the tasks that a new target adds to members, with the old owners of
    active tasks; "" if it adds no task to any member."""
    owners = {
        (name, partition): member_id
        for member_id, roles in before.items()
        for name, partitions in roles.active.items()
        for partition in partitions
    }
    moved: dict[tuple[str, str], list[tuple[Role, Task]]] = {}
    for member_id, roles in after.items():
        had = dict(by_role(before.get(member_id, TaskRoles())))
        for role, tasks in by_role(roles):
            for name, partitions in tasks.items():
                for partition in partitions:
                    if partition not in had[role].get(name, ()):
                        task = name, partition
                        owner = owners.get(task, "") if role is Role.ACTIVE else ""
                        moved.setdefault((owner, member_id), []).append((role, task))
    parts = []
    for (earlier, owner), given in list(moved.items())[:_PAIRS_SHOWN]:
        source = f" from {earlier}" if earlier else ""
        parts.append(f"{tasks_named(given)}{source} to {owner}")
    if len(moved) > _PAIRS_SHOWN:
        parts.append(f"{len(moved) - _PAIRS_SHOWN} more moves")
    return "; ".join(parts)
