"""Encodes and decodes the keys and values of the records of streams groups, by Kafka's schemas.

Source: Kafka 4.3.1, schemas ``StreamsGroup*Key`` and ``StreamsGroup*Value``, all in version 0;
``StreamsCoordinatorRecordHelpers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from offsets.schema_codec import Format, SchemaCodec
from offsets.streams_records import (
    CopartitionGroup,
    Endpoint,
    InternalTopic,
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    Subtopology,
    TaskEpochs,
    TaskRoles,
    Tasks,
    Topology,
)

_Fields = dict[str, Any]


def _pair_fields(pairs: Iterable[tuple[str, str]]) -> list[_Fields]:
    return [{"key": key, "value": value} for key, value in pairs]


def pairs(fields: Iterable[_Fields]) -> tuple[tuple[str, str], ...]:
    """Returns the keys and values of a list of key-value fields in a request or record."""
    return tuple((each["key"], each["value"]) for each in fields)


def _task_fields(tasks: Tasks) -> list[_Fields]:
    return [{"subtopology_id": name, "partitions": list(tasks[name])} for name in sorted(tasks)]


def tasks(fields: Iterable[_Fields]) -> Tasks:
    """Returns the tasks in a list of fields of a request or record. A subtopology without
    partitions is omitted. If a subtopology is repeated, its partitions are combined."""
    found: dict[str, tuple[int, ...]] = {}
    for each in fields:
        name, partitions = each["subtopology_id"], each["partitions"]
        if partitions:
            found[name] = tuple(sorted({*found.get(name, ()), *partitions}))
    return found


def _epoch_fields(tasks: TaskEpochs) -> list[_Fields]:
    return [
        {
            "subtopology_id": name,
            "partitions": sorted(tasks[name]),
            "assignment_epochs": [epoch for _, epoch in sorted(tasks[name].items())],
        }
        for name in sorted(tasks)
    ]


def _task_epochs(fields: Sequence[_Fields], member_epoch: int) -> TaskEpochs:
    """Returns tasks with their epochs. If the epochs are missing, or if their number is wrong, all
    tasks get the member's epoch, as in Kafka."""
    found: dict[str, dict[int, int]] = {}
    for each in fields:
        partitions, epochs = each["partitions"], each["assignment_epochs"]
        if epochs is None or len(epochs) != len(partitions):
            epochs = [member_epoch] * len(partitions)
        if partitions:
            found[each["subtopology_id"]] = dict(sorted(zip(partitions, epochs, strict=True)))
    return found


def _roles_fields(value: TaskRoles) -> _Fields:
    return {
        "active_tasks": _task_fields(value.active),
        "standby_tasks": _task_fields(value.standby),
        "warmup_tasks": _task_fields(value.warmup),
    }


def _roles(fields: _Fields) -> TaskRoles:
    return TaskRoles(
        tasks(fields["active_tasks"]), tasks(fields["standby_tasks"]), tasks(fields["warmup_tasks"])
    )


def _current_fields(value: StreamsCurrentAssignment) -> _Fields:
    return {
        "member_epoch": value.epoch,
        "previous_member_epoch": value.previous_epoch,
        "state": value.state,
        "active_tasks": _epoch_fields(value.active),
        "standby_tasks": _task_fields(value.standby),
        "warmup_tasks": _task_fields(value.warmup),
        "active_tasks_pending_revocation": _epoch_fields(value.revoking_active),
        "standby_tasks_pending_revocation": _task_fields(value.revoking_standby),
        "warmup_tasks_pending_revocation": _task_fields(value.revoking_warmup),
    }


def _current(fields: _Fields) -> StreamsCurrentAssignment:
    epoch = fields["member_epoch"]
    return StreamsCurrentAssignment(
        epoch,
        fields["previous_member_epoch"],
        fields["state"],
        _task_epochs(fields["active_tasks"], epoch),
        tasks(fields["standby_tasks"]),
        tasks(fields["warmup_tasks"]),
        _task_epochs(fields["active_tasks_pending_revocation"], epoch),
        tasks(fields["standby_tasks_pending_revocation"]),
        tasks(fields["warmup_tasks_pending_revocation"]),
    )


def _member_fields(value: StreamsMemberMetadata) -> _Fields:
    endpoint = value.user_endpoint
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topology_epoch": value.topology_epoch,
        "process_id": value.process_id,
        "user_endpoint": None
        if endpoint is None
        else {"host": endpoint.host, "port": endpoint.port},
        "client_tags": _pair_fields(value.client_tags),
    }


