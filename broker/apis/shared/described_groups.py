"""Builds the responses of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe.

The three APIs differ only in the fields of members and in some fields of groups; `DescribedType`
has these differences.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from broker.apis.shared.authorization import NOT_ASKED, denied, error_fields, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, Steps
from broker.net.required_acls import AuthorizedOperations, Each, Rights, of_each
from broker.topics.registry import Registry
from coordinator.calls import Call as GroupCall
from coordinator.calls import Ticket
from offsets.consumer_records import Assignment
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
)
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DESCRIBE = Each(Operation.DESCRIBE, ResourceType.GROUP)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_TELLS = AuthorizedOperations(ResourceType.GROUP)
RIGHTS = Rights(each=_DESCRIBE, own=(_DESCRIBE_TOPIC,), tells=(_TELLS,))
"""The ACLs that a request of ConsumerGroupDescribe, ShareGroupDescribe or StreamsGroupDescribe
needs."""


class _Reply(Protocol):
    """The fields that the coordinator's replies for consumer, share and streams groups have in
    common."""

    @property
    def error_code(self) -> int: ...
    @property
    def error_message(self) -> str | None: ...
    @property
    def group_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def target_epoch(self) -> int: ...
    @property
    def members(self) -> Sequence[Any]: ...


Reply = TypeVar("Reply", bound=_Reply)


class DescribedType(Generic[Reply]):
    """The functions that are needed to describe groups of one type, such as consumer groups. The
    rest of the code is the same for all types."""

    def __init__(
        self,
        call: Callable[[Ticket, str], GroupCall],
        refusal: Callable[[int, str], Reply],
        group: Callable[[Reply], dict[str, Any]],
        topics: Callable[[Registry, Reply], Iterator[str | None]],
        member: Callable[[Registry, Any], dict[str, Any]],
    ) -> None:
        self.call = call
        """A function that returns the call to the coordinator. Arguments: a ticket and a group id.
        """
        self.refusal = refusal
        """A function that returns a reply without a description. Arguments: an error code and a
        group id."""
        self.group = group
        """A function that returns, from a reply, the response fields that only this type of groups
        has."""
        self.topics = topics
        """A function that yields the names of all topics in a reply; None for a deleted topic."""
        self.member = member
        """A function that returns the response fields of a member."""


def describe(services: Services, request: Request, described: DescribedType[Reply]) -> Steps:
    """Handles a request to describe groups of the type ``described``."""
    value = request.value
    allowed, refused = yield from split(services, request, _DESCRIBE, value["group_ids"], str)
    gather: Gather[Reply] = Gather()
    for group_id in dict.fromkeys(allowed):
        ticket = gather.ticket()
        if group_id:
            services.groups.submit(group_id, described.call(ticket, group_id))
        else:
            ticket.take(described.refusal(INVALID_GROUP_ID, group_id))
        yield from gather.sent()
    yield from gather.rest()
    groups = request.array("groups")
    worst = GROUP_AUTHORIZATION_FAILED if refused else NONE
    for group_id in refused:
        groups.append({**error_fields(GROUP_AUTHORIZATION_FAILED), "group_id": group_id})
        yield None
    for reply in gather.replies:
        group = yield from _group(services, request, described, reply)
        worst = max(worst, group["error_code"])
        groups.append(group)
        yield None
    request.respond({"throttle_time_ms": 0, "groups": groups}, worst)


def _group(
    services: Services,
    request: Request,
    described: DescribedType[Reply],
    reply: Reply,
) -> Generator[None, None, dict[str, Any]]:
    """Returns the response entry of one group. The entry has only an error if the client may not
    describe one of the group's topics."""
    if reply.error_code:
        return {
            "error_code": reply.error_code,
            "error_message": reply.error_message,
            "group_id": reply.group_id,
        }
    registry = services.registry
    names = described.topics(registry, reply)
    hidden = yield from denied(services, request, _DESCRIBE_TOPIC, names)
    if hidden:
        return {**error_fields(TOPIC_AUTHORIZATION_FAILED), "group_id": reply.group_id}
    operations = NOT_ASKED
    if request.value["include_authorized_operations"]:
        operations = services.authorizer.operations(request.connection, _TELLS.kind, reply.group_id)
    members: EncodedArray = request.array("groups", "members")
    for member in reply.members:
        members.append(described.member(registry, member))
        yield None
    return {
        "error_code": NONE,
        "error_message": None,
        "group_id": reply.group_id,
        "group_state": reply.state,
        "group_epoch": reply.epoch,
        "assignment_epoch": reply.target_epoch,
        **described.group(reply),
        "members": members,
        "authorized_operations": operations,
    }


def assigned_topics(
    assignments: Callable[[Any], tuple[Assignment, ...]],
) -> Callable[[Registry, _Reply], Iterator[str | None]]:
    """Returns a function that yields the names of the topics in the members' assignments: each
    topic once, and None in place of the name of a deleted topic.

    ``assignments`` is a function that returns all assignments of a member.
    """

    def names(registry: Registry, reply: _Reply) -> Iterator[str | None]:
        seen: set[bytes] = set()
        for member in reply.members:
            for assignment in assignments(member):
                for topic_id in assignment:
                    if topic_id not in seen:
                        seen.add(topic_id)
                        yield registry.topic_name(topic_id)

    return names


def named(registry: Registry, assignment: Assignment) -> dict[str, Any]:
    """Returns the response fields of an assignment, with topic names. Deleted topics are omitted,
    as in Kafka."""
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": name, "partitions": list(partitions)}
            for topic_id, partitions in assignment.items()
            if (name := registry.topic_name(topic_id)) is not None
        ]
    }
