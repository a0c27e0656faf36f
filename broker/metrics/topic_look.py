"""The state of one topic while a group that reads the topic is scanned, and the facts about
partitions in which the group has no committed offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.metrics.progress import Look, Mark, Unclaimed
from broker.topics.partition import Partition
from coordinator.read_only import GroupView
from verdicts.facts import PartitionFacts

LOOK_UP_EVERY_MS = 30_000
"""If a group lags and commits, the broker looks up the timestamp of its first unread record at this
interval in ms. If the group lags and does not commit, one lookup is enough."""


class TopicLook:
    """The state of one topic while a group is scanned."""

    __slots__ = ("here", "is_due", "look", "marks", "owners", "topic", "topic_id")

    def __init__(
        self, topic: str, here: Mapping[int, Partition], owners: dict[int, str], look: Look
    ) -> None:
        self.topic = topic
        self.here = here
        self.owners = owners
        self.look = look
        self.topic_id = b""
        self.marks: Sequence[Mark] = ()
        before_ms = look.before.seen_ms
        self.is_due = before_ms // LOOK_UP_EVERY_MS != look.now_ms // LOOK_UP_EVERY_MS
        """True if a new interval of LOOK_UP_EVERY_MS has begun since the group's previous scan."""


def owned_alone(found: TopicLook) -> list[int]:
    """Returns the partitions that have an owner but no commit."""
    committed = set(found.look.after.partitions)
    return [each for each in sorted(found.owners) if each not in committed]


def without_commit(
    group: GroupView, found: TopicLook, partition: int, start: int, end: int
) -> PartitionFacts:
    """Returns the facts about a partition that has an owner but no commit."""
    owner = found.owners[partition]
    member = group.members.get(owner)
    instance = None if member is None else member.group_instance_id
    kept = found.look.without_commit(partition, instance or owner, end)
    return _unclaimed(found, partition, start, end, kept, owner)


def orphaned(found: TopicLook) -> list[int]:
    """Returns the partitions that a member owned at an earlier scan, and in which the group still
    has no committed offset."""
    committed = set(found.look.after.partitions)
    return [each for each in sorted(found.look.before.unclaimed) if each not in committed]


def after_owner(
    group: GroupView, found: TopicLook, partition: int, start: int, end: int
) -> PartitionFacts | None:
    """Returns the facts for the finding `orphaned`, about a partition without a commit that a
    member owned earlier and that no member owns now.

    Returns None if the group has members, because a rebalance may assign the partition to its
    previous owner again. The function then only stores the progress of the partition. Also returns
    None if the group has no members and the partition has no records.
    """
    if group.is_empty and end <= start:
        return None
    kept = found.look.after_owner(partition, end)
    if not group.is_empty:
        return None
    return _unclaimed(found, partition, start, end, kept, None)


def _unclaimed(
    found: TopicLook, partition: int, start: int, end: int, kept: Unclaimed, owner: str | None
) -> PartitionFacts:
    has_grown = kept.grown_ms >= 0
    stands_ms = kept.grown_ms if has_grown else kept.seen_ms
    return PartitionFacts(
        found.topic,
        partition,
        log_start=start,
        log_end=end,
        stands_since_ms=stands_ms if end > start else None,
        owner=owner,
        has_grown=has_grown,
    )
