"""ConsumerGroupHeartbeat (68): a member of a consumer group joins, stays or leaves (KIP-848).

Versions: v1 adds the subscription by regex, and member ids that the client makes (KIP-1082).
"""

from __future__ import annotations

import struct
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
from protocol.errors import GROUP_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED
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


_REPEATED_BYTES_MAX = 1024
"""A connection keeps its last heartbeat, to compare it with the next one, if the heartbeat has at
most this number of bytes."""
_pack_correlation_id = struct.Struct(">i").pack


class _Repeated:
    """The last heartbeat without a change that arrived on a connection, and the response to this
    heartbeat.

    A client repeats such a heartbeat byte for byte every few seconds. Comparing the bytes, and
    reusing the call and the response, takes a tenth of the time of decoding the request and
    encoding the response.
    """

    __slots__ = ("body", "call", "frame", "reply", "version")

    def __init__(self, version: int, body: bytes, call: ConsumerHeartbeat) -> None:
        self.version = version
        self.body = body
        self.call = call
        self.reply: ConsumerHeartbeatReply | None = None
        """The reply that ``frame`` encodes."""
        self.frame = b""

    def is_in(self, request: Request) -> bool:
        """Returns True if ``request`` repeats this heartbeat byte for byte."""
        buffer, body = request.buffer, self.body
        return (
            len(buffer) - request.position == len(body)
            and self.version == request.api_version
            and buffer.endswith(body)
            and self.call.client_id == request.client_id
        )


def _handle(services: Services, request: Request) -> Steps | None:
    repeated: Any = request.connection.repeated
    if repeated is not None and repeated.is_in(request):
        call = repeated.call
        request.encode = _answer
        if services.authorizer.judges and not is_allowed(services, request, _READ, call.group_id):
            refuse(request, GROUP_AUTHORIZATION_FAILED, TEXTS[GROUP_AUTHORIZATION_FAILED])
            return None
        call.ticket = request
        services.groups.submit(call.group_id, call)
        return None
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
    """Refuses the request if it names a topic that the client may not describe."""
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
    call = ConsumerHeartbeat(
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
    )
    body = request.buffer[request.position :]
    if member_epoch > 0 and call.reports_no_change and len(body) <= _REPEATED_BYTES_MAX:
        connection.repeated = _Repeated(request.api_version, body, call)
    services.groups.submit(group_id, call)


def _fresh_member_id(services: Services) -> str:
    """Returns a random UUID in Kafka's text form. As in Kafka, the text does not begin with a
    dash."""
    while (text := uuid_text(services.time.fresh_id())).startswith("-"):
        pass
    return text


def _answer(request: Request, reply: ConsumerHeartbeatReply) -> None:
    repeated: Any = request.connection.repeated
    if repeated is not None and repeated.reply is reply and repeated.call.ticket is request:
        frame = repeated.frame
        correlation_id = _pack_correlation_id(request.correlation_id)
        request.complete(b"".join((frame[:4], correlation_id, frame[8:])), NONE)
        return
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
    if repeated is not None and error_code == NONE and repeated.call.ticket is request:
        repeated.reply, repeated.frame = reply, frame
    request.complete(frame, error_code)


SERVED = ServedApi(
    API,
    0,
    1,
    _handle,
    decoders=DECODE_REQUEST,
    rights=Rights((_READ,), own=(_DESCRIBE_TOPIC,)),
)
