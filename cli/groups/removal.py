"""Removes members from a group, for `groups evict` and before a change of the group's offsets.

A broker accepts a commit of a client that is not a member only if the group has no members. A
commit with a member's id would not last, since the member's next commit would overwrite it. A
removed member learns of its removal from its next heartbeat, rejoins, and starts from the committed
offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import WITHOUT_MEMBERS, read_group
from cli.errors import check, refused
from protocol import errors

REASON = "muster is restoring the group's offsets"
LEAVES = -1
"""The member epoch in a KIP-848 heartbeat by which a member leaves the group."""
GONE = (errors.UNKNOWN_MEMBER_ID, errors.GROUP_ID_NOT_FOUND)
"""The error codes that mean that the member has already left."""


def remove_members(cluster: Cluster, group_id: str) -> int:
    """Removes every member of a group, as Kafka's removeMembersFromConsumerGroup does. Returns the
    number of removed members. Raises CommandError if the coordinator refuses to remove a member."""
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
    """Removes members. Returns the coordinator's error code for each member; 0 for a removed
    member.

    A static member is not removed if another process has taken over its instance id. With
    ``whoever``, the present owner of the instance id is removed.
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
    """Removes one member by its member id. Before Kafka 2.4, LeaveGroup accepts only one member."""
    asked = {"group_id": group_id, "member_id": member["member"]}
    code: int = coordinator.call("LeaveGroup", asked)["error_code"]
    return code


def _leave_the_new_way(coordinator: Connection, group_id: str, member: output.Row) -> int:
    """Removes a member that uses the KIP-848 protocol, for which LeaveGroup does not work."""
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
