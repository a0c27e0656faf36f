"""Computes the target assignment of a streams group, and compares it with the previous one."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

from coordinator.assignors.sticky_tasks import TaskMember, assign_in_steps
from coordinator.streams.group import NO_TASKS
from coordinator.streams.topology import ConfiguredTopology
from coordinator.streams.wording import Moves
from offsets.streams_codec import encode_value
from offsets.streams_records import StreamsMemberMetadata, StreamsTargetRecord, TaskRoles

_TASKS_PER_STEP: Final = 500
_TASKS_OF_A_MEMBER: Final = 5
"""The fixed cost of a member: to compare and encode the target of a member without tasks takes as
long as the work on this number of tasks."""
_RECORD_BYTES: Final = 64
"""The maximum number of bytes of a member's target record without its ids and tasks."""
_ENTRY_BYTES: Final = 11
"""The maximum number of bytes of a subtopology in a target record, without its id and tasks."""
_TASK_BYTES: Final = 4


class ComputedTarget(NamedTuple):
    """A target assignment that is not in the log yet."""

    targets: dict[str, TaskRoles]
    """The target tasks of each member, by member id."""
    records: list[StreamsTargetRecord]
    """The records of the members whose targets differ from the previous target, in the order of
    ``targets``, with their encoded values."""
    moved: str
    """The text about the tasks that moved; "" if no task moved."""


def compute_in_steps(
    members: Mapping[str, StreamsMemberMetadata],
    before: Mapping[str, TaskRoles],
    configured: ConfiguredTopology,
    num_standby_replicas: int,
) -> Generator[None, None, ComputedTarget]:
    """Computes the target of ``members`` in steps of a few hundred tasks, and returns it after the
    last step. ``before`` is the previous target. The caller must not change the arguments between
    the steps."""
    targets = dict.fromkeys(members, NO_TASKS)
    if not configured.status:
        given = {
            member_id: TaskMember(metadata.process_id, before.get(member_id, NO_TASKS))
            for member_id, metadata in members.items()
        }
        yield
        targets.update((yield from assign_in_steps(given, configured.tasks, num_standby_replicas)))
    moves, records, cost = Moves(), [], 0
    for member_id, roles in before.items():
        moves.read_before(member_id, roles)
        cost += 1 + count_tasks(roles)
        if cost >= _TASKS_PER_STEP:
            cost = 0
            yield
    for member_id, target in targets.items():
        previous = before.get(member_id)
        if previous != target:
            moves.read_after(member_id, previous or NO_TASKS, target)
            record = StreamsTargetRecord(member_id, target)
            record.encoded_value = encode_value(record)
            records.append(record)
        cost += _TASKS_OF_A_MEMBER + count_tasks(target)
        if cost >= _TASKS_PER_STEP:
            cost = 0
            yield
    return ComputedTarget(targets, records, moves.text())


def count_tasks(roles: TaskRoles) -> int:
    """Returns the number of active and standby tasks."""
    return sum(map(len, roles.active.values())) + sum(map(len, roles.standby.values()))


def most_tasks(configured: ConfiguredTopology, num_standby_replicas: int) -> int:
    """Returns the number of active tasks and wanted standby tasks."""
    return sum(
        each.tasks * (1 + num_standby_replicas * each.stateful)
        for each in configured.tasks.values()
    )


def bytes_at_most(
    group_id: str,
    members: Mapping[str, object],
    configured: ConfiguredTopology,
    num_standby_replicas: int,
) -> int:
    """Returns an upper bound of the bytes of a target's records. Needs no computed target."""
    size = most_tasks(configured, num_standby_replicas) * _TASK_BYTES
    size += (len(members) + 1) * (_RECORD_BYTES + len(group_id.encode()))
    size += sum(len(member_id.encode()) for member_id in members)
    for name, each in configured.tasks.items():
        holders = each.tasks * (1 + num_standby_replicas * each.stateful)
        entries = min(2 * len(members), holders)
        size += entries * (_ENTRY_BYTES + len(name.encode()))
    return size


def bytes_of_records(group_id: str, records: Sequence[StreamsTargetRecord]) -> int:
    """Returns an upper bound of the size in bytes of the records of a computed target."""
    size = (len(records) + 1) * (_RECORD_BYTES + len(group_id.encode()))
    size += sum(len(record.member_id.encode()) for record in records)
    return size + sum(len(record.encoded_value or b"") for record in records)
