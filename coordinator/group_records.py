"""Applies the records of groups of all types to a shard's state, during a load and after each
write."""

from __future__ import annotations

from coordinator import epoch_groups
from coordinator.classic.group import Group
from coordinator.events import LOADED_ID_CHARACTERS, LoadedGeneration
from coordinator.step import ShardState
from journal.texts import cut
from offsets.runs import GroupRun, GroupStateRun, GroupValue

GENERATIONS_KEPT = 8
"""The number of generations of each group that a load passes to the journal."""


class GroupRecords:
    """The records in the log about the groups of a shard. A load builds the groups from these
    records. The newest record of a group id determines the type of the group.

    In a log of Muster or Kafka, the tombstone of a classic group precedes the first record of a
    group of another type with the same id. Kafka refuses to load any other log. Muster loads it:
    the group keeps its offsets, and its members rejoin.

    After a load from a snapshot, the replay may contain records that are older than the group in
    the snapshot. Such a record may be from a time at which the group had another type.
    """

    __slots__ = ("_generations", "_state", "recorded")

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self.recorded: dict[str, tuple[int, GroupValue]] = {}
        """For each classic group, the log offset of its last record and the record, for snapshots.
        """
        self._generations: dict[str, list[LoadedGeneration]] = {}

    def take_generations(self) -> dict[str, list[LoadedGeneration]]:
        """Returns the last `GENERATIONS_KEPT` replayed generations of each classic group, and
        removes them from this object."""
        generations, self._generations = self._generations, {}
        return generations

    def load(self, run: GroupRun, base_offset: int) -> None:
        """Builds a classic group from its record. A tombstone removes the group."""
        if run.value is None:
            self._forget_classic(run.group_id)
            return
        epoch_groups.forget(self._state, run.group_id)
        group = Group.restored(run.group_id, run.value, base_offset)
        self._state.groups[run.group_id] = group
        seen = self._generations.setdefault(group.group_id, [])
        while seen and seen[-1].log_offset >= base_offset:
            seen.pop()  # the snapshot contained it
        seen.append(_generation(group))
        del seen[:-GENERATIONS_KEPT]

    def load_state(self, run: GroupStateRun) -> None:
        """Applies the records of a consumer, share or streams group. If at least one record is not
        a tombstone, removes the groups of other types with the same id."""
        epoch_groups.replay(self._state, run)
        if any(record.value is not None for record in run.records):
            epoch_groups.forget(self._state, run.group_id, type(run))
            self.recorded.pop(run.group_id, None)
            self._forget_classic(run.group_id)

    def _forget_classic(self, group_id: str) -> None:
        self._state.groups.pop(group_id, None)
        self._generations.pop(group_id, None)


def _generation(group: Group) -> LoadedGeneration:
    return LoadedGeneration(
        group.record_offset,
        group.generation_id,
        group.protocol_name and cut(group.protocol_name, LOADED_ID_CHARACTERS),
        group.leader_id and cut(group.leader_id, LOADED_ID_CHARACTERS),
        len(group.members),
        group.state_timestamp_ms,
    )
