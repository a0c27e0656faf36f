"""OffsetCommit and OffsetFetch. The handler of a commit does not change the cache of offsets. It
returns runs of records, and their replay changes the cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from coordinator.calls import (
    OffsetCommit,
    OffsetFetch,
    Sender,
    TopicOffsets,
    TxnOffsetCommit,
)
from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.consumer.commits import check_commit, check_fetch
from coordinator.events import (
    EXAMPLES_KEPT,
    CommitRejected,
    Loss,
    LostByAdmin,
    MovedOffset,
    OffsetsMovedBack,
)
from coordinator.outcome import CommitReply, FetchReply, Outcome, answered
from coordinator.step import ShardState, fits
from offsets.cache import FetchedColumns
from offsets.runs import OffsetRun, Run
from protocol import compiled
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INVALID_COMMIT_OFFSET_SIZE,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from protocol.now import Now

ERRORS = (
    ILLEGAL_GENERATION,
    UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID,
    REBALANCE_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_COMMIT_OFFSET_SIZE,
    OFFSET_METADATA_TOO_LARGE,
)
"""All error codes with which this module rejects an OffsetCommit."""
_MAX_TIMESTAMP_MS = 2**63 - 1
_ACCEPTED = CommitReply(NONE)

_SURELY_FITS_BYTES = 32_000
"""A commit below this size always fits in a batch, and each of its strings always fits in a record.
So its exact size need not be computed."""
_BATCH_BYTES = 64
"""Upper bound of the size of a batch header in bytes."""
_RECORD_BYTES = 64
"""Upper bound of the size of an offset record in bytes, without metadata, group id and topic."""
_CHARACTER_BYTES = 4
_offset_runs = None if compiled.MODULE is None else compiled.MODULE.offset_runs


def commit(state: ShardState, call: OffsetCommit, now: Now) -> Outcome:
    """Checks an OffsetCommit and returns its records. Extends the session of a classic member."""
    group = state.groups.get(call.group_id)
    committing = state.committing_group(call.group_id) if group is None else None
    if committing is not None:
        refused = check_commit(committing, call, state.topics)
        if refused is not None:
            return rejected(None, call, *refused)
    elif error := _check(state, group, call, now):
        return rejected(group, call, error)
    wall_ms, retention_ms = now.wall_ms, call.retention_time_ms
    if retention_ms == -1:
        retention_ms = state.config.commit_retention_ms
    expire_ms = -1 if retention_ms == -1 else min(wall_ms + retention_ms, _MAX_TIMESTAMP_MS)
    runs: list[Run] = []
    errors: list[int | Sequence[int]] | None = None
    at_most = _BATCH_BYTES
    group_id = call.group_id
    record_bytes = _RECORD_BYTES + len(group_id) * _CHARACTER_BYTES
    topics = call.topics
    if _offset_runs is not None:
        plain = _offset_runs(OffsetRun, group_id, topics, wall_ms, expire_ms)
        if plain is not None:
            runs, records, characters = plain
            at_most += records * record_bytes + characters * _CHARACTER_BYTES
            topics = ()
    for i, topic in enumerate(topics):
        name, partitions, offsets, epochs, metadata, timestamps = topic
        if metadata is None and timestamps is None:
            if partitions:
                at_most += len(partitions) * (record_bytes + len(name) * _CHARACTER_BYTES)
                runs.append(
                    OffsetRun(group_id, name, partitions, offsets, epochs, None, wall_ms, expire_ms)
                )
            continue
        codes = too_large(topic, state.config.offset_metadata_max_bytes)
        if codes is not None:
            if errors is None:
                errors = [NONE] * len(call.topics)
            errors[i] = codes
        at_most = _SURELY_FITS_BYTES
        runs += runs_one_by_one(call.group_id, topic, codes, wall_ms, expire_ms)
    limit = state.config.max_record_bytes
    if at_most >= min(limit, _SURELY_FITS_BYTES) and not fits(runs, limit):
        return rejected(group, call, INVALID_COMMIT_OFFSET_SIZE)
    moved = state.cache.moved_back(call.group_id, runs)
    if group is None and committing is None and runs:
        state.groups[call.group_id] = Group(call.group_id, now)
    reply = _ACCEPTED if errors is None else CommitReply(errors)
    events: Sequence[OffsetsMovedBack | CommitRejected | LostByAdmin] = ()
    if moved:
        who = call.member_id, call.client_id, call.client_host
        events = (moved_back(call.group_id, who, moved, call.principal),)
    uses_offsets = committing is not None or (group is not None and group.protocol_type)
    if call.generation_id < 0 and uses_offsets:
        events = (*events, *_skipped(state, call, runs))
    if errors is not None:
        events = (*events, metadata_too_large(call, errors, state))
    return tuple.__new__(Outcome, (runs, ((call.ticket, reply),), events))


def _skipped(state: ShardState, call: OffsetCommit, runs: Sequence[Run]) -> Sequence[LostByAdmin]:
    """Checks a commit by a client that is not a member of the group. If the commit moves offsets
    forward, returns an event about the records that it skips; otherwise ()."""
    raised = state.cache.moved_forward(call.group_id, runs)
    sender = Sender(call.principal, call.client_id, call.client_host)
    return (lost(call.group_id, Loss.SKIPPED, sender, raised),) if raised else ()


def moved_back(
    group_id: str,
    who: tuple[str, str, str],
    moved: Sequence[tuple[str, int, int, int]],
    principal: str = "",
) -> OffsetsMovedBack:
    """Returns the event for a commit that lowered offsets. ``who`` is (member id, client id, client
    host). An element of ``moved`` is (topic, partition, previous offset, new offset)."""
    examples = tuple([MovedOffset(*each) for each in moved[:EXAMPLES_KEPT]])
    return OffsetsMovedBack(group_id, *who, len(moved), examples, principal)


def lost(
    group_id: str, loss: Loss, who: Sender, offsets: Sequence[tuple[str, int, int, int]]
) -> LostByAdmin:
    """Returns the event for an admin action that made a group miss records. Each element of
    ``offsets`` is (topic, partition, previous offset, new offset)."""
    examples = tuple([MovedOffset(*each) for each in offsets[:EXAMPLES_KEPT]])
    return LostByAdmin(group_id, loss, *who, len(offsets), examples)


def rejected(
    group: Group | None, call: OffsetCommit | TxnOffsetCommit, error: int, why: str = ""
) -> Outcome:
    """Returns the outcome of a commit that is rejected as a whole. ``why`` replaces the default
    reason in the event."""
    event = CommitRejected(
        call.group_id,
        call.member_id,
        error,
        call.client_id,
        call.client_host,
        why or _why_rejected(group, call, error),
    )
    return Outcome((), ((call.ticket, CommitReply(error)),), (event,))


def metadata_too_large(
    call: OffsetCommit | TxnOffsetCommit,
    errors: Sequence[int | Sequence[int]],
    state: ShardState,
) -> CommitRejected:
    """Returns the event of a commit that was rejected for partitions whose metadata is too long."""
    refused = sum([sum(map(bool, codes)) for codes in errors if not isinstance(codes, int)])
    limit = state.config.offset_metadata_max_bytes
    of = "1 partition" if refused == 1 else f"{refused} partitions"
    why = f"the metadata of {of} is longer than offset.metadata.max.bytes, {limit}"
    who = call.client_id, call.client_host
    return CommitRejected(call.group_id, call.member_id, OFFSET_METADATA_TOO_LARGE, *who, why)


def _why_rejected(group: Group | None, call: OffsetCommit | TxnOffsetCommit, error: int) -> str:
    if error == INVALID_COMMIT_OFFSET_SIZE:
        return "the commit is larger than the largest batch of __consumer_offsets"
    if error == GROUP_ID_NOT_FOUND:
        return "the group is a share group, which has no committed offsets"
    if group is None:
        return f"the commit has generation {call.generation_id}, but the group does not exist"
    if error == ILLEGAL_GENERATION:
        return (
            f"the commit has generation {call.generation_id}, but the group has"
            f" {group.generation_id}"
        )
    if error == REBALANCE_IN_PROGRESS:
        return f"the leader of generation {group.generation_id} has not sent the assignment yet"
    if error == FENCED_INSTANCE_ID:
        return f"another member now has group.instance.id {call.group_instance_id}"
    if error == UNKNOWN_MEMBER_ID and call.generation_id < 0 and not call.member_id:
        return f"the client is not a member, but the group has members ({group.state.value})"
    if error == UNKNOWN_MEMBER_ID:
        return f"the member id is unknown to the group ({group.state.value})"
    return f"the group is {group.state.value}"


def _check(state: ShardState, group: Group | None, call: OffsetCommit, now: Now) -> int:
    """Returns the error for which a whole commit is rejected, or NONE.

    A commit without a generation comes from a simple consumer (assign()) or an admin. Such a commit
    is accepted only while the group has no members.
    """
    if group is None:
        if call.group_id in state.share_groups:
            return GROUP_ID_NOT_FOUND
        return NONE if call.generation_id < 0 else ILLEGAL_GENERATION
    match group.state:
        case State.STABLE | State.PREPARING_REBALANCE:
            answer = NONE
        case State.AWAITING_SYNC:
            answer = REBALANCE_IN_PROGRESS
        case State.EMPTY:
            return NONE if call.generation_id < 0 else UNKNOWN_MEMBER_ID
        case State.DEAD:
            return COORDINATOR_NOT_AVAILABLE
    member = group.members.get(call.member_id)
    if member is None or call.group_instance_id is not None:
        error = group.check_member(call.member_id, call.group_instance_id)
        if error or member is None:
            return error
    if call.generation_id != group.generation_id:
        return ILLEGAL_GENERATION
    if not answer and not member.waits:
        member.closed_ms = None  # the member has a new connection, which its next heartbeat notes
        member.session.due_ms = now.mono_ms + member.session_timeout_ms
    return answer


def too_large(topic: TopicOffsets, limit: int) -> list[int] | None:
    """Returns an error code for each partition if the metadata of at least one partition exceeds
    ``limit`` characters; otherwise None."""
    if topic.metadata is None:
        return None
    codes = [
        OFFSET_METADATA_TOO_LARGE if text is not None and len(text) > limit else NONE
        for text in topic.metadata
    ]
    return codes if any(codes) else None


def runs_one_by_one(
    group_id: str, topic: TopicOffsets, codes: list[int] | None, wall_ms: int, expire_ms: int
) -> list[OffsetRun]:
    """Returns the runs of a topic in request order. This function is for topics whose partitions
    have metadata or different commit timestamps.

    Partitions with an error are omitted. All offsets of a run have the same commit timestamp, so a
    new run begins where the timestamp changes (OffsetCommit v1).
    """
    given = topic.commit_timestamps_ms
    accepted = [i for i in range(len(topic.partitions)) if codes is None or not codes[i]]
    runs: list[OffsetRun] = []
    for stamp, group in groupby(
        accepted, key=lambda i: wall_ms if given is None or given[i] == -1 else given[i]
    ):
        slots = list(group)
        runs.append(
            OffsetRun(
                group_id,
                topic.topic,
                [topic.partitions[i] for i in slots],
                [topic.offsets[i] for i in slots],
                [topic.leader_epochs[i] for i in slots],
                None if topic.metadata is None else [topic.metadata[i] or "" for i in slots],
                stamp,
                expire_ms,
            )
        )
    return runs


# ----------------------------------------------------------------------------------- OffsetFetch


def fetch(state: ShardState, call: OffsetFetch, now: Now) -> Outcome:
    """Replies to an OffsetFetch with the committed offsets; -1 for a partition without a committed
    offset. The sender need not be a member of the group."""
    found: Sequence[FetchedColumns]
    group = state.groups.get(call.group_id)
    cache = state.cache
    if state.config.fetch_counts_as_activity and group is not None and not group.protocol_type:
        group.offsets_read_ms = now.wall_ms
    committing = state.committing_group(call.group_id) if group is None else None
    if committing is not None and (error := check_fetch(committing, call)):
        return answered(call.ticket, FetchReply(error))
    known = committing is not None or (group is not None and group.state is not State.DEAD)
    if call.topics is None:
        found = cache.fetch_all(call.group_id) if known else ()
    elif not known:
        found = [cache.fetch("", topic, partitions) for topic, partitions in call.topics]
    else:
        group_id = call.group_id
        found = [cache.fetch(group_id, topic, partitions) for topic, partitions in call.topics]
    if call.require_stable and cache.pending:
        found = [cache.stable_only(call.group_id, topic) for topic in found]
    return answered(call.ticket, FetchReply(NONE, found))
