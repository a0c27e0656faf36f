"""The refusal of APIs while a group type can't be served: while its feature is at level 0
(KIP-584), and until the controller has sent all topics.

At level 0 the APIs return UNSUPPORTED_VERSION, as in Kafka. Java clients do not show the message of
this error, so the broker logs it once an hour for each client. A group coordinator that has not
received all topics returns COORDINATOR_LOAD_IN_PROGRESS: otherwise a group would lose these topics,
as if they were deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.apis.in_cluster.lacking_topics import NO_METADATA, lacks_topics
from broker.net.request import Request, ServedApi, Steps
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Refuse = Callable[[Request, int, str], "Steps | None"]
"""Ends a request with an error code and its message."""


def guarded(
    alone: ServedApi,
    feature: str,
    refuse: Refuse,
    *,
    otherwise: str = "",
    is_coordinator: bool = True,
) -> ServedApi:
    """Returns the row of an API for the table of a cluster: a copy of ``alone``, the row of a
    standalone broker, with another handler. This handler refuses requests while ``feature`` is at
    level 0.

    The error message advises raising the level, and ends with the text ``otherwise``. If
    ``is_coordinator`` is True, the handler also refuses requests while this broker has not received
    all topics of the cluster.
    """
    off = (
        f"The feature {feature} of this cluster is at level 0. Raise it with kafka-features.sh"
        f" upgrade --feature {feature}=1{otherwise}."
    )

    def handle(services: Services, request: Request) -> Steps | None:
        if feature not in services.registry.features.levels:
            services.unsupported.asked(request.connection, alone.api.name, off)
            return refuse(request, UNSUPPORTED_VERSION, off)
        if is_coordinator and lacks_topics(services):
            return refuse(request, COORDINATOR_LOAD_IN_PROGRESS, NO_METADATA)
        return alone.handle(services, request)

    return replace(alone, handle=handle)


def refuse_heartbeat(request: Request, error_code: int, text: str) -> None:
    """Refuses a heartbeat: the response contains only this error code and message."""
    request.respond({"error_code": error_code, "error_message": text}, error_code)


def refuse_each_group(request: Request, error_code: int, text: str) -> Steps:
    """Ends a request whose response has an error for each group."""
    groups = request.array("groups")
    for group_id in dict.fromkeys(request.value["group_ids"]):
        groups.append(refused_group(group_id, error_code, text))
        yield None
    request.respond({"groups": groups}, error_code)


def refused_group(group_id: str, error_code: int, text: str) -> dict[str, Any]:
    """Returns the fields of a group with an error."""
    return {"group_id": group_id, "error_code": error_code, "error_message": text}
