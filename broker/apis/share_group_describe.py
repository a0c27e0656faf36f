"""ShareGroupDescribe (77): members, epochs and assignments of share groups (KIP-932).

Versions: v1. v0 was an early access version of Kafka 4.0, which Kafka 4.1 has removed. A group of
another type, or an unknown group, gets GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import NOT_ASKED, denied, error_fields, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AuthorizedOperations, Each, Rights, of_each
from broker.topics.registry import Registry
from coordinator.calls import ShareGroupDescribe
from coordinator.outcome import DescribedShareMember, ShareDescribeReply
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.share_group_describe import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.GROUP)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_TELLS = AuthorizedOperations(ResourceType.GROUP)
_ASSIGNOR = "simple"


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    allowed, refused = yield from split(services, request, _DESCRIBE, value["group_ids"], str)
    gather: Gather[ShareDescribeReply] = Gather()
    for group_id in dict.fromkeys(allowed):
        ticket = gather.ticket()
        if group_id:
            services.groups.submit(group_id, ShareGroupDescribe(ticket, group_id))
        else:
            ticket.take(ShareDescribeReply(INVALID_GROUP_ID, group_id))
        yield from gather.sent()
    yield from gather.rest()
    groups = request.array("groups")
    worst = GROUP_AUTHORIZATION_FAILED if refused else NONE
    for group_id in refused:
        groups.append({**error_fields(GROUP_AUTHORIZATION_FAILED), "group_id": group_id})
        yield None
    for reply in gather.replies:
        described = yield from _group(services, request, reply)
        worst = max(worst, described["error_code"])
        groups.append(described)
        yield None
    request.respond({"throttle_time_ms": 0, "groups": groups}, worst)


def _group(
    services: Services, request: Request, reply: ShareDescribeReply
) -> Generator[None, None, dict[str, Any]]:
    """Returns one group of the response; the whole group is refused if the client may not describe
    a topic."""
    if reply.error_code:
        return {
            "error_code": reply.error_code,
            "error_message": reply.error_message,
            "group_id": reply.group_id,
        }
    registry = services.registry
    hidden = yield from denied(services, request, _DESCRIBE_TOPIC, _names(registry, reply))
    if hidden:
        return {**error_fields(TOPIC_AUTHORIZATION_FAILED), "group_id": reply.group_id}
    operations = NOT_ASKED
    if request.value["include_authorized_operations"]:
        operations = services.authorizer.operations(request.connection, _TELLS.kind, reply.group_id)
    members = yield from _members(request, registry, reply)
    return {
        "error_code": NONE,
        "error_message": None,
        "group_id": reply.group_id,
        "group_state": reply.state,
        "group_epoch": reply.epoch,
        "assignment_epoch": reply.target_epoch,
        "assignor_name": _ASSIGNOR,
        "members": members,
        "authorized_operations": operations,
    }


def _names(registry: Registry, reply: ShareDescribeReply) -> Iterator[str | None]:
    """Yields the names of all topics in the group's assignments; None for a deleted topic."""
    for topic_id in dict.fromkeys(id_ for member in reply.members for id_ in member.assignment):
        yield registry.topic_name(topic_id)


def _members(
    request: Request, registry: Registry, reply: ShareDescribeReply
) -> Generator[None, None, EncodedArray]:
    members = request.array("groups", "members")
    for member in reply.members:
        members.append(_member(registry, member))
        yield None
    return members


def _member(registry: Registry, member: DescribedShareMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.subscribed_topics),
        "assignment": {
            "topic_partitions": [
                {"topic_id": topic_id, "topic_name": name, "partitions": list(partitions)}
                for topic_id, partitions in member.assignment.items()
                if (name := registry.topic_name(topic_id)) is not None
            ]
        },
    }


SERVED = ServedApi(
    API, 1, 1, _handle, rights=Rights(each=_DESCRIBE, own=(_DESCRIBE_TOPIC,), tells=(_TELLS,))
)
