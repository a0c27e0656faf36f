"""Shared by the requests to the controller: its host accepts each as a call with a ticket.

A broker that is not the controller has a host too, which replies NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker.apis.shared.error_message import shortened
from broker.apis.shared.inter_broker_listener import may_act_as_broker
from broker.cluster.controller.controller_host import ControllerHost
from broker.cluster.metadata_cache import MetadataCache
from broker.net.request import Request
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

Place = tuple[str, int]
"""Topic and partition."""


def host_of(services: Services) -> ControllerHost:
    """The host of the controller. The broker is in a cluster."""
    assert services.controller is not None, "a standalone broker does not serve it"
    return services.controller


def cache_of(services: Services) -> MetadataCache:
    """The metadata that the controller has sent."""
    assert isinstance(services.cluster, MetadataCache), "a standalone broker does not serve it"
    return services.cluster


def host_for(services: Services, request: Request) -> ControllerHost | None:
    """The controller's host for a request that only brokers may send; None after a refusal."""
    if may_act_as_broker(services, request):
        return host_of(services)
    request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED})
    return None


def places(topics: Iterable[Mapping[str, Any]], name: str, partitions: str) -> list[Place]:
    """The partitions that a request names; ``name`` and ``partitions`` are field names."""
    return [(topic[name], index) for topic in topics for index in topic[partitions]]


def by_topic(results: Mapping[Place, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The results grouped by topic, in their order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for (topic, _), result in results.items():
        found.setdefault(topic, []).append(result)
    return found


def error_fields(error: tuple[int, str]) -> dict[str, Any]:
    """The code and the text of an error as response fields."""
    code, text = error
    return {"error_code": code, "error_message": shortened(text) or None}
