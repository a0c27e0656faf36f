"""Shared code of the handlers of requests that the controller sends to the inter-broker
listener."""

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
"""The maximum number of elements in a request of the controller, which may name all partitions. No
frame can contain so many elements."""

Decode = Callable[[dict[str, Any]], Any]


def decoders(api: Api, decode: Decode) -> Mapping[int, Callable[[bytes, int], Any]]:
    """Returns the functions that decode a large request in the worker thread, by version."""
    return {version: partial(_decoded, api, decode, version) for version in api.versions}


def _decoded(api: Api, decode: Decode, version: int, buffer: bytes, position: int) -> Any:
    return decode(api.decode_request(version, buffer, position))


def decoded_request(request: Request, decode: Decode) -> Any:
    """Returns the decoded request; the worker thread may have decoded it already."""
    return decode(request.value) if request.context is None else request.context


def replicas_for(services: Services, request: Request) -> ReplicaManager | None:
    """Returns the replica manager. If the sender is not a broker, refuses the request and returns
    None."""
    replicas = services.replicas
    assert replicas is not None, "a standalone broker has no replica manager"
    if may_act_as_broker(services, request):
        return replicas
    request.respond({"error_code": CLUSTER_AUTHORIZATION_FAILED})
    return None


def partition_errors(result: LeaderAndIsrResult) -> Iterator[dict[str, Any]]:
    """Yields the response entry of each partition, with the name of its topic."""
    for (topic, index), error_code in result.partitions.items():
        yield {"topic_name": topic, "partition_index": index, "error_code": error_code}
