"""Heartbeat (12): keeps a member's session alive, and reports a rebalance to the member.

Versions: v1 adds the throttle time; v3 the group instance id; v4 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, group
from coordinator.calls import Heartbeat
from protocol.errors import GROUP_AUTHORIZATION_FAILED
from protocol.generated.heartbeat import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.heartbeat import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)


def _handle(services: Services, request: Request) -> None:
    group_id, generation_id, member_id, group_instance_id = DECODE_REQUEST[request.api_version](
        request.buffer, request.position
    )
    if services.authorizer.judges and not is_allowed(services, request, _READ, group_id):
        _answer(request, GROUP_AUTHORIZATION_FAILED)
        return
    request.encode = _answer
    connection = request.connection
    connection.on_close[services.groups.connection_closed] = None
    services.groups.submit(
        group_id,
        Heartbeat(request, group_id, generation_id, member_id, group_instance_id, connection),
    )


def _answer(request: Request, error_code: int) -> None:
    request.complete(
        ENCODE_RESPONSE[request.api_version](request.correlation_id, 0, error_code), error_code
    )


SERVED = ServedApi(API, 0, 4, _handle, rights=Rights((_READ,)))
