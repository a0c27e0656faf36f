"""ShareAcknowledge (79): a member of a share group acknowledges records that it acquired (KIP-932).

Versions: v2 adds acknowledgements of type renew (KIP-1222). The request belongs to the share
session that ShareFetch opened, and continues its epochs; epoch -1 closes the session. The response
is sent when the acknowledgements are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.apis.share_fetch import ELEMENTS_MAX, READ_GROUP, READ_TOPIC, RIGHTS
from broker.apis.shared.authorization import TEXTS, denied, is_allowed
from broker.loop.slices import Slices
from broker.net.request import Request, ServedApi
from broker.share.partitions import Code
from broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Place,
    ShareSessionError,
)
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    NONE,
)
from protocol.messages.share_acknowledge import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.apis.shared.share_acknowledgements import Asked


def _handle(services: Services, request: Request) -> None:
    request.check()
    request.answer_later(_run(services, request))


async def _run(services: Services, request: Request) -> None:
    slices = services.slicer.work("ShareAcknowledge")
    value = request.value
    group_id, member_id = value["group_id"] or "", value["member_id"] or ""
    try:
        if not is_allowed(services, request, READ_GROUP, group_id):
            raise ShareSessionError(GROUP_AUTHORIZATION_FAILED)
        if not group_id or not member_id:
            raise ShareSessionError(INVALID_REQUEST)
        await _acknowledge(services, request, slices, group_id, member_id)
    except ShareSessionError as error:
        text = TEXTS.get(error.error_code)
        fields = {"error_code": error.error_code, "error_message": text}
        request.respond({**fields, "responses": [], "node_endpoints": []})
    finally:
        slices.end()


async def _acknowledge(
    services: Services, request: Request, slices: Slices, group_id: str, member_id: str
) -> None:
    from broker.apis.shared.share_acknowledgements import ShareAcknowledgements, close_session

    value, connection = request.value, request.connection
    epoch = value["share_session_epoch"]
    assert services.share_sessions is not None
    names = [services.registry.topic_name(topic["topic_id"]) for topic in value["topics"]]
    refused = await slices.through(denied(services, request, READ_TOPIC, names))
    if epoch == INITIAL_EPOCH:
        raise ShareSessionError(INVALID_SHARE_SESSION_EPOCH)
    if connection.closed:
        return  # the end of the connection would not end the session
    session = services.share_sessions.resume(
        group_id, member_id, connection.principal, connection, epoch
    )
    acknowledgements = ShareAcknowledgements(
        services, group_id, member_id, is_renew=value["is_renew_ack"]
    )
    await acknowledgements.apply(slices, await _asked(slices, value), refused)
    if epoch == FINAL_EPOCH:
        await close_session(services, slices, session)
    results = await acknowledgements.results(slices)
    if not connection.closed:
        await _respond(services, request, slices, results)


async def _asked(slices: Slices, value: dict[str, Any]) -> list[Asked]:
    asked: list[Asked] = []
    for topic in value["topics"]:
        for partition in topic["partitions"]:
            batches = []
            for batch in partition["acknowledgement_batches"]:
                types = batch["acknowledge_types"]
                batches.append((batch["first_offset"], batch["last_offset"], types))
                if slices.over:
                    await slices.pause()
            asked.append((topic["topic_id"], partition["partition_index"], batches))
    return asked


async def _respond(
    services: Services, request: Request, slices: Slices, results: Mapping[Place, Code]
) -> None:
    from broker.apis.shared.current_leader import LED_ELSEWHERE, CurrentLeaders

    assert services.share_partitions is not None
    topics: dict[bytes, list[dict[str, Any]]] = {}
    worst = NONE
    leaders = CurrentLeaders(services, request)
    for (topic_id, index), (error_code, error_message) in results.items():
        worst = worst or error_code
        entry: dict[str, Any] = {
            "partition_index": index,
            "error_code": error_code,
            "error_message": error_message,
        }
        if error_code in LED_ELSEWHERE:
            leader_id, leader_epoch = leaders.of(topic_id, index)
            entry["current_leader"] = {"leader_id": leader_id, "leader_epoch": leader_epoch}
        topics.setdefault(topic_id, []).append(entry)
        if slices.over:
            await slices.pause()
    settings = services.share_partitions.settings_of(request.value["group_id"])
    response = {
        "acquisition_lock_timeout_ms": settings.limits.lock_duration_ms,
        "responses": [
            {"topic_id": topic_id, "partitions": partitions}
            for topic_id, partitions in topics.items()
        ],
        "node_endpoints": [node._asdict() for node in leaders.endpoints.values()],
    }
    request.respond(response, worst)


SERVED = ServedApi(
    API,
    1,
    2,
    _handle,
    elements_max=ELEMENTS_MAX,
    rights=RIGHTS,
)
