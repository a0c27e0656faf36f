"""Code shared by the handlers of requests to the controller; the requests become calls to the
controller's host.

The host of a broker that is not the controller replies NOT_CONTROLLER.
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
"""The topic and the index of a partition."""


def host_of(services: Services) -> ControllerHost:
    """Returns the host of the controller; only for a broker in a cluster."""
    assert services.controller is not None, "a standalone broker has no controller"
    return services.controller


def cache_of(services: Services) -> MetadataCache:
    """Returns the metadata that the controller has sent; only for a broker in a cluster."""
    assert isinstance(services.cluster, MetadataCache), "a standalone broker has no controller"
    return services.cluster


def host_for(services: Services, request: Request) -> ControllerHost | None:
    """Returns the controller's host; None if the sender is not a broker and has been refused."""
    if may_act_as_broker(services, request):
        return host_of(services)
    request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED})
    return None


def places(topics: Iterable[Mapping[str, Any]], name: str, partitions: str) -> list[Place]:
    """Returns the partitions that a request names; ``name`` and ``partitions`` are field names."""
    return [(topic[name], index) for topic in topics for index in topic[partitions]]


def by_topic(results: Mapping[Place, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Returns the results grouped by topic, in the order of ``results``."""
    found: dict[str, list[dict[str, Any]]] = {}
    for (topic, _), result in results.items():
        found.setdefault(topic, []).append(result)
    return found


def error_fields(error: tuple[int, str]) -> dict[str, Any]:
    """Returns the code and the text of an error as response fields."""
    code, text = error
    return {"error_code": code, "error_message": shortened(text) or None}
