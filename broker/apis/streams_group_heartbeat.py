"""StreamsGroupHeartbeat (88): a member of a streams group joins, stays or leaves (KIP-1071).

Versions: v1 adds a flag with which the broker requests a description of the topology; Muster never
requests it. Missing internal topics are created after the response, if the client may create them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, denied, is_allowed
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import HandlerAcl, Rights, cluster, group, of_each
from coordinator.outcome import EndpointTopics, StreamsHeartbeatReply
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.states import StatusCode
from offsets.streams_codec import pairs, topology
from offsets.streams_records import Endpoint, InternalTopic, Tasks
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    STREAMS_INVALID_TOPOLOGY,
    TOPIC_AUTHORIZATION_FAILED,
)
from protocol.messages.streams_group_heartbeat import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_READ = group(Operation.READ)
_DESCRIBE_TOPIC = of_each(ResourceType.TOPIC, Operation.DESCRIBE)
_CREATE_ANY = cluster(Operation.CREATE, is_logged=False)
_CREATE = HandlerAcl(
    Operation.CREATE,
    ResourceType.TOPIC,
    "each internal topic that the broker would create",
    unless=_CREATE_ANY,
)


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    request.encode = partial(_answer, services)
    if not is_allowed(services, request, _READ, value["group_id"]):
        text = TEXTS[GROUP_AUTHORIZATION_FAILED]
        request.take(StreamsHeartbeatReply(GROUP_AUTHORIZATION_FAILED, text))
        return
    sent = None if value["topology"] is None else topology(value["topology"])
    if sent is not None:
        from coordinator.streams.topology import invalid_names, named_topics

        bad = invalid_names(sent)
        if bad is not None:
            request.take(StreamsHeartbeatReply(STREAMS_INVALID_TOPOLOGY, bad))
            return
        refused = yield from denied(services, request, _DESCRIBE_TOPIC, named_topics(sent))
        if refused:
            text = TEXTS[TOPIC_AUTHORIZATION_FAILED]
            request.take(StreamsHeartbeatReply(TOPIC_AUTHORIZATION_FAILED, text))
            return
    endpoint, tags = value["user_endpoint"], value["client_tags"]
    call = StreamsHeartbeat(
        request,
        value["group_id"],
        value["member_id"],
        value["member_epoch"],
        request.client_id,
        request.connection.client_host,
        value["instance_id"],
        value["rack_id"],
        value["rebalance_timeout_ms"],
        sent,
        _tasks(value["active_tasks"]),
        _tasks(value["standby_tasks"]),
        _tasks(value["warmup_tasks"]),
        value["process_id"],
        None if endpoint is None else Endpoint(endpoint["host"], endpoint["port"]),
        None if tags is None else tuple(sorted(dict(pairs(tags)).items())),
        value["endpoint_information_epoch"],
        value["shutdown_application"],
        value["task_offsets"] is not None,
        value["task_end_offsets"] is not None,
    )
    services.groups.submit(call.group_id, call)


def _tasks(fields: Sequence[dict[str, Any]] | None) -> Tasks | None:
    """Returns the tasks in one field of the request. The field may list a subtopology without
    partitions."""
    if fields is None:
        return None
    found: dict[str, tuple[int, ...]] = {}
    for each in fields:
        name = each["subtopology_id"]
        found[name] = tuple(sorted({*found.get(name, ()), *each["partitions"]}))
    return found


def _answer(services: Services, request: Request, reply: StreamsHeartbeatReply) -> None:
    status = reply.status
    if reply.missing_topics:
        status = _create(services, request, reply)
    assignment = reply.assignment
    request.respond(
        {
            "error_code": reply.error_code,
            "error_message": reply.error_message,
            "member_id": reply.member_id,
            "member_epoch": reply.member_epoch,
            "heartbeat_interval_ms": reply.heartbeat_interval_ms,
            "status": [{"status_code": code, "status_detail": text} for code, text in status],
            "active_tasks": None if assignment is None else task_fields(assignment.active),
            "standby_tasks": None if assignment is None else task_fields(assignment.standby),
            "warmup_tasks": None if assignment is None else task_fields(assignment.warmup),
            "endpoint_information_epoch": reply.endpoint_epoch,
            "partitions_by_user_endpoint": None
            if reply.endpoints is None
            else [_endpoint(each) for each in reply.endpoints],
        }
    )


def task_fields(tasks: Tasks) -> list[dict[str, Any]]:
    """Returns the response fields of tasks, in ascending order."""
    return [{"subtopology_id": name, "partitions": list(tasks[name])} for name in sorted(tasks)]


def _endpoint(each: EndpointTopics) -> dict[str, Any]:
    return {
        "user_endpoint": {"host": each.endpoint.host, "port": each.endpoint.port},
        "active_partitions": [
            {"topic": topic, "partitions": list(partitions)} for topic, partitions in each.active
        ],
        "standby_partitions": [
            {"topic": topic, "partitions": list(partitions)} for topic, partitions in each.standby
        ],
    }


def _create(
    services: Services, request: Request, reply: StreamsHeartbeatReply
) -> tuple[tuple[int, str], ...]:
    """Starts to create missing internal topics. Returns the statuses of the heartbeat response. If
    topics can't be created, a status has the reason."""
    missing, creator = reply.missing_topics, services.internal_topics
    refused = _refused(services, request, missing)
    if refused:
        return _explained(reply, f"Unauthorized to CREATE on topics {', '.join(refused)}.")
    if creator is None:
        return reply.status
    faults = creator.faults(missing)
    creator.create(missing)
    if not faults:
        return reply.status
    reasons = ", ".join(f"{name} ({reason})" for name, reason in faults.items())
    return _explained(reply, f"Creation failed: {reasons}.")


def _refused(services: Services, request: Request, missing: Sequence[InternalTopic]) -> list[str]:
    """Returns the missing internal topics that the client may not create."""
    if is_allowed(services, request, _CREATE_ANY):
        return []
    names = [topic.name for topic in missing]
    return [name for name in names if not is_allowed(services, request, _CREATE, name)]


def _explained(reply: StreamsHeartbeatReply, reason: str) -> tuple[tuple[int, str], ...]:
    code = StatusCode.MISSING_INTERNAL_TOPICS.value
    return tuple(
        (each, f"{text}; {reason}" if each == code else text) for each, text in reply.status
    )


SERVED = ServedApi(
    API,
    0,
    1,
    _handle,
    elements_max=5_000,
    rights=Rights((_READ,), own=(_DESCRIBE_TOPIC, _CREATE)),
)
