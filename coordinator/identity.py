"""The identity checks that all requests of members share.

Their order is the same everywhere: instance id, member id, then generation.
"""

from __future__ import annotations

from coordinator.group import Group
from protocol.errors import FENCED_INSTANCE_ID, NONE, UNKNOWN_MEMBER_ID


def check_member(group: Group, member_id: str, group_instance_id: str | None) -> int:
    """The error of a request that names this member, or NONE.

    An instance id that another member id holds now is fenced: its old process must stop (KIP-345).
    """
    if group_instance_id is not None:
        holder = group.static_members.get(group_instance_id)
        if holder is None:
            return UNKNOWN_MEMBER_ID
        if holder != member_id:
            return FENCED_INSTANCE_ID
    return NONE if member_id in group.members else UNKNOWN_MEMBER_ID
