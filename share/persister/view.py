"""The states of the share partitions of one shard, and a read-only view of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from protocol.slotted import slotted
from share.persister.values import SnapshotValue
from share.values import SharePartitionKey, StoredState


@slotted(eq=False)
class State:
    """The state of one share partition."""

    value: SnapshotValue
    """The last snapshot, with the updates since then applied."""
    snapshot_offset: int
    """The log offset of the last snapshot, which is the first record that a load needs."""
    updates: int = 0


class ShareStateView:
    """A read-only view of the states of a shard. It copies nothing."""

    __slots__ = ("_states",)

    def __init__(self, states: Mapping[SharePartitionKey, State]) -> None:
        self._states = states

    def known(self) -> int:
        """Returns the number of share partitions with a state. The number is also valid during a
        load."""
        return len(self._states)

    def live_records(self) -> int:
        """Returns the number of records that a load needs: for each state, its newest snapshot and
        the updates after it."""
        return sum([1 + state.updates for state in self._states.values()])

    @property
    def known_keys(self) -> Collection[SharePartitionKey]:
        return self._states.keys()

    def state(self, key: SharePartitionKey) -> StoredState | None:
        """Returns the state of a share partition; None if it has no state."""
        state = self._states.get(key)
        return None if state is None else stored(state.value)

    def snapshot(self, key: SharePartitionKey) -> SnapshotValue | None:
        """Returns the snapshot that would be written for a share partition now; None if it has no
        state."""
        state = self._states.get(key)
        return None if state is None else state.value


def stored(value: SnapshotValue) -> StoredState:
    return StoredState(
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        value.batches,
    )
