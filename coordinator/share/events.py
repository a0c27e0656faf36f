"""Events of share groups, each emitted once. Share groups also emit events of consumer groups, such
as `EpochBumped`."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.slotted import slotted

Partitions = Mapping[bytes, tuple[int, ...]]
"""The partitions of topics by topic id, in ascending order."""


@slotted
class ShareStateWanted:
    """The delivery state of partitions must be initialized. The broker initializes it at the share
    coordinator and then calls `GroupShard.share_state_initialized`."""

    group_id: str
    topics: Partitions
    state_epoch: int


@slotted
class ShareStateDeletion:
    """The delivery state of partitions must be deleted. The broker deletes it at the share
    coordinator and then calls `GroupShard.share_state_deleted`."""

    group_id: str
    topics: Partitions


@slotted
class ShareMemberRemoved:
    """A member of a share group left, or its session expired. The broker must release the records
    that the member has acquired."""

    group_id: str
    member_id: str


ShareEvent = ShareStateWanted | ShareStateDeletion | ShareMemberRemoved
