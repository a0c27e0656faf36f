"""ConsumerGroupDescribe (69): members, epochs and assignments of consumer groups (KIP-848).

Versions: v0; v1 the type of each member (KIP-1099). A group of another type, or an unknown group,
gets GROUP_ID_NOT_FOUND: Java's admin client then sends DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import NOT_ASKED, denied, error_fields, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AuthorizedOperations, Each, Rights, of_each
from broker.topics.registry import Registry
from coordinator.calls import ConsumerGroupDescribe
from coordinator.outcome import ConsumerDescribeReply, DescribedConsumer
from offsets.consumer_records import Assignment
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.consumer_group_describe import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.GROUP)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_TELLS = AuthorizedOperations(ResourceType.GROUP)
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    allowed, refused = yield from split(services, request, _DESCRIBE, value["group_ids"], str)
    gather: Gather[ConsumerDescribeReply] = Gather()
    for group_id in dict.fromkeys(allowed):
        ticket = gather.ticket()
        if group_id:
            services.groups.submit(group_id, ConsumerGroupDescribe(ticket, group_id))
        else:
            ticket.take(ConsumerDescribeReply(INVALID_GROUP_ID, group_id))
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
    services: Services, request: Request, reply: ConsumerDescribeReply
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
        "assignor_name": reply.assignor,
        "members": members,
        "authorized_operations": operations,
    }


def _names(registry: Registry, reply: ConsumerDescribeReply) -> Iterator[str | None]:
    """Yields the names of all topics in the group's assignments; None for a deleted topic."""
    seen: set[bytes] = set()
    for member in reply.members:
        for assignment in (member.assignment, member.target):
            for topic_id in assignment:
                if topic_id not in seen:
                    seen.add(topic_id)
                    yield registry.topic_name(topic_id)


def _members(
    request: Request, registry: Registry, reply: ConsumerDescribeReply
) -> Generator[None, None, EncodedArray]:
    members = request.array("groups", "members")
    for member in reply.members:
        members.append(_member(registry, member))
        yield None
    return members


def _member(registry: Registry, member: DescribedConsumer) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.subscribed_topics),
        "subscribed_topic_regex": member.subscribed_regex,
        "assignment": _assignment(registry, member.assignment),
        "target_assignment": _assignment(registry, member.target),
        "member_type": _CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    }


def _assignment(registry: Registry, assignment: Assignment) -> dict[str, Any]:
    """Returns an assignment with the names of its topics; deleted topics are omitted, as in
    Kafka."""
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": name, "partitions": list(partitions)}
            for topic_id, partitions in assignment.items()
            if (name := registry.topic_name(topic_id)) is not None
        ]
    }


SERVED = ServedApi(
    API, 0, 1, _handle, rights=Rights(each=_DESCRIBE, own=(_DESCRIBE_TOPIC,), tells=(_TELLS,))
)
