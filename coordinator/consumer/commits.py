"""Checks of the member id and epoch in an OffsetCommit, TxnOffsetCommit or OffsetFetch, for
consumer and streams groups.

These requests do not extend the member's session; only heartbeats do. Source: KIP-848, KIP-1071,
KIP-1251; Kafka 4.3.1 ``ConsumerGroup`` and ``StreamsGroup``: ``validateOffsetCommit``,
``validateOffsetFetch``; ``OffsetMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from coordinator.calls import OffsetCommit, OffsetFetch, TxnOffsetCommit
from coordinator.consumer.group import ConsumerMember
from coordinator.step import CommittingGroup
from coordinator.streams.group import StreamsGroup, StreamsMember
from coordinator.topics_image import TopicsImage
from protocol.errors import (
    ILLEGAL_GENERATION,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)

CommittingMember = ConsumerMember | StreamsMember


class CommitRefused(NamedTuple):
    """The error code of a rejected commit, and the reason for the journal."""

    error_code: int
    detail: str


def check_commit(
    group: CommittingGroup, call: OffsetCommit, image: TopicsImage
) -> CommitRefused | None:
    """Returns the error for which a whole commit is rejected; None if the commit is accepted.

    A commit without a member epoch comes from a simple consumer or an admin. Such a commit is
    accepted only while the group has no members.
    """
    epoch = call.generation_id
    if epoch < 0 and not group.members:
        return None
    member = group.members.get(call.member_id)
    if member is None:
        return _unknown(group, call)
    if not call.knows_member_epochs and not _is_classic(member):
        text = "a member with a member epoch must commit with OffsetCommit version 9 or later"
        return CommitRefused(UNSUPPORTED_VERSION, text)
    return _check_epoch(group, member, call, image)


def check_txn_commit(
    group: CommittingGroup, call: TxnOffsetCommit, image: TopicsImage
) -> CommitRefused | None:
    """Returns the error for which a whole TxnOffsetCommit is rejected; None if it is accepted. In a
    group of any type the request may omit the member id and the epoch (KIP-447)."""
    if call.generation_id < 0 and not call.member_id and call.group_instance_id is None:
        return None
    member = group.members.get(call.member_id)
    if member is None:
        return _unknown(group, call)
    return _check_epoch(group, member, call, image)


def _is_classic(member: CommittingMember) -> bool:
    return isinstance(member, ConsumerMember) and member.metadata.classic is not None


def _stale(member: CommittingMember, call: OffsetCommit | TxnOffsetCommit) -> int:
    """Returns the error code for a commit with an outdated epoch: STALE_MEMBER_EPOCH if the sender
    knows this error, else ILLEGAL_GENERATION. A classic member does not know STALE_MEMBER_EPOCH in
    any version."""
    knows = call.knows_member_epochs and not _is_classic(member)
    return STALE_MEMBER_EPOCH if knows else ILLEGAL_GENERATION


def check_fetch(group: CommittingGroup, call: OffsetFetch) -> int:
    """Checks the member that an OffsetFetch names (v9 and up). Returns an error code or NONE."""
    if call.member_id is None and call.member_epoch < 0:
        return NONE
    member = group.members.get(call.member_id or "")
    if member is None:
        return UNKNOWN_MEMBER_ID
    return NONE if call.member_epoch == member.current.epoch else STALE_MEMBER_EPOCH


def _unknown(group: CommittingGroup, call: OffsetCommit | TxnOffsetCommit) -> CommitRefused:
    if call.member_id:
        text = f"the member id is unknown to the group ({group.state().value})"
    else:
        text = f"the client is not a member, but the group has members ({group.state().value})"
    return CommitRefused(UNKNOWN_MEMBER_ID, text)


def _check_epoch(
    group: CommittingGroup,
    member: CommittingMember,
    call: OffsetCommit | TxnOffsetCommit,
    image: TopicsImage,
) -> CommitRefused | None:
    """Returns the error of a commit whose epoch differs from the member's epoch; None if the commit
    is accepted.

    A commit with an older epoch E is accepted if the member received all partitions of the commit
    in epoch E or earlier.
    """
    epoch, current, stale = call.generation_id, member.current, _stale(member, call)
    if epoch == current.epoch:
        return None
    if epoch > current.epoch:
        text = f"the commit has member epoch {epoch}, above the member's epoch {current.epoch}"
        return CommitRefused(stale, text)
    for name, partition in _partitions(call):
        got_at = _received_at(group, member, image, name, partition)
        if got_at is None:
            text = (
                f"{name}-{partition} is not assigned to the member; the commit has epoch {epoch},"
                f" and the member has {current.epoch}"
            )
            return CommitRefused(stale, text)
        if got_at > epoch:
            text = (
                f"{name}-{partition} was assigned to the member in epoch {got_at}, but the commit"
                f" has epoch {epoch}"
            )
            return CommitRefused(stale, text)
    return None


def _received_at(
    group: CommittingGroup,
    member: CommittingMember,
    image: TopicsImage,
    name: str,
    partition: int,
) -> int | None:
    """Returns the epoch at which the member received a partition; None if the member does not own
    the partition. In a streams group, the owner of a partition is the member with the active task
    that reads it."""
    assigned: Mapping[Any, Mapping[int, int]]
    revoking: Mapping[Any, Mapping[int, int]]
    if isinstance(member, ConsumerMember):
        topic = image.by_name.get(name)
        key: Any = None if topic is None else topic.topic_id
        assigned, revoking = member.current.assigned, member.current.revoking
    else:
        assert isinstance(group, StreamsGroup)
        reader = group.reader_of(name)
        key = None if reader is None else reader.subtopology_id
        assigned, revoking = member.current.active, member.current.revoking_active
    got_at = assigned.get(key, {}).get(partition)
    return revoking.get(key, {}).get(partition) if got_at is None else got_at


def _partitions(call: OffsetCommit | TxnOffsetCommit) -> Iterator[tuple[str, int]]:
    for topic in call.topics:
        for partition in topic.partitions:
            yield topic.topic, partition
