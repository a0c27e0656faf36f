"""Shared by the requests of the controller, which arrive on the inter-broker listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.shared.inter_broker_listener import may_act_as_broker
from broker.cluster.replicas.replicas import LeaderAndIsrResult, ReplicaManager
from broker.net.request import Request
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED
from protocol.schema import Api

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

ELEMENTS_MAX = 10_000_000
"""The controller names all partitions; this is more than a frame can contain."""

Decode = Callable[[dict[str, Any]], Any]


def decoders(api: Api, decode: Decode) -> Mapping[int, Callable[[bytes, int], Any]]:
    """The functions that decode a large request in the worker thread, by version."""
    return {version: partial(_decoded, api, decode, version) for version in api.versions}


def _decoded(api: Api, decode: Decode, version: int, buffer: bytes, position: int) -> Any:
    return decode(api.decode_request(version, buffer, position))


def decoded_request(request: Request, decode: Decode) -> Any:
    """The decoded request."""
    return decode(request.value) if request.context is None else request.context


def replicas_for(services: Services, request: Request) -> ReplicaManager | None:
    """The replica manager that executes the request; None after a refusal."""
    replicas = services.replicas
    assert replicas is not None, "a standalone broker does not serve it"
    if may_act_as_broker(services, request):
        return replicas
    request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED})
    return None


def partition_errors(told: LeaderAndIsrResult) -> Iterator[dict[str, Any]]:
    """The errors of partitions by the names of their topics."""
    for (topic, index), error_code in told.partitions.items():
        yield {"topic_name": topic, "partition_index": index, "error_code": error_code}