def _member(fields: _Fields) -> StreamsMemberMetadata:
    endpoint = fields["user_endpoint"]
    return StreamsMemberMetadata(
        fields["instance_id"],
        fields["rack_id"],
        fields["client_id"],
        fields["client_host"],
        fields["rebalance_timeout_ms"],
        fields["topology_epoch"],
        fields["process_id"],
        None if endpoint is None else Endpoint(endpoint["host"], endpoint["port"]),
        pairs(fields["client_tags"]),
    )


def _topic_fields(topics: Iterable[InternalTopic]) -> list[_Fields]:
    return [
        {
            "name": each.name,
            "partitions": each.partitions,
            "replication_factor": each.replication_factor,
            "topic_configs": _pair_fields(each.configs),
        }
        for each in topics
    ]


def _topics(fields: Iterable[_Fields]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            each["name"],
            each["partitions"],
            each["replication_factor"],
            pairs(each["topic_configs"]),
        )
        for each in fields
    )


def topology_fields(value: Topology) -> _Fields:
    """Returns a topology as fields of a record. A request has the same fields."""
    return {
        "epoch": value.epoch,
        "subtopologies": [
            {
                "subtopology_id": each.subtopology_id,
                "source_topics": list(each.source_topics),
                "source_topic_regex": list(each.source_topic_regex),
                "state_changelog_topics": _topic_fields(each.state_changelog_topics),
                "repartition_sink_topics": list(each.repartition_sink_topics),
                "repartition_source_topics": _topic_fields(each.repartition_source_topics),
                "copartition_groups": [
                    {
                        "source_topics": list(group.source_topics),
                        "source_topic_regex": list(group.source_topic_regex),
                        "repartition_source_topics": list(group.repartition_source_topics),
                    }
                    for group in each.copartition_groups
                ],
            }
            for each in value.subtopologies
        ],
    }


def topology(fields: _Fields) -> Topology:
    """Returns the topology in the fields of a request or record."""
    return Topology(
        fields["epoch"],
        tuple(
            Subtopology(
                each["subtopology_id"],
                tuple(each["source_topics"]),
                tuple(each["source_topic_regex"]),
                _topics(each["state_changelog_topics"]),
                tuple(each["repartition_sink_topics"]),
                _topics(each["repartition_source_topics"]),
                tuple(
                    CopartitionGroup(
                        tuple(group["source_topics"]),
                        tuple(group["source_topic_regex"]),
                        tuple(group["repartition_source_topics"]),
                    )
                    for group in each["copartition_groups"]
                ),
            )
            for each in fields["subtopologies"]
        ),
    )


STREAMS = SchemaCodec(
    {
        StreamsEpochRecord: Format(
            17,
            "StreamsGroupMetadata",
            lambda value: {
                "epoch": value.epoch,
                "metadata_hash": value.metadata_hash,
                "validated_topology_epoch": value.validated_topology_epoch,
                "last_assignment_configs": _pair_fields(value.last_assignment_configs),
            },
            lambda fields: StreamsGroupEpoch(
                fields["epoch"],
                fields["metadata_hash"],
                fields["validated_topology_epoch"],
                pairs(fields["last_assignment_configs"] or ()),
            ),
        ),
        StreamsMemberRecord: Format(19, "StreamsGroupMemberMetadata", _member_fields, _member),
        StreamsTargetEpochRecord: Format(
            20,
            "StreamsGroupTargetAssignmentMetadata",
            lambda value: {
                "assignment_epoch": value.epoch,
                "assignment_timestamp": value.timestamp_ms,
            },
            lambda fields: StreamsTargetEpoch(
                fields["assignment_epoch"], fields["assignment_timestamp"]
            ),
        ),
        StreamsTargetRecord: Format(
            21, "StreamsGroupTargetAssignmentMember", _roles_fields, _roles
        ),
        StreamsCurrentRecord: Format(
            22, "StreamsGroupCurrentMemberAssignment", _current_fields, _current
        ),
        StreamsTopologyRecord: Format(23, "StreamsGroupTopology", topology_fields, topology),
    }
)
"""Encodes and decodes the records of streams groups."""
encode_key, decode = STREAMS.encode_key, STREAMS.decode


def encode_value(record: StreamsRecord) -> bytes | None:
    """Returns the encoded value of a record; None for a tombstone."""
    if isinstance(record, StreamsTargetRecord) and record.encoded_value is not None:
        return record.encoded_value
    return STREAMS.encode_value(record)
