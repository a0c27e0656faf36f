"""Shared code of the handlers of requests to the controller.

A request becomes a call to the `ControllerHost` of this broker. If this broker is not the
controller, the host replies NOT_CONTROLLER.
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
    """Returns this broker's `ControllerHost`. The broker must be in a cluster."""
    assert services.controller is not None, "a standalone broker has no controller"
    return services.controller


def cache_of(services: Services) -> MetadataCache:
    """Returns the metadata that the controller has sent to this broker. The broker must be in a
    cluster."""
    assert isinstance(services.cluster, MetadataCache), "a standalone broker has no controller"
    return services.cluster


def host_for(services: Services, request: Request) -> ControllerHost | None:
    """Returns this broker's `ControllerHost`. If the sender is not a broker, refuses the request
    and returns None."""
    if may_act_as_broker(services, request):
        return host_of(services)
    request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED})
    return None


def places(topics: Iterable[Mapping[str, Any]], name: str, partitions: str) -> list[Place]:
    """Returns the partitions in ``topics``. ``name`` is the field with a topic's name,
    ``partitions`` the field with its partition indexes."""
    return [(topic[name], index) for topic in topics for index in topic[partitions]]


def by_topic(results: Mapping[Place, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Returns the results grouped by topic, in the order of ``results``."""
    found: dict[str, list[dict[str, Any]]] = {}
    for (topic, _), result in results.items():
        found.setdefault(topic, []).append(result)
    return found


def error_fields(error: tuple[int, str]) -> dict[str, Any]:
    code, text = error
    return {"error_code": code, "error_message": shortened(text) or None}
