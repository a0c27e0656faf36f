"""The APIs of share groups in a cluster.

The cluster's feature share.version decides whether brokers may write the records of share groups
(KIP-932, KIP-584). At level 0 the APIs return UNSUPPORTED_VERSION, as in Kafka. Until a group
coordinator has received all topics from the controller, its APIs return
COORDINATOR_LOAD_IN_PROGRESS. Otherwise a group would lose the delivery states of the missing
topics, as if they were deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.apis.alter_share_group_offsets import SERVED as ALTER_OFFSETS
from broker.apis.delete_share_group_offsets import SERVED as DELETE_OFFSETS
from broker.apis.describe_share_group_offsets import SERVED as DESCRIBE_OFFSETS
from broker.apis.in_cluster.lacking_topics import NO_METADATA, lacks_topics
from broker.apis.share_acknowledge import SERVED as ACKNOWLEDGE
from broker.apis.share_fetch.served import SERVED as FETCH
from broker.apis.share_group_describe import SERVED as DESCRIBE
from broker.apis.share_group_heartbeat import SERVED as HEARTBEAT
from broker.config.config_table import SHARE_VERSION
from broker.net.request import Request, ServedApi, Steps
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Refuse = Callable[[Request, int, str], "Steps | None"]
"""A function that ends a request with an error code and an error message."""

_OFF = (
    "The feature share.version of this cluster is at level 0. Raise it with kafka-features.sh"
    " upgrade --feature share.version=1."
)


def _guarded(alone: ServedApi, refuse: Refuse, *, is_coordinator: bool = True) -> ServedApi:
    """Returns the row of an API for a cluster, from the row ``alone`` of a standalone broker.

    The handler refuses requests while share.version is 0. If ``is_coordinator`` is True, it also
    refuses requests while this broker lacks topics.
    """

    def handle(services: Services, request: Request) -> Steps | None:
        if SHARE_VERSION not in services.registry.features.levels:
            return refuse(request, UNSUPPORTED_VERSION, _OFF)
        if is_coordinator and lacks_topics(services):
            return refuse(request, COORDINATOR_LOAD_IN_PROGRESS, NO_METADATA)
        return alone.handle(services, request)

    return replace(alone, handle=handle)


def _whole(request: Request, error_code: int, text: str) -> None:
    """Ends a request with a top-level error and an empty array ``responses``."""
    fields = {"error_code": error_code, "error_message": text}
    request.respond({**fields, "responses": []}, error_code)


def _heartbeat(request: Request, error_code: int, text: str) -> None:
    request.respond({"error_code": error_code, "error_message": text}, error_code)


def _each_group(request: Request, error_code: int, text: str) -> Steps:
    groups = request.array("groups")
    for group_id in dict.fromkeys(request.value["group_ids"]):
        groups.append(_group(group_id, error_code, text))
        yield None
    request.respond({"groups": groups}, error_code)


def _each_groups_offsets(request: Request, error_code: int, text: str) -> Steps:
    groups = request.array("groups")
    for group in request.value["groups"]:
        groups.append({**_group(group["group_id"], error_code, text), "topics": []})
        yield None
    request.respond({"groups": groups}, error_code)


def _group(group_id: str, error_code: int, text: str) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": error_code, "error_message": text}


GUARDED_ROWS = (
    _guarded(ALTER_OFFSETS, _whole),
    _guarded(DELETE_OFFSETS, _whole),
    _guarded(DESCRIBE_OFFSETS, _each_groups_offsets),
    _guarded(DESCRIBE, _each_group),
    _guarded(HEARTBEAT, _heartbeat),
    _guarded(ACKNOWLEDGE, _whole, is_coordinator=False),
    _guarded(FETCH, _whole, is_coordinator=False),
)
"""The rows of share-group APIs for the table of served APIs in a cluster. Each row checks
share.version first."""
