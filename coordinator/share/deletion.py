"""Deletes share groups on DeleteGroups.

The delivery state of the group's partitions is deleted first. The group writes its topics as
"deleting" and emits `ShareStateDeletion`. The broker deletes the state at the share coordinator and
then calls `state_deleted`, which writes the tombstones. The request is parked until then.

Source: Kafka 4.3.1 ``GroupCoordinatorService.deleteShareGroups``,
``ShareGroup.createGroupTombstoneRecords``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from coordinator.calls import Ticket
from coordinator.events import Cause, GroupRemoved
from coordinator.share import initialization
from coordinator.share.events import ShareStateDeletion
from coordinator.share.group import ShareGroup
from coordinator.step import ShareDeletion, Step
from offsets.share_records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupRun,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitionsRecord,
)
from protocol.errors import NON_EMPTY_GROUP, NONE


def tombstones(group: ShareGroup) -> ShareGroupRun:
    """Returns the tombstones of a group in the order that Kafka's loader requires: members first.
    As in Kafka, there are tombstones of record types 12 and 15 even if the log does not have such
    records."""
    members = sorted(group.members)
    records: list[ShareRecord] = [ShareCurrentRecord(member_id, None) for member_id in members]
    records += [ShareTargetRecord(member_id, None) for member_id in members]
    records.append(ShareTargetEpochRecord(None))
    records += [ShareMemberRecord(member_id, None) for member_id in members]
    records += (StatePartitionsRecord(None), ShareEpochRecord(None))
    return ShareGroupRun(group.group_id, records)


def delete(step: Step, group: ShareGroup, ticket: Ticket) -> None:
    """Deletes an empty group. If the group has partitions with a delivery state, only begins the
    deletion of these states."""
    if group.members:
        return step.reply(ticket, NON_EMPTY_GROUP)
    topics = initialization.all_deleting(step, group)
    if topics:
        waiting = step.state.share_deletions.setdefault(group.group_id, ShareDeletion([], set()))
        waiting.tickets.append(ticket)
        waiting.topics.update(topics)
        step.events.append(ShareStateDeletion(group.group_id, topics))
    else:
        _remove(step, group)
        step.reply(ticket, NONE)
    return None


def state_deleted(step: Step, group_id: str, topics: Collection[bytes], error_code: int) -> None:
    """Handles the end of a deletion of delivery states. Removes the topics of these states from the
    group. If the group is being deleted, and none of its topics has a delivery state any more, ends
    the deletion of the group.

    With an error code, the topics stay "deleting", and a later DeleteGroups deletes them again.
    """
    group = step.state.share_groups.get(group_id)
    waiting = step.state.share_deletions.get(group_id)
    if waiting is None:
        if error_code == NONE and group is not None:
            _forget_topics(step, group, topics)
        return
    waiting.topics.difference_update(topics)
    if error_code == NONE and waiting.topics:
        return
    del step.state.share_deletions[group_id]
    if error_code == NONE and group is not None:
        if group.members:
            error_code = NON_EMPTY_GROUP
            _forget_topics(step, group, group.stored.deleting)
        else:
            _remove(step, group)
    for ticket in waiting.tickets:
        step.reply(ticket, error_code)


def _forget_topics(step: Step, group: ShareGroup, topics: Collection[bytes]) -> None:
    stored = group.stored
    deleting = {key: name for key, name in stored.deleting.items() if key not in topics}
    if deleting != stored.deleting:
        records = [StatePartitionsRecord(replace(stored, deleting=deleting))]
        step.records.append(ShareGroupRun(group.group_id, records, step.now.wall_ms))


def _remove(step: Step, group: ShareGroup) -> None:
    step.records.append(tombstones(group))
    step.events.append(GroupRemoved(group.group_id, Cause.DELETED))
