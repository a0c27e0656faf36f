"""SyncGroup (14): the group leader sends the assignment, and every member waits for its part of the
assignment.

Versions: v1 adds the throttle time; v3 the group instance id; v4 is flexible; v5 adds the protocol
type and name to request and response, which members must send (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, group
from coordinator.calls import SyncGroup
from coordinator.outcome import SyncReply
from protocol.errors import GROUP_AUTHORIZATION_FAILED, INCONSISTENT_GROUP_PROTOCOL
from protocol.generated.sync_group import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.sync_group import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)


def _handle(services: Services, request: Request) -> None:
    (
        group_id,
        generation_id,
        member_id,
        group_instance_id,
        protocol_type,
        protocol_name,
        assignments,
    ) = request.context or DECODE_REQUEST[request.api_version](request.buffer, request.position)
    request.encode = _answer
    is_denied = services.authorizer.judges and not is_allowed(services, request, _READ, group_id)
    if request.api_version >= 5 and (protocol_type is None or protocol_name is None):
        request.take(SyncReply(INCONSISTENT_GROUP_PROTOCOL))
        return
    if is_denied:
        request.take(SyncReply(GROUP_AUTHORIZATION_FAILED))
        return
    request.park()
    request.connection.on_close[services.groups.connection_closed] = None
    services.groups.submit(
        group_id,
        SyncGroup(
            request,
            group_id,
            generation_id,
            member_id,
            group_instance_id,
            protocol_type,
            protocol_name,
            assignments,
            request.connection,
        ),
    )


def _answer(request: Request, reply: SyncReply) -> None:
    frame = ENCODE_RESPONSE[request.api_version](
        request.correlation_id,
        0,
        reply.error_code,
        reply.protocol_type,
        reply.protocol_name,
        reply.assignment,
    )
    request.complete(frame, reply.error_code)


SERVED = ServedApi(API, 0, 5, _handle, decoders=DECODE_REQUEST, rights=Rights((_READ,)))
