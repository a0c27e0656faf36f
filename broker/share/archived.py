"""Journal events about archived records of share groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from broker.cores.groups.runtime import GroupRuntime
from broker.share.live_partition import LivePartition
from coordinator.share.archived import RecordsArchived

if TYPE_CHECKING:
    from share.partition.values import Outcome

REPORTED_MAX = 128
"""The maximum number of archived ranges that one change reports. If more ranges were archived, only
the last ones are reported, because the journal keeps at most this number for a group."""


def archived_events(
    live: LivePartition, outcomes: Sequence[Outcome], groups: GroupRuntime
) -> Iterator[RecordsArchived]:
    """Yields an event for each range of records that was archived. The event describes the range's
    last delivery."""
    group_id, topic_id, partition = live.key
    for each in outcomes[-REPORTED_MAX:]:
        client_id, host = _client(groups, group_id, each.member_id)
        yield RecordsArchived(
            group_id,
            topic_id,
            partition,
            live.ready.state_epoch,
            each.first_offset,
            each.last_offset,
            each.delivery_count,
            each.member_id,
            client_id,
            host,
            each.began_ms,
            each.kind,
        )


def _client(groups: GroupRuntime, group_id: str, member_id: str) -> tuple[str, str]:
    """Returns the client id and the host of a member; "" if the member has left."""
    view = groups.view_of(group_id)
    group = None if view is None else view.share_groups.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if member is None:
        return "", ""
    return member.metadata.client_id, member.metadata.client_host
