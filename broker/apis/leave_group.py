"""LeaveGroup (13): members leave by themselves, or an administrator removes them.

Versions: v0 one member, by id; v1 throttle time; v3 many members, by member id or group instance
id, each with its own error (KIP-345); v4 flexible; v5 reason (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, group
from coordinator.calls import LeaveGroup, Leaver
from coordinator.outcome import LeaveReply
from protocol.errors import GROUP_AUTHORIZATION_FAILED
from protocol.messages.leave_group import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)


def _handle(services: Services, request: Request) -> None:
    value = request.value
    group_id = value["group_id"]
    request.encode = _answer
    if not is_allowed(services, request, _READ, group_id):
        request.take(LeaveReply(GROUP_AUTHORIZATION_FAILED))
        return
    if request.api_version < 3:
        leavers = [Leaver(value["member_id"], None, None)]
    else:
        leavers = [
            Leaver(member["member_id"], member["group_instance_id"], member["reason"])
            for member in value["members"]
        ]
    services.groups.submit(group_id, LeaveGroup(request, group_id, leavers))


def _answer(request: Request, reply: LeaveReply) -> None:
    error_code = reply.error_code
    if request.api_version < 3 and not error_code and reply.members:
        error_code = reply.members[0][2]
    members = [
        {"member_id": member_id, "group_instance_id": instance_id, "error_code": code}
        for member_id, instance_id, code in reply.members
    ]
    counted = error_code or next((code for _, _, code in reply.members if code), 0)
    request.respond({"throttle_time_ms": 0, "error_code": error_code, "members": members}, counted)


SERVED = ServedApi(API, 0, 5, _handle, elements_max=5_000, rights=Rights((_READ,)))
