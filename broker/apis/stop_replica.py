"""StopReplica (5): the controller stops replicas of this broker, and may delete them.

Versions: v1 adds the broker's epoch, and groups partitions by topic; v2 is flexible; v3 adds a
leader epoch and a deletion flag for each partition; v4 adds a flag of KRaft controllers, which
Muster does not support.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.shared.from_controller import (
    ELEMENTS_MAX,
    decoded_request,
    decoders,
    partition_errors,
    replicas_for,
)
from broker.cluster.controller.control_requests import decode_stop_replica
from broker.cluster.replicas.replicas import ReplicaManager
from broker.net.request import Request, ServedApi
from broker.net.required_acls import AMONG_BROKERS
from controller.requests import StopReplicaRequest
from protocol.messages.stop_replica import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    replicas = replicas_for(services, request)
    if replicas is not None:
        decoded = decoded_request(request, decode_stop_replica)
        request.answer_later(_answer(replicas, request, decoded))


async def _answer(replicas: ReplicaManager, request: Request, decoded: StopReplicaRequest) -> None:
    done = await replicas.stop_replica(decoded)
    errors = list(partition_errors(done))
    request.respond({"error_code": done.error_code, "partition_errors": errors})


SERVED = ServedApi(
    API,
    0,
    4,
    _handle,
    elements_max=ELEMENTS_MAX,
    decoders=decoders(API, decode_stop_replica),
    rights=AMONG_BROKERS,
)
