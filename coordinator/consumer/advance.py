"""Applies an accepted request of a member to its consumer group.

A request may change, in this order: the member's metadata, the resolved regexes, the group's epoch,
the target assignment, and the member's own assignment. Handlers check the request before `advance`,
and reply after `advance`.

Source: KIP-848; Kafka 4.3.1 ``GroupMetadataManager.consumerGroupHeartbeat`` and
``classicGroupJoinToConsumerGroup``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from coordinator.consumer import regexes
from coordinator.consumer.changes import Changes
from coordinator.consumer.events import MemberReconciled, TargetComputed
from coordinator.consumer.group import JOINING_EPOCH, NO_METADATA, ConsumerGroup, ConsumerMember
from coordinator.consumer.reconcile import Holders, Owned, Towards, reconcile
from coordinator.consumer.refused import Refused
from coordinator.consumer.reporting import epoch_bumped, reconciled
from coordinator.consumer.target import compute_target, preferred_assignor
from coordinator.consumer.wording import moves
from coordinator.events import MemberJoined
from coordinator.step import Step, fits
from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    MemberMetadata,
)
from offsets.runs import GroupRun, Run
from protocol.errors import GROUP_MAX_SIZE_REACHED


class Admitted(NamedTuple):
    """A member's request after it has passed all checks."""

    group: ConsumerGroup
    member_id: str
    member: ConsumerMember | None
    """The member that sent the request; None if the sender joins."""
    replaced: ConsumerMember | None = None
    """The static member that the joining member replaces; None if it replaces no member."""
    conversion: Sequence[ConsumerRecord] = ()
    """The records that convert a classic group with members into ``group``; empty if the group is
    not being converted."""

    @property
    def metadata(self) -> MemberMetadata:
        known = self.replaced or self.member
        return NO_METADATA if known is None else known.metadata


class Advanced(NamedTuple):
    """A member of the group after its request was applied."""

    member: ConsumerMember
    before: CurrentAssignment
    after: CurrentAssignment


def advance(
    step: Step,
    admitted: Admitted,
    updated: MemberMetadata,
    owned: Owned | None,
    sender: Hashable = None,
) -> Advanced | Refused:
    """Emits the records and events of a request. Returns GROUP_MAX_SIZE_REACHED if the records do
    not fit in a batch.

    ``updated`` is the member's metadata after the request. If the request does not change the
    metadata, it is the member's present metadata object. ``owned`` are the partitions that the
    request lists as owned. The rights of ``sender`` limit the topics that regexes match.
    """
    group, member_id, member, replaced, conversion = admitted
    changes = Changes(group)
    changes.records += conversion
    metadata = admitted.metadata
    if replaced is not None:
        current = _taken_over(replaced)
        changes.replace(replaced, member_id, current)
    else:
        current = CurrentAssignment() if member is None else member.current
    is_new = member is None and replaced is None
    if updated != metadata or is_new:
        changes.set_metadata(member_id, updated)
    changed = _change_epoch(step, changes, member_id, metadata, updated)
    _compute_target(step, changes)
    towards = Towards(
        member_id,
        changes.target_epoch.epoch,
        changes.targets.get(member_id, {}),
        group.topic_ids_of(updated, step.state.topics),
        group.holders if replaced is None else _renamed(group.holders, replaced, member_id),
    )
    after = reconcile(current, towards, owned, subscription_changed=changed)
    if after is not current or is_new:
        changes.records.append(CurrentRecord(member_id, after))
    if not _emit(step, changes):
        step.events.clear()
        text = (
            "The group's target assignment does not fit into a batch of __consumer_offsets"
            " (max.message.bytes)."
        )
        return Refused(GROUP_MAX_SIZE_REACHED, text)
    regexes.ask(step, changes, sender)
    if member is None:
        member = _joined(step, admitted, updated)
    if after is not current:
        step.events.append(MemberReconciled(group.group_id, member_id, current, after))
        reconciled(step, changes, member_id, after)
    return Advanced(member, current, after)


