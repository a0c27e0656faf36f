"""The reply to a StreamsGroupHeartbeat.

Source: Kafka 4.3.1 ``GroupMetadataManager.streamsGroupHeartbeat``,
``StreamsGroup.buildEndpointToPartitions``.
"""

from __future__ import annotations

from coordinator.outcome import EndpointTopics, StreamsHeartbeatReply
from coordinator.step import Step
from coordinator.streams.advance import Advanced, Statuses
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.endpoints import topic_partitions
from coordinator.streams.group import JOINING_EPOCH
from coordinator.streams.views import roles
from offsets.streams_records import StreamsCurrentAssignment
from protocol.errors import NONE


def answer(
    step: Step, call: StreamsHeartbeat, advanced: Advanced, statuses: Statuses, *, is_new: bool
) -> None:
    """Replies to a heartbeat.

    As in Kafka, the endpoint epoch is 0 in the reply that creates the group, and rises when the
    tasks of a member with an endpoint change. Unlike Kafka, the reply repeats the member's tasks if
    the heartbeat lists other tasks, since the member may not have received an earlier reply.
    """
    group, member, metadata, before, after = advanced
    settings = step.state.config.of_streams_group(call.group_id)
    step.arm(member.session, settings.session_timeout_ms)
    is_changed = call.member_epoch == JOINING_EPOCH or _assigned(after) != _assigned(before)
    assigned = roles(after)
    is_sent = is_changed or (call.owned is not None and call.owned != assigned)
    version = group.endpoint_epoch
    if is_changed and metadata.user_endpoint is not None:
        version += 1
    shown = None
    if version != call.endpoint_epoch:
        shown = _endpoints(step, advanced)
    group.endpoint_epoch = 0 if is_new else version
    configured = group.configured
    reply = StreamsHeartbeatReply(
        NONE,
        None,
        call.member_id,
        after.epoch,
        settings.heartbeat_interval_ms,
        tuple(statuses),
        assigned if is_sent else None,
        group.endpoint_epoch,
        shown,
        () if configured is None else configured.missing_internal,
    )
    step.reply(call.ticket, reply)


def _assigned(current: StreamsCurrentAssignment) -> tuple[object, ...]:
    return current.active, current.standby, current.warmup


def _endpoints(step: Step, advanced: Advanced) -> tuple[EndpointTopics, ...]:
    """Returns the topics of every member with an endpoint. The member that sent the request is the
    last.

    An endpoint has no topics while the partition counts of the topology are unknown. Kafka then
    replies UNKNOWN_SERVER_ERROR.
    """
    group, member, metadata, _, after = advanced
    others = [each for each in group.members.values() if each is not member]
    members = [(each.metadata, each.current) for each in others]
    members.append((metadata, after))
    configured, image = group.configured, step.state.topics
    found = []
    for each, current in members:
        if each.user_endpoint is not None and configured is not None:
            tasks = roles(current)
            found.append(
                EndpointTopics(
                    each.user_endpoint,
                    topic_partitions(tasks.active, configured, image),
                    topic_partitions(tasks.standby, configured, image),
                )
            )
    return tuple(found)
