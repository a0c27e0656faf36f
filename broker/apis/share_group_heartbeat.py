"""ShareGroupHeartbeat (76): a member of a share group joins, stays or leaves (KIP-932).

Only v1 is served: v0 was an early access version of Kafka 4.0, which Kafka 4.1 has removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, denied, is_allowed
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, group, of_each
from coordinator.calls import ShareHeartbeat
from coordinator.outcome import ShareHeartbeatReply
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.share_group_heartbeat import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_MEMBER_ID_CHARACTERS_MAX = 36
"""The maximum length of a member id in characters: the length of a UUID as text. Source: Kafka
4.3.1 ``KafkaApis.isMemberIdValid``."""


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    if not is_allowed(services, request, _READ, value["group_id"]):
        _refuse(request, GROUP_AUTHORIZATION_FAILED, TEXTS[GROUP_AUTHORIZATION_FAILED])
        return
    if not 0 < len(value["member_id"]) <= _MEMBER_ID_CHARACTERS_MAX:
        _refuse(request, INVALID_REQUEST, None)
        return
    names = value["subscribed_topic_names"]
    refused = yield from denied(services, request, _DESCRIBE_TOPIC, names or ())
    if refused:
        _refuse(request, TOPIC_AUTHORIZATION_FAILED, TEXTS[TOPIC_AUTHORIZATION_FAILED])
        return
    call = ShareHeartbeat(
        request,
        value["group_id"],
        value["member_id"],
        value["member_epoch"],
        value["rack_id"],
        names,
        request.client_id,
        request.connection.client_host,
    )
    request.encode = _answer
    services.groups.submit(call.group_id, call)


def _refuse(request: Request, error_code: int, text: str | None) -> None:
    """Ends the request with an error that does not depend on the group."""
    request.encode = _answer
    request.take(ShareHeartbeatReply(error_code, text))


def _answer(request: Request, reply: ShareHeartbeatReply) -> None:
    assignment: dict[str, Any] | None = None
    if reply.assignment is not None:
        assignment = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": list(partitions)}
                for topic_id, partitions in reply.assignment.items()
            ]
        }
    request.respond(
        {
            "throttle_time_ms": 0,
            "error_code": reply.error_code,
            "error_message": reply.error_message,
            "member_id": reply.member_id,
            "member_epoch": reply.member_epoch,
            "heartbeat_interval_ms": reply.heartbeat_interval_ms,
            "assignment": assignment,
        }
    )


SERVED = ServedApi(API, 1, 1, _handle, rights=Rights((_READ,), own=(_DESCRIBE_TOPIC,)))
