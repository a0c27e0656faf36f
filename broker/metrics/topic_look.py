"""The state of one topic during a scan of a group, and the group's partitions without a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.metrics.progress import Look, Mark, Unclaimed
from broker.topics.partition import Partition
from coordinator.read_only import GroupView
from verdicts.facts import PartitionFacts

LOOK_UP_EVERY_MS = 30_000
"""The time in ms between two lookups of the first unread record of a late group whose offsets move;
if the offsets do not move, one lookup is enough."""


class TopicLook:
    """The state of one topic during a scan of a group."""

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
        """True if this scan is the first in the current interval of LOOK_UP_EVERY_MS."""


def owned_alone(found: TopicLook) -> list[int]:
    """Returns the partitions that a member owns and in which the group has no commit."""
    committed = set(found.look.after.partitions)
    return [each for each in sorted(found.owners) if each not in committed]


def without_commit(
    group: GroupView, found: TopicLook, partition: int, start: int, end: int
) -> PartitionFacts:
    """Returns the facts about a partition in which the member that owns it has never committed."""
    owner = found.owners[partition]
    member = group.members.get(owner)
    instance = None if member is None else member.group_instance_id
    kept = found.look.without_commit(partition, instance or owner, end)
    return _unclaimed(found, partition, start, end, kept, owner)


def orphaned(found: TopicLook) -> list[int]:
    """Returns the partitions without a commit that a member owned until the group changed."""
    committed = set(found.look.after.partitions)
    return [each for each in sorted(found.look.before.unclaimed) if each not in committed]


def after_owner(
    group: GroupView, found: TopicLook, partition: int, start: int, end: int
) -> PartitionFacts | None:
    """Returns the facts about a partition without an owner, for the finding `orphaned`; None if the
    partition's last owner has read all records.

    If the group has members, ``found`` records the partition, and the function returns None: after
    the rebalance the previous owner may own the partition again.
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
