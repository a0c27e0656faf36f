"""Removes members of a group from outside: to evict them, or to change the group's offsets.

A broker accepts a commit from outside only for a group without members. A removed member learns of
it by its next heartbeat, forgets its positions and rejoins, and then starts from the offsets
committed by then. A commit in a member's name would instead be overwritten by the member's next
commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import WITHOUT_MEMBERS, read_group
from cli.errors import check, refused
from protocol import errors

REASON = "its offsets are being restored"
LEAVES = -1
"""The epoch with which a member of the new protocol leaves."""
GONE = (errors.UNKNOWN_MEMBER_ID, errors.GROUP_ID_NOT_FOUND)
"""The error codes for a member that has already left."""


def remove_members(cluster: Cluster, group_id: str) -> int:
    """Remove every member of a group, like Kafka's removeMembersFromConsumerGroup.

    Returns their number. CommandError if the coordinator refuses to remove one.
    """
    group = read_group(cluster, group_id)
    if group.state in WITHOUT_MEMBERS:
        return 0
    coordinator = cluster.coordinator(group_id)
    codes = remove(coordinator, group_id, group.members, REASON, whoever=True)
    for member, code in zip(group.members, codes, strict=True):
        if code and code not in GONE:
            raise refused(f"member {member['member']} of group {group_id}", code)
    return len(group.members)


def remove(
    coordinator: Connection,
    group_id: str,
    members: Sequence[output.Row],
    reason: str,
    *,
    whoever: bool = False,
) -> list[int]:
    """Remove members; return the coordinator's code for each, 0 if removed.

    A static member whose instance id another process has taken over is fenced, and stays; with
    ``whoever`` it is removed too.
    """
    if coordinator.version_of("LeaveGroup") < 3:
        return [_leave_alone(coordinator, group_id, member) for member in members]
    identities = [
        {
            "member_id": "" if whoever and member["instance"] else member["member"],
            "group_instance_id": member["instance"] or None,
            "reason": reason,
        }
        for member in members
    ]
    answer = coordinator.call("LeaveGroup", {"group_id": group_id, "members": identities})
    check(f"group {group_id}", answer, errors.UNKNOWN_MEMBER_ID)
    codes = [member["error_code"] for member in answer["members"]]
    if len(codes) < len(members):  # the group does not use the classic protocol
        codes = [answer["error_code"]] * len(members)
    return [
        _leave_the_new_way(coordinator, group_id, member)
        if code == errors.UNKNOWN_MEMBER_ID
        else code
        for member, code in zip(members, codes, strict=True)
    ]


def _leave_alone(coordinator: Connection, group_id: str, member: output.Row) -> int:
    """Remove one member by its id, the only form before Kafka 2.4."""
    asked = {"group_id": group_id, "member_id": member["member"]}
    code: int = coordinator.call("LeaveGroup", asked)["error_code"]
    return code


def _leave_the_new_way(coordinator: Connection, group_id: str, member: output.Row) -> int:
    """Remove a member of KIP-848's protocol, for which LeaveGroup does not work."""
    if not coordinator.supports("ConsumerGroupHeartbeat", 0):
        return errors.UNKNOWN_MEMBER_ID
    answer = coordinator.call(
        "ConsumerGroupHeartbeat",
        {
            "group_id": group_id,
            "member_id": member["member"],
            "member_epoch": LEAVES,
            "instance_id": member["instance"] or None,
        },
    )
    code: int = answer["error_code"]
    return code
