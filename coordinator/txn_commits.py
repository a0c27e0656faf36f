"""TxnOffsetCommit, and the transaction markers that commit or drop the offsets of TxnOffsetCommit
requests.

The offsets are pending until the transaction marker of their producer is written. A transaction may
commit offsets while the group rebalances, and a marker is written in every state of the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.calls import EndOffsets, TxnOffsetCommit
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.commits import (
    metadata_too_large,
    moved_back,
    rejected,
    runs_one_by_one,
    too_large,
)
from coordinator.consumer.commits import check_txn_commit
from coordinator.events import Event, TransactionalOffsets
from coordinator.outcome import CommitReply, Outcome
from coordinator.step import ShardState, fits
from offsets.pending import PendingOffsets
from offsets.runs import MarkerRun, OffsetRun, TransactionalRun
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INVALID_COMMIT_OFFSET_SIZE,
    INVALID_GROUP_ID,
    NONE,
)
from protocol.now import Now

PENDING_MAX = 10_000
"""The maximum number of pending offsets of a transaction in one partition of
``__consumer_offsets``. It equals the limit for one request, because the marker of the transaction
commits all these offsets at once, not in slices."""
_NEVER_EXPIRES = -1
_TOO_MANY = f"the transaction would exceed {PENDING_MAX} pending offsets in this coordinator"


def txn_commit(state: ShardState, call: TxnOffsetCommit, now: Now) -> Outcome:
    """Checks a TxnOffsetCommit and returns its records. The member's session is not extended."""
    group = state.groups.get(call.group_id)
    committing = state.committing_group(call.group_id) if group is None else None
    if committing is not None and call.group_id:
        refused = check_txn_commit(committing, call, state.topics)
        if refused is not None:
            return rejected(None, call, *refused)
    elif error := _check(state, group, call):
        return rejected(group, call, error)
    runs: list[OffsetRun] = []
    errors: list[int | Sequence[int]] = []
    limit = state.config.offset_metadata_max_bytes
    for topic in call.topics:
        codes = too_large(topic, limit)
        errors.append(codes or NONE)
        runs += runs_one_by_one(call.group_id, topic, codes, now.wall_ms, _NEVER_EXPIRES)
    if not fits(runs, state.config.max_record_bytes):
        return rejected(group, call, INVALID_COMMIT_OFFSET_SIZE)
    if not _has_room(state.cache.pending, call.producer_id, runs):
        return rejected(group, call, INVALID_COMMIT_OFFSET_SIZE, _TOO_MANY)
    reply = CommitReply(errors if any(errors) else NONE)
    events = (metadata_too_large(call, errors, state),) if any(errors) else ()
    if not runs:
        return Outcome((), ((call.ticket, reply),), events)
    if group is None and committing is None:
        state.groups[call.group_id] = Group(call.group_id, now)
    run = TransactionalRun(call.producer_id, call.producer_epoch, runs)
    return Outcome((run,), ((call.ticket, reply),), events)


def _has_room(pending: PendingOffsets, producer_id: int, runs: Sequence[OffsetRun]) -> bool:
    """Returns whether the transaction would have at most PENDING_MAX pending offsets in this
    partition, including the offsets in ``runs``."""
    known = dict(pending.of_producer(producer_id))
    count = sum([columns.count for columns in known.values()])
    if count + sum(map(len, runs)) <= PENDING_MAX:
        return True
    new = {
        (run.group_id, run.topic, partition)
        for run in runs
        for columns in (known.get((run.group_id, run.topic)),)
        for partition in run.partitions
        if columns is None or columns.get(partition) is None
    }
    return count + len(new) <= PENDING_MAX


def _check(state: ShardState, group: Group | None, call: TxnOffsetCommit) -> int:
    """Returns the error for which a whole commit is rejected, or NONE.

    A commit without a generation, member id and instance id is accepted in any group, because
    requests below v3 do not have these fields. If a commit has one of these fields, all three are
    checked (KIP-447).
    """
    if not call.group_id:
        return INVALID_GROUP_ID
    if group is None:
        if call.group_id in state.share_groups:
            return GROUP_ID_NOT_FOUND
        if call.generation_id < 0:
            return NONE
        return GROUP_ID_NOT_FOUND if call.knows_member_epochs else ILLEGAL_GENERATION
    match group.state:
        case State.DEAD:
            return COORDINATOR_NOT_AVAILABLE
        case State.EMPTY:
            if call.generation_id < 0:
                return NONE
        case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE:
            pass
    if call.generation_id < 0 and not call.member_id and call.group_instance_id is None:
        return NONE
    error = group.check_member(call.member_id, call.group_instance_id)
    if error:
        return error
    return NONE if call.generation_id == group.generation_id else ILLEGAL_GENERATION


def end_offsets(state: ShardState, call: EndOffsets, now: Now) -> Outcome:  # noqa: ARG001
    """Returns the outcome for the end of a transaction with pending offsets: the marker to append,
    and events. The replay of the marker commits or drops the pending offsets."""
    producer = f"producer {call.producer_id}"
    marker = MarkerRun(
        call.producer_id, call.producer_epoch, call.coordinator_epoch, call.committed
    )
    offsets: dict[str, int] = {}
    lowered: dict[str, list[tuple[str, int, int, int]]] = {}
    for (group_id, topic), columns in state.cache.pending.of_producer(call.producer_id):
        offsets[group_id] = offsets.get(group_id, 0) + columns.count
        if call.committed:
            lowered.setdefault(group_id, []).extend(state.cache.lowered(group_id, topic, columns))
    events: list[Event] = []
    for group_id, count in offsets.items():
        events.append(
            TransactionalOffsets(
                group_id, call.producer_id, call.producer_epoch, call.committed, count
            )
        )
        if lowered.get(group_id):
            events.append(moved_back(group_id, ("", producer, ""), lowered[group_id]))
    return Outcome((marker,), ((call.ticket, NONE),), events)
