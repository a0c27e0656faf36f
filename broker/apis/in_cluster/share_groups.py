"""The APIs of share groups in a cluster, where the feature share.version decides whether brokers
may write the records of share groups (KIP-932, KIP-584).

At level 0 they return UNSUPPORTED_VERSION, as in Kafka. A group coordinator that has not received
all topics from the controller yet returns COORDINATOR_LOAD_IN_PROGRESS: otherwise a group would
lose the delivery states of these topics, as if they were deleted.
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

Refused = Callable[[dict[str, Any], int, str], dict[str, Any]]
"""Returns the response for the fields of a request, an error code and its message."""

_OFF = (
    "The feature share.version of this cluster is at level 0. Raise it with kafka-features.sh"
    " upgrade --feature share.version=1."
)


def _guarded(alone: ServedApi, refused: Refused, *, is_coordinator: bool = True) -> ServedApi:
    """Returns the row of an API that is refused while share groups can't be served.
    ``is_coordinator`` is True for an API of the group coordinator."""

    def handle(services: Services, request: Request) -> Steps | None:
        if SHARE_VERSION not in services.registry.features.levels:
            error = UNSUPPORTED_VERSION, _OFF
        elif is_coordinator and lacks_topics(services):
            error = COORDINATOR_LOAD_IN_PROGRESS, NO_METADATA
        else:
            return alone.handle(services, request)
        value = alone.api.decode_request(request.api_version, request.buffer, request.position)
        request.respond(refused(value, *error), error[0])
        return None

    return replace(alone, handle=handle)


def _whole(array: str) -> Refused:
    """Returns the function for a response with one error and an empty array."""
    return lambda _, code, text: {"error_code": code, "error_message": text, array: []}


def _each_group(value: dict[str, Any], code: int, text: str) -> dict[str, Any]:
    groups = dict.fromkeys(value["group_ids"])
    return {"groups": [_group(group_id, code, text) for group_id in groups]}


def _each_offsets(value: dict[str, Any], code: int, text: str) -> dict[str, Any]:
    return {
        "groups": [
            {**_group(each["group_id"], code, text), "topics": []} for each in value["groups"]
        ]
    }


def _group(group_id: str, code: int, text: str) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": code, "error_message": text}


def _heartbeat(_: dict[str, Any], code: int, text: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": text}


GUARDED_ROWS = (
    _guarded(ALTER_OFFSETS, _whole("responses")),
    _guarded(DELETE_OFFSETS, _whole("responses")),
    _guarded(DESCRIBE_OFFSETS, _each_offsets),
    _guarded(DESCRIBE, _each_group),
    _guarded(HEARTBEAT, _heartbeat),
    _guarded(ACKNOWLEDGE, _whole("responses"), is_coordinator=False),
    _guarded(FETCH, _whole("responses"), is_coordinator=False),
)
"""The rows of share groups that differ from the rows of a standalone broker."""
