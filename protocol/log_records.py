"""The records of Kafka's internal topics as tables: groups, transactions, shares.

A key begins with its type (int16), a value with its version (int16); ``decode`` and ``encode``
handle the bytes after these two. The module exceeds the length limit, because it is one list.
Written by ``tools/make_messages.py``.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Array,
    Field,
    LogRecord,
    Struct,
)

BY_NAME: Final[dict[str, LogRecord]] = {
    record.name: record
    for record in (
        LogRecord(
            record_type=8,
            name="ConsumerGroupCurrentMemberAssignmentKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=8,
            name="ConsumerGroupCurrentMemberAssignmentValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("member_epoch", INT32, "0+"),
                Field("previous_member_epoch", INT32, "0+"),
                Field("state", INT8, "0+"),
                Field(
                    "assigned_partitions",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
                Field(
                    "partitions_pending_revocation",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=5,
            name="ConsumerGroupMemberMetadataKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=5,
            name="ConsumerGroupMemberMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("instance_id", STRING, "0+", nullable="0+"),
                Field("rack_id", STRING, "0+", nullable="0+"),
                Field("client_id", STRING, "0+"),
                Field("client_host", STRING, "0+"),
                Field("subscribed_topic_names", Array(STRING), "0+"),
                Field("subscribed_topic_regex", STRING, "0+", nullable="0+"),
                Field("rebalance_timeout_ms", INT32, "0+", default=-1),
                Field("server_assignor", STRING, "0+", nullable="0+"),
                Field(
                    "classic_member_metadata",
                    Struct(
                        Field("session_timeout_ms", INT32, "0+"),
                        Field(
                            "supported_protocols",
                            Array(
                                Field("name", STRING, "0+"),
                                Field("metadata", BYTES, "0+"),
                            ),
                            "0+",
                        ),
                    ),
                    "0+",
                    nullable="0+",
                    tag=0,
                ),
            ),
        ),
        LogRecord(
            record_type=3,
            name="ConsumerGroupMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=3,
            name="ConsumerGroupMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("epoch", INT32, "0+"),
                Field("metadata_hash", INT64, "0+", tag=0),
            ),
        ),
        LogRecord(
            record_type=4,
            name="ConsumerGroupPartitionMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=4,
            name="ConsumerGroupPartitionMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field(
                    "topics",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("topic_name", STRING, "0+"),
                        Field("num_partitions", INT32, "0+"),
                        Field(
                            "partition_metadata",
                            Array(
                                Field("partition", INT32, "0+"),
                                Field("racks", Array(STRING), "0+"),
                            ),
                            "0+",
                        ),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=16,
            name="ConsumerGroupRegularExpressionKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("regular_expression", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=16,
            name="ConsumerGroupRegularExpressionValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("topics", Array(STRING), "0+"),
                Field("version", INT64, "0+"),
                Field("timestamp", INT64, "0+"),
            ),
        ),
        LogRecord(
            record_type=7,
            name="ConsumerGroupTargetAssignmentMemberKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=7,
            name="ConsumerGroupTargetAssignmentMemberValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field(
                    "topic_partitions",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=6,
            name="ConsumerGroupTargetAssignmentMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=6,
            name="ConsumerGroupTargetAssignmentMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("assignment_epoch", INT32, "0+"),
                Field("assignment_timestamp", INT64, "0+", tag=0),
            ),
        ),
        LogRecord(
            record_type=2,
            name="GroupMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group", STRING, "0+"),),
        ),
        # v0: the first known
        # v1: adds members.rebalance_timeout
        # v2: adds current_state_timestamp
        # v3: adds members.group_instance_id
        # v4: flexible
        LogRecord(
            record_type=2,
            name="GroupMetadataValue",
            versions="0-4",
            flexible="4+",
            fields=(
                Field("protocol_type", STRING, "0+"),
                Field("generation", INT32, "0+"),
                Field("protocol", STRING, "0+", nullable="0+"),
                Field("leader", STRING, "0+", nullable="0+"),
                Field("current_state_timestamp", INT64, "2+", default=-1),
                Field(
                    "members",
                    Array(
                        Field("member_id", STRING, "0+"),
                        Field("group_instance_id", STRING, "3+", nullable="3+", default=None),
                        Field("client_id", STRING, "0+"),
                        Field("client_host", STRING, "0+"),
                        Field("rebalance_timeout", INT32, "1+", default=-1),
                        Field("session_timeout", INT32, "0+"),
                        Field("subscription", BYTES, "0+"),
                        Field("assignment", BYTES, "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=0,
            name="LegacyOffsetCommitKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group", STRING, "0+"),
                Field("topic", STRING, "0+"),
                Field("partition", INT32, "0+"),
            ),
        ),
        LogRecord(
            record_type=0,
            name="LegacyOffsetCommitValue",
            versions="0-0",
            flexible="",
            fields=(
                Field("offset", INT64, "0+"),
                Field("metadata", STRING, "0+"),
                Field("commit_timestamp", INT64, "0+"),
            ),
        ),
        LogRecord(
            record_type=1,
            name="OffsetCommitKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group", STRING, "0+"),
                Field("topic", STRING, "0+"),
                Field("partition", INT32, "0+"),
            ),
        ),
        # v0: the first known
        # v1: adds expire_timestamp
        # v2: drops expire_timestamp
        # v3: adds leader_epoch
        # v4: adds topic_id; flexible
        LogRecord(
            record_type=1,
            name="OffsetCommitValue",
            versions="0-4",
            flexible="4+",
            fields=(
                Field("offset", INT64, "0+"),
                Field("leader_epoch", INT32, "3+", default=-1),
                Field("metadata", STRING, "0+"),
                Field("commit_timestamp", INT64, "0+"),
                Field("expire_timestamp", INT64, "1", default=-1),
                Field("topic_id", UUID, "4+", tag=0),
            ),
        ),
        LogRecord(
            record_type=14,
            name="ShareGroupCurrentMemberAssignmentKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=14,
            name="ShareGroupCurrentMemberAssignmentValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("member_epoch", INT32, "0+"),
                Field("previous_member_epoch", INT32, "0+"),
                Field("state", INT8, "0+"),
                Field(
                    "assigned_partitions",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=10,
            name="ShareGroupMemberMetadataKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=10,
            name="ShareGroupMemberMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("rack_id", STRING, "0+", nullable="0+"),
                Field("client_id", STRING, "0+"),
                Field("client_host", STRING, "0+"),
                Field("subscribed_topic_names", Array(STRING), "0+"),
            ),
        ),
        LogRecord(
            record_type=11,
            name="ShareGroupMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=11,
            name="ShareGroupMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("epoch", INT32, "0+"),
                Field("metadata_hash", INT64, "0+"),
            ),
        ),
        LogRecord(
            record_type=15,
            name="ShareGroupStatePartitionMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=15,
            name="ShareGroupStatePartitionMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field(
                    "initializing_topics",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("topic_name", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
                Field(
                    "initialized_topics",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("topic_name", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
                Field(
                    "deleting_topics",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("topic_name", STRING, "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=13,
            name="ShareGroupTargetAssignmentMemberKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=13,
            name="ShareGroupTargetAssignmentMemberValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field(
                    "topic_partitions",
                    Array(
                        Field("topic_id", UUID, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=12,
            name="ShareGroupTargetAssignmentMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=12,
            name="ShareGroupTargetAssignmentMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("assignment_epoch", INT32, "0+"),
                Field("assignment_timestamp", INT64, "0+", tag=0),
            ),
        ),
        LogRecord(
            record_type=22,
            name="StreamsGroupCurrentMemberAssignmentKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=22,
            name="StreamsGroupCurrentMemberAssignmentValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("member_epoch", INT32, "0+"),
                Field("previous_member_epoch", INT32, "0+"),
                Field("state", INT8, "0+"),
                Field(
                    "active_tasks",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
                Field(
                    "standby_tasks",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
                Field(
                    "warmup_tasks",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
                Field(
                    "active_tasks_pending_revocation",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
                Field(
                    "standby_tasks_pending_revocation",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
                Field(
                    "warmup_tasks_pending_revocation",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                        Field("assignment_epochs", Array(INT32), "0+", nullable="0+", tag=0),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=19,
            name="StreamsGroupMemberMetadataKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=19,
            name="StreamsGroupMemberMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("instance_id", STRING, "0+", nullable="0+"),
                Field("rack_id", STRING, "0+", nullable="0+"),
                Field("client_id", STRING, "0+"),
                Field("client_host", STRING, "0+"),
                Field("rebalance_timeout_ms", INT32, "0+"),
                Field("topology_epoch", INT32, "0+"),
                Field("process_id", STRING, "0+"),
                Field(
                    "user_endpoint",
                    Struct(
                        Field("host", STRING, "0+"),
                        Field("port", UINT16, "0+"),
                    ),
                    "0+",
                    nullable="0+",
                    default=None,
                ),
                Field(
                    "client_tags",
                    Array(
                        Field("key", STRING, "0+"),
                        Field("value", STRING, "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=17,
            name="StreamsGroupMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=17,
            name="StreamsGroupMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("epoch", INT32, "0+"),
                Field("metadata_hash", INT64, "0+"),
                Field("validated_topology_epoch", INT32, "0+", tag=0, default=-1),
                Field(
                    "last_assignment_configs",
                    Array(
                        Field("key", STRING, "0+"),
                        Field("value", STRING, "0+"),
                    ),
                    "0+",
                    nullable="0+",
                    tag=1,
                    default=None,
                ),
            ),
        ),
        LogRecord(
            record_type=21,
            name="StreamsGroupTargetAssignmentMemberKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("member_id", STRING, "0+"),
            ),
        ),
        LogRecord(
            record_type=21,
            name="StreamsGroupTargetAssignmentMemberValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field(
                    "active_tasks",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
                Field(
                    "standby_tasks",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
                Field(
                    "warmup_tasks",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("partitions", Array(INT32), "0+"),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=20,
            name="StreamsGroupTargetAssignmentMetadataKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=20,
            name="StreamsGroupTargetAssignmentMetadataValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("assignment_epoch", INT32, "0+"),
                Field("assignment_timestamp", INT64, "0+", tag=0),
            ),
        ),
        LogRecord(
            record_type=23,
            name="StreamsGroupTopologyKey",
            versions="0-0",
            flexible="",
            fields=(Field("group_id", STRING, "0+"),),
        ),
        LogRecord(
            record_type=23,
            name="StreamsGroupTopologyValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("epoch", INT32, "0+"),
                Field(
                    "subtopologies",
                    Array(
                        Field("subtopology_id", STRING, "0+"),
                        Field("source_topics", Array(STRING), "0+"),
                        Field("source_topic_regex", Array(STRING), "0+"),
                        Field(
                            "state_changelog_topics",
                            Array(
                                Field("name", STRING, "0+"),
                                Field("partitions", INT32, "0+"),
                                Field("replication_factor", INT16, "0+"),
                                Field(
                                    "topic_configs",
                                    Array(
                                        Field("key", STRING, "0+"),
                                        Field("value", STRING, "0+"),
                                    ),
                                    "0+",
                                ),
                            ),
                            "0+",
                        ),
                        Field("repartition_sink_topics", Array(STRING), "0+"),
                        Field(
                            "repartition_source_topics",
                            Array(
                                Field("name", STRING, "0+"),
                                Field("partitions", INT32, "0+"),
                                Field("replication_factor", INT16, "0+"),
                                Field(
                                    "topic_configs",
                                    Array(
                                        Field("key", STRING, "0+"),
                                        Field("value", STRING, "0+"),
                                    ),
                                    "0+",
                                ),
                            ),
                            "0+",
                        ),
                        Field(
                            "copartition_groups",
                            Array(
                                Field("source_topics", Array(INT16), "0+"),
                                Field("source_topic_regex", Array(INT16), "0+"),
                                Field("repartition_source_topics", Array(INT16), "0+"),
                            ),
                            "0+",
                        ),
                    ),
                    "0+",
                ),
            ),
        ),
        LogRecord(
            record_type=0,
            name="TransactionLogKey",
            versions="0-0",
            flexible="",
            fields=(Field("transactional_id", STRING, "0+"),),
        ),
        # v0: the first known
        # v1: adds previous_producer_id, next_producer_id, client_transaction_version,
        #     next_producer_epoch; flexible
        LogRecord(
            record_type=0,
            name="TransactionLogValue",
            versions="0-1",
            flexible="1+",
            fields=(
                Field("producer_id", INT64, "0+"),
                Field("producer_epoch", INT16, "0+"),
                Field("transaction_timeout_ms", INT32, "0+"),
                Field("transaction_status", INT8, "0+"),
                Field(
                    "transaction_partitions",
                    Array(
                        Field("topic", STRING, "0+"),
                        Field("partition_ids", Array(INT32), "0+"),
                    ),
                    "0+",
                    nullable="0+",
                ),
                Field("transaction_last_update_timestamp_ms", INT64, "0+"),
                Field("transaction_start_timestamp_ms", INT64, "0+"),
                Field("previous_producer_id", INT64, "1+", tag=0, default=-1),
                Field("next_producer_id", INT64, "1+", tag=1, default=-1),
                Field("client_transaction_version", INT16, "1+", tag=2),
                Field("next_producer_epoch", INT16, "1+", tag=3, default=-1),
            ),
        ),
        LogRecord(
            record_type=0,
            name="ShareSnapshotKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("topic_id", UUID, "0+"),
                Field("partition", INT32, "0+"),
            ),
        ),
        LogRecord(
            record_type=0,
            name="ShareSnapshotValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("snapshot_epoch", INT32, "0+"),
                Field("state_epoch", INT32, "0+"),
                Field("leader_epoch", INT32, "0+"),
                Field("start_offset", INT64, "0+"),
                Field("create_timestamp", INT64, "0+"),
                Field("write_timestamp", INT64, "0+"),
                Field(
                    "state_batches",
                    Array(
                        Field("first_offset", INT64, "0+"),
                        Field("last_offset", INT64, "0+"),
                        Field("delivery_state", INT8, "0+"),
                        Field("delivery_count", INT16, "0+"),
                    ),
                    "0+",
                ),
                Field("delivery_complete_count", INT32, "0+", tag=0, default=-1),
            ),
        ),
        LogRecord(
            record_type=1,
            name="ShareUpdateKey",
            versions="0-0",
            flexible="",
            fields=(
                Field("group_id", STRING, "0+"),
                Field("topic_id", UUID, "0+"),
                Field("partition", INT32, "0+"),
            ),
        ),
        LogRecord(
            record_type=1,
            name="ShareUpdateValue",
            versions="0-0",
            flexible="0+",
            fields=(
                Field("snapshot_epoch", INT32, "0+"),
                Field("leader_epoch", INT32, "0+"),
                Field("start_offset", INT64, "0+"),
                Field(
                    "state_batches",
                    Array(
                        Field("first_offset", INT64, "0+"),
                        Field("last_offset", INT64, "0+"),
                        Field("delivery_state", INT8, "0+"),
                        Field("delivery_count", INT16, "0+"),
                    ),
                    "0+",
                ),
                Field("delivery_complete_count", INT32, "0+", tag=0, default=-1),
            ),
        ),
    )
}
"""Every record's key and value, by Kafka's name: OffsetCommitKey, OffsetCommitValue ..."""


def decode(name: str, version: int, buffer: Buffer, position: int = 0) -> dict[str, Any]:
    """Decodes a key or a value, and returns its fields. Raises ProtocolError if the buffer has too
    few or too many bytes."""
    return _find(name).message(version).decode(buffer, position)


def encode(name: str, version: int, value: dict[str, Any]) -> bytes:
    """Returns the bytes of a key or value, without its type or version in the first two bytes."""
    return _find(name).message(version).encode(value)


def _find(name: str) -> LogRecord:
    record = BY_NAME.get(name)
    if record is None:
        raise ProtocolError(f"unknown record type {name}")
    return record
