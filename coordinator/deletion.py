"""How groups and offsets end: DeleteGroups, OffsetDelete, deleted topics, retention."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator.calls import DeleteGroup, OffsetDelete
from coordinator.events import Cause, GroupRemoved, OffsetsExpired
from coordinator.expiring import condition_of, warn_of_expiry
from coordinator.group import CONSUMER, Group
from coordinator.outcome import OffsetDeleteReply
from coordinator.states import State
from coordinator.step import Step
from offsets.runs import GroupRun, OffsetTombstones
from protocol.errors import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    NONE,
)

_TOMBSTONE_FIXED_BYTES = 40
"""Of one tombstone's record, beside the bytes of group and topic; an upper bound."""


def delete_group(step: Step, call: DeleteGroup) -> None:
    """Delete a group without members, its offsets and its record."""
    group = step.state.groups.get(call.group_id)
    if group is None:
        return step.reply(call.ticket, GROUP_ID_NOT_FOUND)
    match group.state:
        case State.EMPTY:
            keys = step.state.cache.keys(call.group_id)
            drop_offsets(step, group, keys, Cause.DELETED)
            forget(step, group, Cause.DELETED, "deleted")
            step.reply(call.ticket, NONE)
        case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE:
            step.reply(call.ticket, NON_EMPTY_GROUP)
        case State.DEAD:
            step.reply(call.ticket, GROUP_ID_NOT_FOUND)
    return None


def forget(step: Step, group: Group, cause: Cause, detail: str) -> None:
    """Let an EMPTY group go, with a tombstone if the log may hold a record of it."""
    for timer in group.pending.values():
        timer.disarm()
    group.pending.clear()
    if group.generation_id > 0 or group.record_offset != -1:
        step.records.append(GroupRun(group.group_id, None))
    step.move(group, State.DEAD, cause, detail)
    step.events.append(GroupRemoved(group.group_id, cause))
    for by_group in step.state.expiring.values():
        by_group.pop(group.group_id, None)
    del step.state.groups[group.group_id]


def drop_offsets(step: Step, group: Group, keys: Sequence[tuple[str, int]], cause: Cause) -> None:
    """Write tombstones, in runs that each fit a batch."""
    if not keys:
        return
    room = step.state.config.max_record_bytes - 61
    head = _TOMBSTONE_FIXED_BYTES + len(group.group_id.encode())
    first, size = 0, 0
    for i, (topic, _) in enumerate(keys):
        record = head + len(topic.encode())
        if size + record > room and i > first:
            step.records.append(OffsetTombstones(group.group_id, keys[first:i]))
            first, size = i, 0
        size += record
    step.records.append(OffsetTombstones(group.group_id, keys[first:]))
    step.events.append(OffsetsExpired(group.group_id, len(keys), cause))


# ---------------------------------------------------------------------------------- OffsetDelete


def offset_delete(step: Step, call: OffsetDelete) -> None:
    """Delete offsets of topics to which no member of the current generation subscribes.

    A subscription that cannot be read counts as one to every topic, and so does that of a group
    before its first generation. Groups with members whose type is not "consumer" are left alone.
    """
    if not call.group_id:
        return step.reply(call.ticket, OffsetDeleteReply(INVALID_GROUP_ID))
    group = step.state.groups.get(call.group_id)
    if group is None:
        return step.reply(call.ticket, OffsetDeleteReply(GROUP_ID_NOT_FOUND))
    match group.state:
        case State.EMPTY:
            _delete(step, group, call, ())
        case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE:
            if group.protocol_type != CONSUMER:
                step.reply(call.ticket, OffsetDeleteReply(NON_EMPTY_GROUP))
            else:
                _delete(step, group, call, group.subscribed_topics)
        case State.DEAD:
            step.reply(call.ticket, OffsetDeleteReply(GROUP_ID_NOT_FOUND))
    return None


def _delete(
    step: Step, group: Group, call: OffsetDelete, subscribed: Collection[str] | None
) -> None:
    answers = []
    keys = []
    for topic, partitions in call.topics:
        if subscribed is None or topic in subscribed:
            code = GROUP_SUBSCRIBED_TO_TOPIC
        else:
            code = NONE
            keys += [(topic, partition) for partition in partitions]
        answers.append((topic, [(partition, code) for partition in partitions]))
    existing = set(step.state.cache.keys_of_topics(group.group_id, {topic for topic, _ in keys}))
    found = [key for key in dict.fromkeys(keys) if key in existing]
    drop_offsets(step, group, found, Cause.DELETED)
    step.reply(call.ticket, OffsetDeleteReply(NONE, answers))


# ------------------------------------------------------------------------- topics, and retention


def topics_deleted(step: Step, topics: Collection[str]) -> None:
    """Drop the offsets of topics that are gone, in every group."""
    for group in step.state.groups.values():
        keys = step.state.cache.keys_of_topics(group.group_id, topics)
        drop_offsets(step, group, keys, Cause.DELETED)


def apply_retention(step: Step, group: Group) -> None:
    """Drop what retention lets go of one group, and the group itself when nothing is left."""
    cache = step.state.cache
    keys = cache.expired(
        group.group_id,
        condition_of(group),
        step.state.config.offsets_retention_ms,
        step.now.wall_ms,
    )
    drop_offsets(step, group, keys, Cause.EXPIRED)
    warn_of_expiry(step, group)
    match group.state:
        case State.EMPTY:
            left = cache.has_offsets(group.group_id) and (
                not keys or len(keys) < len(cache.keys(group.group_id))
            )
            if not left and not group.pending:
                forget(step, group, Cause.EXPIRED, "empty, and no offset is left")
        case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE | State.DEAD:
            pass
