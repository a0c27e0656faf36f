"""Removing the members of a group from outside, so that its offsets can be changed.

A broker takes a commit from outside only for a group without members. A member that is removed
learns it by its next heartbeat, forgets its positions and joins again, and then starts from what is
committed by then. Committing in a member's name instead would be undone by its next commit.
"""

from __future__ import annotations

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import WITHOUT_MEMBERS, read_group
from cli.errors import CommandError, check, refused
from protocol import errors

REASON = "its offsets are restored"
LEAVES = -1
"""The epoch by which a member of the new protocol leaves."""


def remove_members(cluster: Cluster, group_id: str) -> int:
    """Have every member of a group leave it, as Kafka's removeMembersFromConsumerGroup does.

    Returns how many there were. CommandError when the coordinator refuses one.
    """
    group = read_group(cluster, group_id)
    if group.state in WITHOUT_MEMBERS:
        return 0
    coordinator = cluster.coordinator(group_id)
    if coordinator.version_of("LeaveGroup") < 3:
        raise CommandError(
            f"the broker of group {group_id} is older than Kafka 2.4 and cannot remove members:"
            " stop them"
        )
    answer = coordinator.call(
        "LeaveGroup",
        {"group_id": group_id, "members": [_identity(member) for member in group.members]},
    )
    check(f"group {group_id}", answer, errors.UNKNOWN_MEMBER_ID)
    left = [member["error_code"] for member in answer["members"]]
    for member, code in zip(group.members, left or [answer["error_code"]], strict=False):
        if code == errors.UNKNOWN_MEMBER_ID:
            _leave_the_new_way(coordinator, group_id, member)
        elif code:
            raise refused(f"member {member['member']} of group {group_id}", code)
    return len(group.members)


def _identity(member: output.Row) -> output.Row:
    """A static member is known by its instance id, whoever has it now."""
    member_id = "" if member["instance"] else member["member"]
    return {
        "member_id": member_id,
        "group_instance_id": member["instance"] or None,
        "reason": REASON,
    }


def _leave_the_new_way(coordinator: Connection, group_id: str, member: output.Row) -> None:
    """A member of KIP-848's protocol does not leave by LeaveGroup; one that is gone is gone."""
    if not coordinator.supports("ConsumerGroupHeartbeat", 0):
        return
    answer = coordinator.call(
        "ConsumerGroupHeartbeat",
        {
            "group_id": group_id,
            "member_id": member["member"],
            "member_epoch": LEAVES,
            "instance_id": member["instance"] or None,
        },
    )
    check(
        f"member {member['member']} of group {group_id}",
        answer,
        errors.UNKNOWN_MEMBER_ID,
        errors.GROUP_ID_NOT_FOUND,
    )
