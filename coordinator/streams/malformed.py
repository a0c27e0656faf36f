"""The checks of a StreamsGroupHeartbeat that need only the request, not the group. The order of the
checks and the error messages are Kafka's. Source: Kafka 4.3.1 ``GroupCoordinatorService``:
``throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures`` and
``throwIfStreamsGroupHeartbeatRequestIsInvalid``."""

from __future__ import annotations

from coordinator.consumer.refused import Refused
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.group import JOINING_EPOCH
from coordinator.streams.topology import invalid_structure
from protocol.errors import INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY

_STATIC_LEAVING_EPOCH = -2


def malformed(call: StreamsHeartbeat) -> Refused | None:
    """Returns the error of a request that the protocol forbids; None if the request is valid."""
    text = _unsupported(call) or _blank(call)
    if not text and call.member_epoch == JOINING_EPOCH:
        text = _incomplete_join(call)
        if not text and call.topology is not None and (bad := invalid_structure(call.topology)):
            return Refused(STREAMS_INVALID_TOPOLOGY, bad)
    elif not text and call.member_epoch == _STATIC_LEAVING_EPOCH:
        text = "InstanceId can't be null."
    elif not text and call.member_epoch < _STATIC_LEAVING_EPOCH:
        text = f"MemberEpoch is {call.member_epoch}, but must be greater than or equal to -2."
    lists = call.active, call.standby, call.warmup
    if not text and None in lists and lists != (None, None, None):
        text = "If one task-type is non-null, all must be non-null."
    if not text and call.member_epoch != JOINING_EPOCH and call.topology is not None:
        text = "Topology can only be provided when (re-)joining."
    return Refused(INVALID_REQUEST, text) if text else None


def _unsupported(call: StreamsHeartbeat) -> str:
    if call.instance_id is not None:
        return "Static membership is not yet supported."
    if call.has_task_offsets:
        return "TaskOffsets are not supported yet."
    if call.has_task_end_offsets:
        return "TaskEndOffsets are not supported yet."
    if call.warmup:
        return "WarmupTasks are not supported yet."
    subtopologies = () if call.topology is None else call.topology.subtopologies
    if any(each.source_topic_regex for each in subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return ""


def _blank(call: StreamsHeartbeat) -> str:
    if not call.member_id.strip():
        return "MemberId can't be empty."
    if not call.group_id.strip():
        return "GroupId can't be empty."
    if call.rack_id is not None and not call.rack_id.strip():
        return "RackId can't be empty."
    return ""


def _incomplete_join(call: StreamsHeartbeat) -> str:
    if call.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    for name, tasks in (
        ("ActiveTasks", call.active),
        ("StandbyTasks", call.standby),
        ("WarmupTasks", call.warmup),
    ):
        if tasks is None or tasks:
            return f"{name} must be empty when (re-)joining."
    if call.topology is None:
        return "Topology must be non-null when (re-)joining."
    return ""
