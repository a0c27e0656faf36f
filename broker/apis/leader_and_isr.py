"""LeaderAndIsr (4): the controller assigns leader and follower roles to this broker's replicas.

Versions: v1 adds is_new; v2 adds the broker's epoch and groups partitions by topic; v3 adds the
replicas that a reassignment adds and removes; v4 is flexible; v5 has topic ids, also in the
response; v6 adds the recovery of a leader after an unclean election; v7 adds a flag of KRaft
controllers, which Muster does not support.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.from_controller import (
    ELEMENTS_MAX,
    decoded_request,
    decoders,
    partition_errors,
    replicas_for,
)
from broker.cluster.controller.control_requests import decode_leader_and_isr
from broker.cluster.replicas.replicas import LeaderAndIsrResult, ReplicaManager
from broker.net.request import Request, ServedApi
from broker.net.required_acls import AMONG_BROKERS
from controller.requests import LeaderAndIsrRequest
from protocol.errors import NONE
from protocol.messages.leader_and_isr import API
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_BY_ID = 5


def _handle(services: Services, request: Request) -> None:
    replicas = replicas_for(services, request)
    if replicas is not None:
        states = decoded_request(request, decode_leader_and_isr)
        request.answer_later(_answer(services, replicas, request, states))


async def _answer(
    services: Services, replicas: ReplicaManager, request: Request, states: LeaderAndIsrRequest
) -> None:
    done = await replicas.leader_and_isr(states)
    if done.error_code == NONE and services.registration_fence is not None:
        services.registration_fence.confirmed()
    value: dict[str, Any] = {"error_code": done.error_code}
    if request.api_version >= _BY_ID:
        value["topics"] = _by_id(states, done)
    else:
        value["partition_errors"] = list(partition_errors(done))
    request.respond(value)


def _by_id(states: LeaderAndIsrRequest, done: LeaderAndIsrResult) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic.topic_id or ZERO_UUID,
            "partition_errors": [
                {
                    "partition_index": each.partition,
                    "error_code": done.partitions[topic.name, each.partition],
                }
                for each in topic.partitions
            ],
        }
        for topic in states.topics
        if done.partitions
    ]


SERVED = ServedApi(
    API,
    0,
    7,
    _handle,
    elements_max=ELEMENTS_MAX,
    decoders=decoders(API, decode_leader_and_isr),
    rights=AMONG_BROKERS,
)
