"""AlterShareGroupOffsets (91): sets the start offsets of a share group without members (KIP-932).

The request creates a group that does not exist. The delivery state of each named partition is
replaced by a state without deliveries.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, is_allowed, split
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights, group
from coordinator.calls import ShareOffsetsAlter
from coordinator.outcome import ShareOffsetsReply
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.alter_share_group_offsets import API
from security.acls.model import Operation, ResourceType
from share.values import UNINITIALIZED_OFFSET, SharePartitionKey

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)
_READ_TOPIC = Each(Operation.READ, ResourceType.TOPIC)
_UNKNOWN = "This server does not host this topic-partition."
_BELOW_0 = "The start offset is below 0."
_NO_ID = bytes(16)


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    group_id = value["group_id"]
    if not is_allowed(services, request, _READ, group_id):
        _respond(request, GROUP_AUTHORIZATION_FAILED, TEXTS[GROUP_AUTHORIZATION_FAILED])
        return
    if not group_id:
        _respond(request, INVALID_GROUP_ID, "The group id is invalid.")
        return
    allowed, refused = yield from split(
        services, request, _READ_TOPIC, value["topics"], itemgetter("topic_name")
    )
    offsets: dict[SharePartitionKey, int] = {}
    topics: dict[bytes, tuple[str, tuple[int, ...]]] = {}
    codes: dict[tuple[str, int], tuple[int, str | None]] = {}
    for topic in allowed:
        _check(services, group_id, topic, offsets, codes)
        yield None
    for key in offsets:
        name, partitions = topics.get(
            key.topic_id, (services.registry.topic_name(key.topic_id), ())
        )
        topics[key.topic_id] = name or "", tuple(sorted({*partitions, key.partition}))
    gather: Gather[ShareOffsetsReply] = Gather()
    services.groups.submit(group_id, ShareOffsetsAlter(gather.ticket(), group_id, topics))
    yield from gather.rest()
    (reply,) = gather.replies
    if reply.error_code:
        _respond(request, reply.error_code, reply.error_message)
        return
    assert services.share_offsets is not None
    initializing = services.share_offsets.initialize(group_id, reply.state_epoch, offsets)
    yield initializing
    for key, state_reply in initializing.result().items():
        name = services.registry.topic_name(key.topic_id) or ""
        codes[name, key.partition] = state_reply.error_code, state_reply.error_message
    denial = TOPIC_AUTHORIZATION_FAILED, TEXTS[TOPIC_AUTHORIZATION_FAILED]
    for topic in refused:
        for each in topic["partitions"]:
            codes[topic["topic_name"], each["partition_index"]] = denial
    yield from _answer(services, request, (*allowed, *refused), codes)


def _check(
    services: Services,
    group_id: str,
    topic: dict[str, Any],
    offsets: dict[SharePartitionKey, int],
    codes: dict[tuple[str, int], tuple[int, str | None]],
) -> None:
    """Adds the new offset of each valid partition of a topic to ``offsets``, and the error of each
    invalid partition to ``codes``."""
    name = topic["topic_name"]
    known = services.registry.topic(name)
    for each in topic["partitions"]:
        index, offset = each["partition_index"], each["start_offset"]
        if known is None or not 0 <= index < known.partitions:
            codes[name, index] = UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
        elif offset < UNINITIALIZED_OFFSET:
            codes[name, index] = INVALID_REQUEST, _BELOW_0
        else:
            offsets[SharePartitionKey(group_id, known.topic_id, index)] = offset


def _answer(
    services: Services,
    request: Request,
    topics: tuple[dict[str, Any], ...],
    codes: dict[tuple[str, int], tuple[int, str | None]],
) -> Steps:
    answers = request.array("responses")
    worst = NONE
    for topic in topics:
        name = topic["topic_name"]
        entries = []
        for each in topic["partitions"]:
            index = each["partition_index"]
            error_code, message = codes[name, index]
            worst = worst or error_code
            entry = {"partition_index": index, "error_code": error_code, "error_message": message}
            entries.append(entry)
        is_denied = any(entry["error_code"] == TOPIC_AUTHORIZATION_FAILED for entry in entries)
        topic_id = None if is_denied else services.registry.topic_id(name)
        answers.append({"topic_name": name, "topic_id": topic_id or _NO_ID, "partitions": entries})
        yield None
    response = {"throttle_time_ms": 0, "error_code": NONE, "error_message": None}
    request.respond({**response, "responses": answers}, worst)


def _respond(request: Request, error_code: int, message: str | None) -> None:
    fields = {"error_code": error_code, "error_message": message}
    request.respond({"throttle_time_ms": 0, **fields, "responses": []})


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((_READ,), each=_READ_TOPIC))
