"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69) in a cluster.

The cluster's feature group.version decides whether brokers may write the records of consumer groups
(KIP-584). At level 0 both APIs return UNSUPPORTED_VERSION, as in Kafka. Until a broker has received
all topics from the controller, both APIs and JoinGroup return COORDINATOR_LOAD_IN_PROGRESS.
Otherwise a group would lose the partitions of the missing topics, as if they were deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.apis.consumer_group_describe import SERVED as DESCRIBE_ALONE
from broker.apis.consumer_group_heartbeat import SERVED as HEARTBEAT_ALONE
from broker.apis.consumer_group_heartbeat import refuse
from broker.apis.in_cluster.lacking_topics import NO_METADATA, lacks_topics
from broker.apis.join_group import SERVED as JOIN_ALONE
from broker.apis.join_group import refuse as refuse_join
from broker.config.config_table import GROUP_VERSION
from broker.net.request import Request, Steps
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_OFF = (
    "The feature group.version of this cluster is at level 0. Raise it with kafka-features.sh"
    " upgrade --feature group.version=1, or use group.protocol=classic."
)


def _error(services: Services) -> tuple[int, str] | None:
    """Returns the error for all requests about consumer groups; None if this broker can serve
    them."""
    if GROUP_VERSION not in services.registry.features.levels:
        return UNSUPPORTED_VERSION, _OFF
    if lacks_topics(services):
        return COORDINATOR_LOAD_IN_PROGRESS, NO_METADATA
    return None


def _heartbeat(services: Services, request: Request) -> Steps | None:
    error = _error(services)
    if error is None:
        return HEARTBEAT_ALONE.handle(services, request)
    refuse(request, *error)
    return None


def _describe(services: Services, request: Request) -> Steps | None:
    error = _error(services)
    if error is None:
        return DESCRIBE_ALONE.handle(services, request)
    return _described(request, *error)


def _described(request: Request, error_code: int, text: str) -> Steps:
    groups = request.array("groups")
    for group_id in dict.fromkeys(request.value["group_ids"]):
        groups.append({"error_code": error_code, "error_message": text, "group_id": group_id})
        yield None
    request.respond({"throttle_time_ms": 0, "groups": groups}, error_code)


def _join(services: Services, request: Request) -> Steps | None:
    """Handles JoinGroup, which is refused while topics are missing: a classic member may join a
    consumer group, and the join computes the group's assignment."""
    if lacks_topics(services) and GROUP_VERSION in services.registry.features.levels:
        refuse_join(request, COORDINATOR_LOAD_IN_PROGRESS)
        return None
    return JOIN_ALONE.handle(services, request)


JOIN = replace(JOIN_ALONE, handle=_join)
HEARTBEAT = replace(HEARTBEAT_ALONE, handle=_heartbeat)
DESCRIBE = replace(DESCRIBE_ALONE, handle=_describe)
