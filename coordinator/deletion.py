"""DeleteGroups and OffsetDelete: deletion of groups and of offsets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from coordinator.calls import DeleteGroup, OffsetDelete
from coordinator.classic.states import State
from coordinator.classic.sweeps import GroupDeleted, begin, bury, write_tombstones
from coordinator.commits import lost
from coordinator.events import EXAMPLES_KEPT, Cause, Loss, LostByAdmin, OffsetsExpired
from coordinator.outcome import OffsetDeleteReply
from coordinator.removal import GroupRecordsDeleted
from coordinator.share import deletion as share_deletion
from coordinator.step import Step
from protocol.consumer_protocol import CONSUMER
from protocol.errors import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    NON_EMPTY_GROUP,
    NONE,
)


def delete_group(step: Step, call: DeleteGroup) -> None:
    group = step.state.groups.get(call.group_id)
    if group is None:
        share = step.state.share_groups.get(call.group_id)
        if share is not None:
            return share_deletion.delete(step, share, call.ticket)
        committing = step.state.committing_group(call.group_id)
        if committing is None:
            return step.reply(call.ticket, GROUP_ID_NOT_FOUND)
        if committing.members:
            return step.reply(call.ticket, NON_EMPTY_GROUP)
        step.events.append(_group_lost(step, call))
        begin(step, GroupRecordsDeleted(step, committing, call.ticket))
        return None
    match group.state:
        case State.EMPTY:
            step.events.append(_group_lost(step, call))
            if not begin(step, GroupDeleted(step, group, call.ticket)):
                bury(step, group, Cause.DELETED, "deleted")
        case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE:
            step.reply(call.ticket, NON_EMPTY_GROUP)
        case State.DEAD:
            step.reply(call.ticket, GROUP_ID_NOT_FOUND)
    return None


def _group_lost(step: Step, call: DeleteGroup) -> LostByAdmin:
    cache = step.state.cache
    count = 0
    first: list[tuple[str, int, int, int]] = []
    for topic, columns in cache.columns(call.group_id):
        count += columns.count
        if len(first) < EXAMPLES_KEPT:
            rows = next(cache.commits(call.group_id, topic, EXAMPLES_KEPT), ())
            first += [(topic, row[0], row[1], -1) for row in rows]
    return replace(lost(call.group_id, Loss.GROUP_DELETED, call.who, first), offsets=count)


def drop_offsets(step: Step, group_id: str, keys: Sequence[tuple[str, int]], cause: Cause) -> None:
    """Writes tombstones for the offsets of ``keys``, and emits an event with their number."""
    if keys:
        write_tombstones(step, group_id, keys)
        step.events.append(OffsetsExpired(group_id, len(keys), cause))


# ---------------------------------------------------------------------------------- OffsetDelete


def offset_delete(step: Step, call: OffsetDelete) -> None:
    """Deletes offsets of topics to which no member of the current generation subscribes.

    A subscription that can't be decoded counts as a subscription to every topic. A group before its
    first generation counts as subscribed to every topic too. A group with members of another
    protocol type than "consumer" gets NON_EMPTY_GROUP.
    """
    group = step.state.groups.get(call.group_id)
    if group is None:
        committing = step.state.committing_group(call.group_id)
        if committing is None:
            return step.reply(call.ticket, OffsetDeleteReply(GROUP_ID_NOT_FOUND))
        return _delete(step, call, committing.subscribed_names())
    match group.state:
        case State.EMPTY:
            _delete(step, call, ())
        case State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE:
            if group.protocol_type != CONSUMER:
                step.reply(call.ticket, OffsetDeleteReply(NON_EMPTY_GROUP))
            else:
                _delete(step, call, group.subscribed_topics)
        case State.DEAD:
            step.reply(call.ticket, OffsetDeleteReply(GROUP_ID_NOT_FOUND))
    return None


def _delete(step: Step, call: OffsetDelete, subscribed: Collection[str] | None) -> None:
    answers = []
    keys = []
    for topic, partitions in call.topics:
        if subscribed is None or topic in subscribed:
            code = GROUP_SUBSCRIBED_TO_TOPIC
        else:
            code = NONE
            keys += [(topic, partition) for partition in partitions]
        answers.append((topic, [(partition, code) for partition in partitions]))
    cache = step.state.cache
    existing = {
        (topic, partition)
        for topic in {topic for topic, _ in keys}
        for partition in cache.to_delete(call.group_id, topic)
    }
    found = [key for key in dict.fromkeys(keys) if key in existing]
    if found:
        before = [cache.get(call.group_id, *key) for key in found]
        deleted = [
            (*key, -1 if entry is None else entry.offset, -1)
            for key, entry in zip(found, before, strict=True)
        ]
        step.events.append(lost(call.group_id, Loss.OFFSETS_DELETED, call.who, deleted))
    drop_offsets(step, call.group_id, found, Cause.DELETED)
    step.reply(call.ticket, OffsetDeleteReply(NONE, answers))
