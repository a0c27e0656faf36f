"""DeleteShareGroupOffsets (92): deletes the delivery state of topics from a share group without
members (KIP-932).

An unknown topic, or a topic without a delivery state in the group, gets UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, is_allowed, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights, group
from coordinator.calls import ShareOffsetsDelete
from coordinator.outcome import ShareOffsetsReply
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.delete_share_group_offsets import API
from security.acls.model import Operation, ResourceType
from share.values import SharePartitionKey

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DELETE = group(Operation.DELETE)
_READ_TOPIC = Each(Operation.READ, ResourceType.TOPIC)
_NO_OFFSETS = "There is no offset information to delete."
_UNKNOWN = "This server does not host this topic-partition."
_NO_ID = bytes(16)


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    group_id = value["group_id"]
    if not is_allowed(services, request, _DELETE, group_id):
        _respond(request, GROUP_AUTHORIZATION_FAILED, TEXTS[GROUP_AUTHORIZATION_FAILED])
        return
    if not group_id:
        _respond(request, INVALID_GROUP_ID, "The group id is invalid.")
        return
    allowed, refused = yield from split(
        services, request, _READ_TOPIC, value["topics"], itemgetter("topic_name")
    )
    registry = services.registry
    names = dict.fromkeys([topic["topic_name"] for topic in allowed])
    ids = {name: registry.topic_id(name) for name in names}
    wanted = [topic_id for topic_id in ids.values() if topic_id is not None]
    gather: Gather[ShareOffsetsReply] = Gather()
    services.groups.submit(group_id, ShareOffsetsDelete(gather.ticket(), group_id, wanted))
    yield from gather.rest()
    (reply,) = gather.replies
    if reply.error_code:
        _respond(request, reply.error_code, reply.error_message)
        return
    keys = [
        SharePartitionKey(group_id, topic_id, partition)
        for topic_id, partitions in reply.topics.items()
        for partition in partitions
    ]
    assert services.share_offsets is not None
    deleting = services.share_offsets.delete(group_id, keys)
    yield deleting
    failures = {
        key.topic_id: (state_reply.error_code, state_reply.error_message)
        for key, state_reply in deleting.result().items()
        if state_reply.error_code
    }
    answers = request.array("responses")
    worst = NONE
    for name, topic_id in ids.items():
        error_code, message = NONE, None
        if topic_id is None:
            error_code, message = UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
        elif topic_id not in reply.topics:
            error_code, message = UNKNOWN_TOPIC_OR_PARTITION, _NO_OFFSETS
        else:
            error_code, message = failures.get(topic_id, (NONE, None))
        worst = worst or error_code
        answers.append(_topic(name, None if error_code else topic_id, error_code, message))
        yield None
    for topic in refused:
        code = TOPIC_AUTHORIZATION_FAILED
        worst = worst or code
        answers.append(_topic(topic["topic_name"], None, code, TEXTS[code]))
        yield None
    response = {"throttle_time_ms": 0, "error_code": NONE, "error_message": None}
    request.respond({**response, "responses": answers}, worst)


def _topic(
    name: str, topic_id: bytes | None, error_code: int, message: str | None
) -> dict[str, Any]:
    return {
        "topic_name": name,
        "topic_id": topic_id or _NO_ID,
        "error_code": error_code,
        "error_message": message,
    }


def _respond(request: Request, error_code: int, message: str | None) -> None:
    fields = {"error_code": error_code, "error_message": message}
    request.respond({"throttle_time_ms": 0, **fields, "responses": []})


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((_DELETE,), each=_READ_TOPIC))
