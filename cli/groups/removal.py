"""Removing members of a group from outside: to evict them, or to change the group's offsets.

A broker takes a commit from outside only for a group without members. A member that is removed
learns it by its next heartbeat, forgets its positions and joins again, and then starts from what is
committed by then. Committing in a member's name instead would be undone by its next commit.
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
"""The epoch by which a member of the new protocol leaves."""
GONE = (errors.UNKNOWN_MEMBER_ID, errors.GROUP_ID_NOT_FOUND)
"""What a broker answers about a member that has left by itself."""


def remove_members(cluster: Cluster, group_id: str) -> int:
    """Have every member of a group leave it, as Kafka's removeMembersFromConsumerGroup does.

    Returns how many there were. CommandError when the coordinator refuses one.
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
    """Have members leave; what the coordinator answers about each, 0 for one that has left.

    A static member whose instance another process has taken since is fenced, and stays; with
    ``whoever`` it leaves too.
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
    if len(codes) < len(members):  # no such group of the classic protocol
        codes = [answer["error_code"]] * len(members)
    return [
        _leave_the_new_way(coordinator, group_id, member)
        if code == errors.UNKNOWN_MEMBER_ID
        else code
        for member, code in zip(members, codes, strict=True)
    ]


def _leave_alone(coordinator: Connection, group_id: str, member: output.Row) -> int:
    """Before Kafka 2.4 a request names one member, by its id alone."""
    asked = {"group_id": group_id, "member_id": member["member"]}
    code: int = coordinator.call("LeaveGroup", asked)["error_code"]
    return code


def _leave_the_new_way(coordinator: Connection, group_id: str, member: output.Row) -> int:
    """A member of KIP-848's protocol does not leave by LeaveGroup."""
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
