"""DescribeGroups (15): state, protocol and members of groups.

Versions: v1 adds the throttle time; v3 authorized operations (KIP-430); v4 the group instance id;
v5 is flexible. An unknown group gets GROUP_ID_NOT_FOUND with a message in v6, and the state "Dead"
without an error in earlier versions (KIP-1043).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import NOT_ASKED, error_fields, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AuthorizedOperations, Each, Rights
from coordinator.calls import DescribeGroup
from coordinator.outcome import DescribeReply
from protocol.encoded_array import EncodedArray
from protocol.errors import GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND
from protocol.messages.describe_groups import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.GROUP)
_TELLS = AuthorizedOperations(ResourceType.GROUP)


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    # Kafka describes a group twice if a request names the group twice, which no client does. Muster
    # describes the group once, so that a small request can't get many copies of a large group.
    allowed, denied = yield from split(services, request, _DESCRIBE, value["groups"], str)
    groups = list(dict.fromkeys(allowed))
    gather: Gather[DescribeReply] = Gather()
    for group_id in groups:
        services.groups.submit(group_id, DescribeGroup(gather.ticket(), group_id))
        yield from gather.sent()
    yield from gather.rest()
    described = request.array("groups")
    worst = 0
    for group_id in denied:
        described.append(_denied(group_id))
        yield None
    for reply in gather.replies:
        operations = NOT_ASKED
        if value["include_authorized_operations"]:
            operations = services.authorizer.operations(
                request.connection, _TELLS.kind, reply.group_id
            )
        group = _group(reply, request.api_version, operations)
        worst = max(worst, group["error_code"])
        group["members"] = yield from _members(request, reply)
        described.append(group)
    if denied:
        worst = worst or GROUP_AUTHORIZATION_FAILED
    request.respond({"throttle_time_ms": 0, "groups": described}, worst)


def _denied(group_id: str) -> dict[str, Any]:
    return {**error_fields(GROUP_AUTHORIZATION_FAILED), "group_id": group_id}


def _group(reply: DescribeReply, version: int, operations: int) -> dict[str, Any]:
    error_code, message = reply.error_code, None
    if version >= 6 and error_code in (0, GROUP_ID_NOT_FOUND) and reply.state == "Dead":
        error_code = GROUP_ID_NOT_FOUND
        message = f"Group {reply.group_id} is not a classic group."
        if not reply.is_other_type:
            message = f"Group {reply.group_id} not found."
    return {
        "error_code": error_code,
        "error_message": message,
        "group_id": reply.group_id,
        "group_state": "" if error_code not in (0, GROUP_ID_NOT_FOUND) else reply.state,
        "protocol_type": reply.protocol_type,
        "protocol_data": reply.protocol_name,
        "authorized_operations": NOT_ASKED if error_code else operations,
    }


def _members(request: Request, reply: DescribeReply) -> Generator[None, None, EncodedArray]:
    members = request.array("groups", "members")
    yield None
    for member in reply.members:
        members.append(
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
        )
        yield None
    return members


SERVED = ServedApi(API, 0, 6, _handle, rights=Rights(each=_DESCRIBE, tells=(_TELLS,)))
