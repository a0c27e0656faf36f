"""DeleteGroups (42): deletes groups without members, with their offsets.

Versions: v1 is the same as v0; v2 is flexible; v3 adds error messages. The messages are always
null, as in Kafka 4.4.0 for the types of groups that this broker serves. An empty group id is
allowed, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import split
from broker.apis.shared.gather import Gather
from broker.apis.shared.losses import sender_of
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights
from coordinator.calls import DeleteGroup
from protocol.errors import GROUP_AUTHORIZATION_FAILED, NONE
from protocol.messages.delete_groups import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DELETE = Each(Operation.DELETE, ResourceType.GROUP)


def _handle(services: Services, request: Request) -> Steps:
    # A group named twice is deleted once and answered once, as in Kafka, which keeps a set of
    # names.
    allowed, denied = yield from split(
        services, request, _DELETE, request.value["groups_names"], str
    )
    groups = list(dict.fromkeys(allowed))
    gather: Gather[int] = Gather()
    for group_id in groups:
        services.groups.submit(group_id, DeleteGroup(gather.ticket(), group_id, sender_of(request)))
        yield from gather.sent()
    yield from gather.rest()
    results = request.array("results")
    for group_id, error_code in zip(groups, gather.replies, strict=True):
        results.append({"group_id": group_id, "error_code": error_code})
        yield None
    worst = max(gather.replies, default=NONE)
    for group_id in denied:
        worst = worst or GROUP_AUTHORIZATION_FAILED
        results.append({"group_id": group_id, "error_code": GROUP_AUTHORIZATION_FAILED})
        yield None
    request.respond({"throttle_time_ms": 0, "results": results}, worst)


SERVED = ServedApi(API, 0, 3, _handle, rights=Rights(each=_DELETE))
