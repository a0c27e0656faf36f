"""StreamsGroupDescribe (89): topology, members, epochs and tasks of streams groups (KIP-1071).

Versions: v1 adds the application's description of the topology, which Muster does not store. An
unknown group, or a group of another type, gets GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from broker.apis.shared.described_groups import RIGHTS, DescribedType, describe
from broker.apis.streams_group_heartbeat import task_fields
from broker.net.request import Request, ServedApi, Steps
from broker.topics.registry import Registry
from coordinator.outcome import DescribedStreamsMember, StreamsDescribeReply
from coordinator.streams.calls import StreamsGroupDescribe
from offsets.streams_records import InternalTopic, TaskRoles, Topology
from protocol.messages.streams_group_describe import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_ASSIGNOR = "sticky"


def _group(reply: StreamsDescribeReply) -> dict[str, Any]:
    topology = reply.topology
    return {
        "topology": None if topology is None else _topology(topology),
        "assignor_name": _ASSIGNOR,
    }


def _topics(_: Registry, reply: StreamsDescribeReply) -> Iterator[str | None]:
    if reply.topology is not None:
        from coordinator.streams.topology import named_topics

        yield from named_topics(reply.topology)


def _topology(topology: Topology) -> dict[str, Any]:
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology_id": each.subtopology_id,
                "source_topics": sorted(each.source_topics),
                "repartition_sink_topics": sorted(each.repartition_sink_topics),
                "state_changelog_topics": _internal(each.state_changelog_topics),
                "repartition_source_topics": _internal(each.repartition_source_topics),
            }
            for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        ],
    }


def _internal(topics: Sequence[InternalTopic]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "partitions": each.partitions,
            "replication_factor": each.replication_factor,
            "topic_configs": [{"key": key, "value": value} for key, value in each.configs],
        }
        for each in sorted(topics, key=lambda each: each.name)
    ]


def _assignment(tasks: TaskRoles) -> dict[str, Any]:
    return {
        "active_tasks": task_fields(tasks.active),
        "standby_tasks": task_fields(tasks.standby),
        "warmup_tasks": task_fields(tasks.warmup),
    }


def _member(_: Registry, member: DescribedStreamsMember) -> dict[str, Any]:
    metadata = member.metadata
    endpoint = metadata.user_endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.epoch,
        "instance_id": metadata.instance_id,
        "rack_id": metadata.rack_id,
        "client_id": metadata.client_id,
        "client_host": metadata.client_host,
        "topology_epoch": metadata.topology_epoch,
        "process_id": metadata.process_id,
        "user_endpoint": None
        if endpoint is None
        else {"host": endpoint.host, "port": endpoint.port},
        "client_tags": [{"key": key, "value": value} for key, value in metadata.client_tags],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": _assignment(member.assignment),
        "target_assignment": _assignment(member.target),
        "is_classic": False,
    }


_STREAMS_GROUPS = DescribedType(
    StreamsGroupDescribe, StreamsDescribeReply, _group, _topics, _member
)


def _handle(services: Services, request: Request) -> Steps:
    yield from describe(services, request, _STREAMS_GROUPS)


SERVED = ServedApi(API, 0, 1, _handle, rights=RIGHTS)
