"""ConsumerGroupHeartbeat (68): a member of a consumer group joins, stays or leaves (KIP-848).

Versions: v0; v1 subscription by regex, and member ids that the client makes (KIP-1082).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import (
    TEXTS,
    are_known,
    denied,
    is_allowed,
)
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, group, of_each
from broker.topics.registry import uuid_text
from coordinator.calls import ConsumerHeartbeat
from coordinator.outcome import ConsumerHeartbeatReply
from protocol.errors import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED
from protocol.generated.consumer_group_heartbeat import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.consumer_group_heartbeat import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_FIRST_WITH_OWN_IDS = 1
_NAMES = 6
"""The index of the subscribed topic names in a decoded request."""


def _handle(services: Services, request: Request) -> Steps | None:
    decoded: Any = request.context or DECODE_REQUEST[request.api_version](
        request.buffer, request.position
    )
    request.encode = _answer
    if services.authorizer.judges:
        if not is_allowed(services, request, _READ, decoded[0]):
            refuse(request, GROUP_AUTHORIZATION_FAILED, TEXTS[GROUP_AUTHORIZATION_FAILED])
            return None
        names = decoded[_NAMES] or ()
        if not are_known(services, request, _DESCRIBE_TOPIC, names):
            return _heartbeat_if_allowed(services, request, decoded)
    _heartbeat(services, request, decoded)
    return None


def _heartbeat_if_allowed(services: Services, request: Request, decoded: Any) -> Steps:
    """Refuses the request if the client may not describe one of the topics that it names."""
    refused = yield from denied(services, request, _DESCRIBE_TOPIC, decoded[_NAMES])
    if refused:
        refuse(request, TOPIC_AUTHORIZATION_FAILED, TEXTS[TOPIC_AUTHORIZATION_FAILED])
    else:
        _heartbeat(services, request, decoded)


def refuse(request: Request, error_code: int, text: str) -> None:
    """Ends the request with an error that does not depend on the group."""
    request.encode = _answer
    request.take(ConsumerHeartbeatReply(error_code, text))


def _heartbeat(services: Services, request: Request, decoded: Any) -> None:
    (
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        names,
        regex,
        assignor,
        owned,
    ) = decoded
    connection = request.connection
    services.groups.submit(
        group_id,
        ConsumerHeartbeat(
            request,
            group_id,
            member_id,
            member_epoch,
            instance_id,
            rack_id,
            rebalance_timeout_ms,
            names,
            regex,
            assignor,
            None if owned is None else {topic: numbers for topic, numbers in owned if numbers},
            request.client_id,
            connection.client_host,
            request.api_version >= _FIRST_WITH_OWN_IDS,
            "" if member_id else _fresh_member_id(services),
            services.topic_regexes.error(regex) if regex else None,
            connection,
        ),
    )


def _fresh_member_id(services: Services) -> str:
    """Returns a random UUID in Kafka's text form. As in Kafka, the text does not begin with a
    dash."""
    while (text := uuid_text(services.time.fresh_id())).startswith("-"):
        pass
    return text


def _answer(request: Request, reply: ConsumerHeartbeatReply) -> None:
    error_code, assignment = reply.error_code, reply.assignment
    frame = ENCODE_RESPONSE[request.api_version](
        request.correlation_id,
        0,
        error_code,
        reply.error_message,
        reply.member_id,
        reply.member_epoch,
        reply.heartbeat_interval_ms,
        None if assignment is None else list(assignment.items()),
    )
    request.complete(frame, error_code)


SERVED = ServedApi(
    API,
    0,
    1,
    _handle,
    decoders=DECODE_REQUEST,
    rights=Rights((_READ,), own=(_DESCRIBE_TOPIC,)),
)
