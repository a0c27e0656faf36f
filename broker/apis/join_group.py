"""JoinGroup (11): a member joins a group and waits until the rebalance's join phase ends.

Versions: v0 uses the session timeout as rebalance timeout; v1 has a rebalance timeout (KIP-62); v2
adds the throttle time; v4 returns MEMBER_ID_REQUIRED to new members (KIP-394); v5 adds the group
instance id (KIP-345); v6 is flexible; v7 has the protocol type in the response, and a null protocol
name in errors; v8 adds the reason (KIP-800); v9 adds skip_assignment (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, group
from coordinator.calls import JoinGroup
from coordinator.outcome import JoinReply
from protocol.errors import GROUP_AUTHORIZATION_FAILED
from protocol.generated.join_group import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.join_group import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)


def _handle(services: Services, request: Request) -> None:
    version = request.api_version
    (
        group_id,
        session_timeout_ms,
        rebalance_timeout_ms,
        member_id,
        group_instance_id,
        protocol_type,
        protocols,
        reason,
    ) = request.context or DECODE_REQUEST[version](request.buffer, request.position)
    if services.authorizer.judges and not is_allowed(services, request, _READ, group_id):
        refuse(request, GROUP_AUTHORIZATION_FAILED)
        return
    request.encode = _answer
    request.park()
    request.connection.on_close[services.groups.connection_closed] = None
    services.groups.submit(
        group_id,
        JoinGroup(
            request,
            group_id,
            member_id,
            group_instance_id,
            request.client_id,
            request.connection.client_host,
            session_timeout_ms,
            session_timeout_ms if version == 0 else rebalance_timeout_ms,
            protocol_type,
            protocols,
            reason,
            version >= 4,
            version >= 9,
            "" if member_id else _uuid_text(services.time.fresh_id()),
            request.connection,
        ),
    )


def refuse(request: Request, error_code: int) -> None:
    """Ends the request with an error that does not depend on the group."""
    request.encode = _answer
    request.take(JoinReply(error_code, ""))


def _uuid_text(uuid: bytes) -> str:
    """Returns a UUID in the format of Java's UUID.toString."""
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _answer(request: Request, reply: JoinReply) -> None:
    version = request.api_version
    protocol_name = reply.protocol_name
    if protocol_name is None and version < 7:
        protocol_name = ""
    frame = ENCODE_RESPONSE[version](
        request.correlation_id,
        0,
        reply.error_code,
        reply.generation_id,
        reply.protocol_type,
        protocol_name,
        reply.leader,
        reply.skip_assignment,
        reply.member_id,
        reply.members,
    )
    request.complete(frame, reply.error_code)


SERVED = ServedApi(
    API,
    0,
    9,
    _handle,
    elements_max=100,
    decoders=DECODE_REQUEST,
    rights=Rights((_READ,)),
)
