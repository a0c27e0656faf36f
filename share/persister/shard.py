"""A shard of the share coordinator: the states of the share partitions of one
``__share_group_state`` partition. `ShareStateShard` is the only interface of the core.

The caller makes one call at a time, and passes every run of an outcome to ``replay`` immediately,
in order and with the run's log offset, so that the next call sees the run. Only ``replay`` changes
states. A state results from its last ShareSnapshot record and the ShareUpdate records after it.
Therefore a loaded state does not depend on earlier records, which may be deleted. The log is not
compacted, but `FindRedundant` returns the offset before which all records are redundant.

Calls are never parked: each call is answered in its outcome.

Source: Kafka 4.3.1 ``ShareCoordinatorShard``, with three differences. First, an Initialize and
a cold snapshot restart the count of updates. Second, an Initialize lowers the leader epoch to 0. In
both cases
Kafka keeps the old values in memory until it loads the log again. Third, a write does not move the
start offset back: a write that is repeated after a lost response may arrive after later writes, and
the records before their start offset would be delivered again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from protocol.errors import (
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.now import Now
from protocol.slotted import slotted
from share.persister.calls import (
    Call,
    DeleteState,
    FindRedundant,
    InitializeState,
    ReadState,
    ReadStateSummary,
    RedundantReply,
    StateReply,
    Ticket,
    WriteState,
)
from share.persister.combining import combine
from share.persister.config import ShareStateConfig
from share.persister.record_codec import run_bytes_at_most
from share.persister.values import UNKNOWN_COUNT, ShareStateRun, SnapshotValue, UpdateValue
from share.persister.view import ShareStateView, State, stored
from share.values import UNINITIALIZED_OFFSET, SharePartitionKey, StoredState

UNCHANGED = -1
"""The value of an epoch or a start offset that a call does not change."""
FIRST_LEADER_EPOCH = 0
"""The leader epoch of a state that no leader has read."""
UNINITIALIZED = StoredState(0, FIRST_LEADER_EPOCH, UNINITIALIZED_OFFSET, UNKNOWN_COUNT)
"""The summary of a share partition that has no state."""

_OLD_LEADER_EPOCH = "The leader epoch in the request is older than the epoch on the broker."
_OLD_STATE_EPOCH = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)
_READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."
_WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
_NEGATIVE = "The partition id cannot be a negative number."
_UNKNOWN_TOPIC = "This server does not host this topic-partition."
_TOO_LARGE = "The state of the share partition exceeds max.message.bytes of the state topic."


@slotted(frozen=True)
class SnapshotsMissing:
    """The event that a load has found updates of share partitions whose snapshot is not in the log.
    These share partitions have no state."""

    keys: Sequence[SharePartitionKey]


class Outcome(NamedTuple):
    """The result of one step. The caller appends ``records``, releases ``replies`` when the records
    are stable, and emits ``events``, in this order."""

    records: Sequence[ShareStateRun] = ()
    replies: Sequence[tuple[Ticket, StateReply | RedundantReply]] = ()
    events: Sequence[SnapshotsMissing] = ()


NOTHING = Outcome()
_Step = tuple[StateReply | RedundantReply, Sequence[ShareStateRun]]
"""The reply to a call, and the records that the call writes."""


class ShareStateShard:
    """The states of the share partitions of one partition of ``__share_group_state``."""

    __slots__ = (
        "_cold",
        "_cold_at_ms",
        "_config",
        "_end_offset",
        "_incomplete",
        "_states",
        "view",
    )

    def __init__(self, config: ShareStateConfig) -> None:
        self._config = config
        self._states: dict[SharePartitionKey, State] = {}
        self._incomplete: set[SharePartitionKey] = set()
        """The share partitions for which a load has found updates without their snapshot."""
        self._end_offset = 0
        self._cold: Iterator[SharePartitionKey] | None = None
        """The share partitions that the current sweep of `expire` has not visited yet; None between
        sweeps."""
        self._cold_at_ms = 0
        """The monotonic time in ms at which `expire` next searches for cold share partitions."""
        self.view = ShareStateView(self._states)

    # ------------------------------------------------------------------------------------- calls

    def handle(self, call: Call | FindRedundant, now: Now) -> Outcome:
        """Handles a call. The returned outcome contains the reply for the call's ticket."""
        if not isinstance(call, FindRedundant) and call.key.partition < 0:
            return Outcome((), ((call.ticket, StateReply(INVALID_REQUEST, _NEGATIVE)),))
        reply, records = _HANDLERS[type(call)](self, call, now)
        return Outcome(records, ((call.ticket, reply),))

    @property
    def connections(self) -> Collection[Hashable]:
        """Returns an empty collection, because no calls are parked."""
        return ()

    def connection_closed(self, connection: Hashable, now: Now) -> Outcome:  # noqa: ARG002
        """Does nothing, because no calls are parked."""
        return NOTHING

    def configure(self, config: ShareStateConfig) -> None:
        self._config = config

    def unload(self, error_code: int) -> Outcome:  # noqa: ARG002
        """Unloads the partition. The outcome has no replies, because no calls are parked."""
        return NOTHING

    def _initialize(self, call: InitializeState, now: Now) -> _Step:
        state = self._states.get(call.key)
        if state is not None and _is_older(call.state_epoch, state.value.state_epoch):
            return StateReply(FENCED_STATE_EPOCH, _OLD_STATE_EPOCH), ()
        if not call.exists:
            return _unknown()
        value = SnapshotValue(
            snapshot_epoch=0 if state is None else state.value.snapshot_epoch + 1,
            state_epoch=call.state_epoch,
            leader_epoch=FIRST_LEADER_EPOCH,
            start_offset=call.start_offset,
            create_ms=now.wall_ms,
            write_ms=now.wall_ms,
            delivery_complete_count=(
                UNKNOWN_COUNT if call.start_offset == UNINITIALIZED_OFFSET else 0
            ),
        )
        return StateReply(NONE), (ShareStateRun(call.key, value),)

    def _read(self, call: ReadState, now: Now) -> _Step:
        state = self._states.get(call.key)
        if state is None:
            return StateReply(INVALID_REQUEST, _READ_UNINITIALIZED), ()
        value, leader_epoch = state.value, call.leader_epoch
        if _is_older(leader_epoch, value.leader_epoch):
            return StateReply(FENCED_LEADER_EPOCH, _OLD_LEADER_EPOCH), ()
        if not call.exists:
            return _unknown()
        if leader_epoch in (UNCHANGED, value.leader_epoch):
            return StateReply(NONE, state=stored(value)), ()
        update = UpdateValue(
            value.snapshot_epoch,
            leader_epoch,
            value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
        )
        found = stored(value)._replace(leader_epoch=leader_epoch)
        return StateReply(NONE, state=found), (self._record(call.key, state, update, now),)

    def _summarize(self, call: ReadStateSummary, _: Now) -> _Step:
        if not call.exists:
            return _unknown()
        state = self._states.get(call.key)
        if state is None:
            return StateReply(NONE, state=UNINITIALIZED), ()
        return StateReply(NONE, state=stored(state.value)._replace(batches=())), ()

    def _write(self, call: WriteState, now: Now) -> _Step:
        state = self._states.get(call.key)
        if state is None:
            return StateReply(INVALID_REQUEST, _WRITE_UNINITIALIZED), ()
        value = state.value
        if _is_older(call.leader_epoch, value.leader_epoch):
            return StateReply(FENCED_LEADER_EPOCH, _OLD_LEADER_EPOCH), ()
        if _is_older(call.state_epoch, value.state_epoch):
            return StateReply(FENCED_STATE_EPOCH, _OLD_STATE_EPOCH), ()
        if not call.exists:
            return _unknown()
        start_offset, count = call.start_offset, call.delivery_complete_count
        if UNCHANGED < start_offset < value.start_offset:
            # A repeated or delayed write: the records before the stored offset are final.
            start_offset, count = value.start_offset, value.delivery_complete_count
        batches = combine((), call.batches, start_offset)
        if not self._fits(call.key, len(value.batches) + 2 * len(batches)):
            return StateReply(UNKNOWN_SERVER_ERROR, _TOO_LARGE), ()
        update = UpdateValue(
            value.snapshot_epoch,
            value.leader_epoch,
            start_offset,
            batches,
            count,
        )
        return StateReply(NONE), (self._record(call.key, state, update, now),)

    def _delete(self, call: DeleteState, _: Now) -> _Step:
        known = call.key in self._states
        return StateReply(NONE), (ShareStateRun(call.key, None),) if known else ()

    def _find_redundant(self, _: FindRedundant, __: Now) -> _Step:
        needed = [state.snapshot_offset for state in self._states.values()]
        return RedundantReply(NONE, min(needed, default=self._end_offset)), ()

    def _record(
        self, key: SharePartitionKey, state: State, update: UpdateValue, now: Now
    ) -> ShareStateRun:
        """Returns the record to write for an update: the update itself or, after enough updates, a
        snapshot of the whole state."""
        if state.updates < self._config.updates_per_snapshot:
            return ShareStateRun(key, update)
        value = _updated(state.value, update)._replace(
            snapshot_epoch=update.snapshot_epoch + 1, create_ms=now.wall_ms, write_ms=now.wall_ms
        )
        return ShareStateRun(key, value)

    def _fits(self, key: SharePartitionKey, batches: int) -> bool:
        """Returns True if a record with this number of batches is within max.message.bytes."""
        return run_bytes_at_most(key, batches) <= self._config.max_record_bytes

    # -------------------------------------------------------------------------------------- time

    def expire(self, now: Now, budget: int) -> Outcome:
        """Writes a snapshot of each cold share partition. A share partition is cold if its last
        snapshot is older than the interval. If all share partitions are cold, writes no snapshot,
        since the log hardly grows. Visits about ``budget`` share partitions.

        A load needs the last record of each share partition, and an old record keeps all later
        records in the log from being deleted. A snapshot replaces the old record. While more work
        is due, ``next_deadline`` returns a time that is not in the future.
        """
        if self._cold is None:
            self._cold = iter(self._to_visit())
        records = []
        for key in self._cold:
            state = self._states.get(key)
            if state is not None:
                value = state.value
                is_cold = now.wall_ms - value.write_ms >= self._config.cold_snapshot_interval_ms
                if is_cold and self._fits(key, len(value.batches)):
                    fresh = value._replace(
                        snapshot_epoch=value.snapshot_epoch + 1, write_ms=now.wall_ms
                    )
                    records.append(ShareStateRun(key, fresh))
            budget -= 1
            if budget <= 0:
                return Outcome(records)
        self._plan_sweep(now)
        return Outcome(records)

    def _to_visit(self) -> list[SharePartitionKey]:
        values = [state.value for state in self._states.values()]
        return list(self._states) if any(v.create_ms == v.write_ms for v in values) else []

    def _plan_sweep(self, now: Now) -> None:
        self._cold = None
        self._cold_at_ms = now.mono_ms + self._config.cold_snapshot_interval_ms

    def next_deadline(self) -> int | None:
        """Returns the time in monotonic ms at which ``expire`` has work next; None if the shard has
        no states."""
        return self._cold_at_ms if self._states else None

    # --------------------------------------------------------------------------------------- log

    def replay(self, run: ShareStateRun, base_offset: int) -> None:
        """Applies a record that is in the log at ``base_offset``, both live and at load. Only this
        method changes a state, so that a loaded shard equals the shard that wrote the log."""
        key, value = run.key, run.value
        states = self._states
        self._end_offset = base_offset + len(run)
        if isinstance(value, UpdateValue):
            state = states.get(key)
            if state is None:
                # The snapshot was deleted; the log must have a later snapshot or tombstone.
                self._incomplete.add(key)
                return
            state.value = _updated(state.value, value)
            state.updates += 1
            return
        self._incomplete.discard(key)
        if value is None:
            states.pop(key, None)
        else:
            states[key] = State(value, base_offset)

    def restore(self, *part: object) -> None:  # noqa: ARG002
        """Must not be called, because a shard has no snapshot files and the whole log is
        replayed."""
        raise AssertionError("the states of share partitions have no snapshot files")

    def wake(self, now: Now, budget: int) -> int:  # noqa: ARG002
        """Does nothing and returns 0, because states need no work after the replay."""
        return 0

    def loaded(self, now: Now) -> Outcome:
        """Ends the load, and sets the time of the next sweep of `expire`."""
        self._plan_sweep(now)
        if not self._incomplete:
            return NOTHING
        event = SnapshotsMissing(sorted(self._incomplete))
        self._incomplete.clear()
        return Outcome(events=(event,))


_HANDLERS: dict[type, Callable[[ShareStateShard, Any, Now], _Step]] = {
    InitializeState: ShareStateShard._initialize,
    ReadState: ShareStateShard._read,
    ReadStateSummary: ShareStateShard._summarize,
    WriteState: ShareStateShard._write,
    DeleteState: ShareStateShard._delete,
    FindRedundant: ShareStateShard._find_redundant,
}


def _updated(value: SnapshotValue, update: UpdateValue) -> SnapshotValue:
    """Returns a state after an update. Source: Kafka 4.3.1 ``ShareCoordinatorShard.merge``."""
    start_offset = value.start_offset if update.start_offset == UNCHANGED else update.start_offset
    return SnapshotValue(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch if update.leader_epoch == UNCHANGED else update.leader_epoch,
        start_offset,
        value.create_ms,
        value.write_ms,
        combine(value.batches, update.batches, start_offset),
        update.delivery_complete_count,
    )


def _unknown() -> _Step:
    return StateReply(UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC), ()


def _is_older(epoch: int, stored: int) -> bool:
    """Returns True if the call has an epoch that is older than the stored epoch."""
    return epoch != UNCHANGED and epoch < stored
