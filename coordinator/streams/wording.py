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


class Moves:
    """The tasks that a new target adds to members, with the old owners of active tasks."""

    __slots__ = ("_moved", "_owners")

    def __init__(self) -> None:
        self._owners: dict[Task, str] = {}
        self._moved: dict[tuple[str, str], list[tuple[Role, Task]] | None] = {}
        """By old and new owner: the tasks that moved between these owners; None for owners that the
        text does not show."""

    def read_before(self, member_id: str, roles: TaskRoles) -> None:
        """Reads the previous target of a member. The caller must call this method for all members
        before the first call of `read_after`."""
        for name, partitions in roles.active.items():
            for partition in partitions:
                self._owners[name, partition] = member_id

    def read_after(self, member_id: str, before: TaskRoles, after: TaskRoles) -> None:
        """Adds the tasks that a member has in its new target ``after``, but not in its previous
        target ``before``."""
        had = dict(by_role(before))
        for role, tasks in by_role(after):
            for name, partitions in tasks.items():
                kept = set(had[role].get(name, ()))
                for partition in partitions:
                    if partition not in kept:
                        task = name, partition
                        owner = self._owners.get(task, "") if role is Role.ACTIVE else ""
                        self._add((owner, member_id), role, task)

    def _add(self, pair: tuple[str, str], role: Role, task: Task) -> None:
        if pair not in self._moved:
            self._moved[pair] = [] if len(self._moved) < _PAIRS_SHOWN else None
        shown = self._moved[pair]
        if shown is not None:
            shown.append((role, task))

    def text(self) -> str:
        """Returns a text about the moves; "" if the new target adds no task to any member."""
        parts = []
        for (earlier, owner), given in self._moved.items():
            if given is None:
                continue
            source = f" from {earlier}" if earlier else ""
            parts.append(f"{tasks_named(given)}{source} to {owner}")
        if len(self._moved) > _PAIRS_SHOWN:
            parts.append(f"{len(self._moved) - _PAIRS_SHOWN} more moves")
        return "; ".join(parts)
