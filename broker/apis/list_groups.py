"""ListGroups (16): the groups of every shard.

Versions: v0; v1 throttle time; v3 flexible; v4 state filter and state (KIP-518); v5 type filter and
type (KIP-848). While a shard loads, the error is COORDINATOR_LOAD_IN_PROGRESS and the list has the
groups of the other shards, as in Kafka up to 3.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.gather import Gather, error_of_all
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Hides, Rights, cluster
from coordinator.calls import ListGroups
from coordinator.outcome import ListReply
from protocol.messages.list_groups import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_SEES_ALL = cluster(Operation.DESCRIBE, is_logged=False)
_SHOWN = Hides(Operation.DESCRIBE, ResourceType.GROUP, _SEES_ALL)


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    states = frozenset(name.lower() for name in value["states_filter"])
    types = frozenset(name.lower() for name in value["types_filter"])
    gather: Gather[ListReply] = Gather()
    for hosted in services.groups.hosted_shards:
        services.groups.submit(hosted, ListGroups(gather.ticket(), states, types))
        yield from gather.sent()
    yield from gather.rest()
    error_code = error_of_all(reply.error_code for reply in gather.replies)
    sees_all = is_allowed(services, request, _SEES_ALL)
    groups = request.array("groups")
    for reply in gather.replies:
        for group in reply.groups:
            if sees_all or is_allowed(services, request, _SHOWN, group.group_id):
                groups.append(
                    {
                        "group_id": group.group_id,
                        "protocol_type": group.protocol_type,
                        "group_state": group.state,
                        "group_type": group.group_type,
                    }
                )
            yield None
    request.respond({"throttle_time_ms": 0, "error_code": error_code, "groups": groups})


SERVED = ServedApi(API, 0, 5, _handle, rights=Rights(hides=(_SHOWN,)))