def _taken_over(replaced: ConsumerMember) -> CurrentAssignment:
    """Returns the first assignment of a member that replaces a static member. It has the partitions
    of the member ``replaced``."""
    before = replaced.current
    return CurrentAssignment(JOINING_EPOCH, JOINING_EPOCH, before.state, before.assigned)


def _renamed(holders: Holders, replaced: ConsumerMember, member_id: str) -> Holders:
    return {
        key: member_id if holder == replaced.member_id else holder
        for key, holder in holders.items()
    }


def _change_epoch(
    step: Step, changes: Changes, member_id: str, before: MemberMetadata, after: MemberMetadata
) -> bool:
    """Raises the group's epoch if subscriptions or topics have changed. A new regex raises the
    epoch only when it is resolved. Returns whether the member's subscription changed."""
    group, image = changes.group, step.state.topics
    names_changed = before.subscribed_topics != after.subscribed_topics
    old_regex, regex = before.subscribed_regex or "", after.subscribed_regex or ""
    if old_regex and old_regex != regex:
        changes.drop_unused_regexes()
    regex_changed = old_regex != regex and (not regex or regex in group.regexes)
    if not (names_changed or regex_changed or group.refresh_wanted):
        return old_regex != regex
    metadata_hash = image.metadata_hash(changes.names())
    group.refresh_wanted = False
    by_member = names_changed or regex_changed
    if by_member or metadata_hash != group.epoch.metadata_hash:
        changes.bump(metadata_hash)
        epoch_bumped(step, changes, member_id, after, subscription_changed=by_member)
    return names_changed or old_regex != regex


def _compute_target(step: Step, changes: Changes) -> None:
    """Computes a target assignment if the group's epoch is above the target's and the minimum
    interval between two targets has passed."""
    if changes.target_epoch.epoch >= changes.epoch.epoch:
        return
    config, now_ms = step.state.config, step.now.wall_ms
    computed_ms = changes.target_epoch.timestamp_ms
    interval_ms = config.of_group(changes.group.group_id).assignment_interval_ms
    if computed_ms and 0 <= now_ms - computed_ms < interval_ms:
        return
    members = changes.members()
    assignor = preferred_assignor(members, config.consumer_assignors)
    targets = compute_target(changes.group, members, changes.targets, step.state.topics, assignor)
    moved = moves(changes.targets, targets, step.state.topics)
    changed = changes.set_target(targets, now_ms)
    group_id, epoch = changes.group.group_id, changes.epoch.epoch
    step.events.append(TargetComputed(group_id, epoch, assignor, len(targets), changed, moved))


def _emit(step: Step, changes: Changes) -> bool:
    """Emits the records of the step, to be written in one batch. Returns False, and emits nothing,
    if the records do not fit into one batch."""
    state, group = step.state, changes.group
    runs: list[Run] = []
    classic = state.groups.get(group.group_id)
    if classic is not None and classic.record_offset >= 0:
        runs.append(GroupRun(group.group_id, None))
    if changes.records:
        runs.append(ConsumerGroupRun(group.group_id, changes.records, step.now.wall_ms))
        if not fits(runs, state.config.max_record_bytes):
            return False
        group.changed_ms = step.now.mono_ms
    step.records += runs
    state.groups.pop(group.group_id, None)
    state.consumer_groups[group.group_id] = group
    return True


def _joined(step: Step, admitted: Admitted, metadata: MemberMetadata) -> ConsumerMember:
    """Returns the member that joined. Emits the event about the join before the other events of
    this step. The journal then assigns the join to the rebalance that the new epoch begins."""
    group, member_id, _, replaced, _ = admitted
    replaces = "" if replaced is None else replaced.member_id
    client = metadata.client_id, metadata.client_host
    joined = MemberJoined(group.group_id, member_id, metadata.instance_id, *client, None, replaces)
    step.events.insert(0, joined)
    return group.new_member(member_id)
