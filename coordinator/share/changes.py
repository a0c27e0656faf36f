"""Collects the records of one step of a share group, before the records are in the log.

Handlers compute values and add records here. `ShareGroup.fold` applies the records when they are in
the log. The records of one step are one run, so that they stay in one batch.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.assignors.simple import assign
from coordinator.share.group import ShareGroup
from coordinator.topics_image import TopicsImage
from offsets.consumer_records import Assignment
from offsets.share_records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
)

Members = Mapping[str, ShareMemberMetadata]


class ShareChanges:
    """The changes of one step to a group: the group's members after the step, and the records of
    the step."""

    __slots__ = ("_members", "epoch", "group", "records", "target_epoch", "targets")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.records: list[ShareRecord] = []
        self._members: dict[str, ShareMemberMetadata] | None = None
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.targets = group.targets

    @property
    def members(self) -> dict[str, ShareMemberMetadata]:
        """Returns the metadata of the members after the step. The dict is created at the first
        call, because most heartbeats do not change a member."""
        if self._members is None:
            members = self.group.members
            self._members = {member_id: each.metadata for member_id, each in members.items()}
        return self._members

    def remove(self, member_id: str) -> None:
        """Removes a member. Writes the tombstones of record types 14, 13 and 10, in the order that
        Kafka's loader requires."""
        del self.members[member_id]
        self.records += (
            ShareCurrentRecord(member_id, None),
            ShareTargetRecord(member_id, None),
            ShareMemberRecord(member_id, None),
        )

    def set_metadata(self, member_id: str, metadata: ShareMemberMetadata) -> None:
        self.members[member_id] = metadata
        self.records.append(ShareMemberRecord(member_id, metadata))

    def bump(self, metadata_hash: int) -> None:
        self.epoch = ShareGroupEpoch(self.epoch.epoch + 1, metadata_hash)
        self.records.append(ShareEpochRecord(self.epoch))

    def compute_target(self, image: TopicsImage, timestamp_ms: int) -> dict[str, Assignment]:
        """Computes the target assignment and replaces the previous one. Returns the previous
        target."""
        before = self.targets
        targets = compute_target(self.group, self.members, before, image)
        self.records += [
            ShareTargetRecord(member_id, target)
            for member_id, target in targets.items()
            if before.get(member_id) != target
        ]
        self.targets = targets
        self.target_epoch = ShareTargetEpoch(self.epoch.epoch, timestamp_ms)
        self.records.append(ShareTargetEpochRecord(self.target_epoch))
        return before

    def names(self) -> set[str]:
        """Returns the names of the topics to which the members subscribe after the step."""
        if self._members is None:
            return self.group.subscribed_names()
        return {name for each in self._members.values() for name in each.subscribed_topics}


def compute_target(
    group: ShareGroup, members: Members, targets: Mapping[str, Assignment], image: TopicsImage
) -> dict[str, Assignment]:
    """Returns the target of each of ``members``, by member id. ``targets`` is the previous
    target."""
    by_name = image.by_name
    initialized = group.assignable()
    subscriptions: dict[str, frozenset[bytes]] = {}
    assignable: dict[bytes, tuple[int, ...]] = {}
    known: dict[tuple[str, ...], frozenset[bytes]] = {}
    for member_id, metadata in members.items():
        names = metadata.subscribed_topics
        ids = known.get(names)
        if ids is None:
            topics = [by_name[name] for name in names if name in by_name]
            for topic in topics:
                partitions = initialized.get(topic.topic_id, ())
                assignable[topic.topic_id] = tuple(n for n in partitions if n < topic.partitions)
            ids = known[names] = frozenset(topic.topic_id for topic in topics)
        subscriptions[member_id] = ids
    return assign(subscriptions, assignable, targets, is_homogeneous=len(known) <= 1)
