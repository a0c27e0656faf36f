"""Defines the tuples that the generated codecs return and accept. ``make_codecs.py`` reads these
definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

NONE: Final[dict[str, Any]] = {}


class Shape(NamedTuple):
    """The request tuple and the response arguments of one API's codec."""

    api: str
    types: dict[str, str]
    """Type aliases of the generated module, by name. ``Request`` is the type of the request
    tuple."""
    result: Callable[[int], str]
    """Returns, for a version, the source code that creates the request tuple. The code uses the
    variables of the decoder."""
    slow_shape: str
    """The source of ``_shape(version, value)``, which converts a dict of the reference codec to the
    request tuple."""
    rows: dict[str, tuple[str, Callable[[int], str]]] = NONE
    """Arrays that are decoded to one tuple per element, by variable name. Each value has the type
    of the tuples, and a function that returns, for a version of the API, the source code of one
    tuple."""
    columns: Sequence[str] = ()
    """Arrays of structs that are decoded to one tuple per field: the values of this field."""
    arguments: Sequence[str] = ()
    """Arguments of the encoder, after the correlation id. Empty if the API has no generated
    encoder."""
    names: dict[str, str] = NONE
    """Variable names of response fields that differ from Kafka's names, by path. ``path[]`` is an
    element of an array."""
    before: Callable[[int], list[str]] = lambda _: []
    """A function that returns the first source lines of the encoder for a version."""
    in_chunks: bool = False
    """True if the encoder returns a list of chunks. ``names`` then also has the name of the
    variable for the size of each records field, under the field's path and ``.size``."""


def row(*parts: str | tuple[str, int, str]) -> Callable[[int], str]:
    """Returns a function that returns, for a version, the Python source of a tuple.

    ``parts`` are the elements of the tuple. For a part (name, since, before), the element is
    ``name`` from version ``since`` on, and ``before`` in older versions.
    """

    def source(version: int) -> str:
        names = [
            part if isinstance(part, str) else part[0] if version >= part[1] else part[2]
            for part in parts
        ]
        return f"({', '.join(names)})"

    return source


HEARTBEAT = Shape(
    api="Heartbeat",
    types={"Request": "tuple[str, int, str, str | None]"},
    result=row("group_id", "generation_id", "member_id", ("group_instance_id", 3, "None")),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["group_id"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"],
    )
""",
    arguments=("throttle_time_ms: int", "error_code: int"),
)

CONSUMER_GROUP_HEARTBEAT = Shape(
    api="ConsumerGroupHeartbeat",
    types={
        "Owned": "tuple[bytes, tuple[int, ...]]",
        "Request": "tuple[str, str, int, str | None, str | None, int, list[str] | None, str | None,"
        " str | None, list[Owned] | None]",
    },
    result=row(
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        ("subscribed_topic_regex", 1, "None"),
        "server_assignor",
        "topic_partitions",
    ),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    owned = value["topic_partitions"]
    if owned is not None:
        owned = [(each["topic_id"], tuple(each["partitions"])) for each in owned]
    return (
        value["group_id"],
        value["member_id"],
        value["member_epoch"],
        value["instance_id"],
        value["rack_id"],
        value["rebalance_timeout_ms"],
        value["subscribed_topic_names"],
        value["subscribed_topic_regex"],
        value["server_assignor"],
        owned,
    )
""",
    rows={
        "topic_partitions": (
            "Owned",
            row("topic_partition_topic_id", "topic_partition_partitions"),
        )
    },
    arguments=(
        "throttle_time_ms: int",
        "error_code: int",
        "error_message: str | None",
        "member_id: str | None",
        "member_epoch: int",
        "heartbeat_interval_ms: int",
        "assignment: Sequence[tuple[bytes, Sequence[int]]] | None",
    ),
    names={
        "assignment.topic_partitions": "assignment",
        "assignment.topic_partitions[]": "topic_id, partitions",
        "assignment.topic_partitions.topic_id": "topic_id",
        "assignment.topic_partitions.partitions": "partitions",
    },
)

END_TXN = Shape(
    api="EndTxn",
    types={"Request": "tuple[str, int, int, bool]"},
    result=row("transactional_id", "producer_id", "producer_epoch", "committed"),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["transactional_id"],
        value["producer_id"],
        value["producer_epoch"],
        value["committed"],
    )
""",
    arguments=(
        "throttle_time_ms: int",
        "error_code: int",
        "producer_id: int",
        "producer_epoch: int",
    ),
)

OFFSET_COMMIT = Shape(
    api="OffsetCommit",
    types={
        "Column": "tuple[int, ...]",
        "Topic": "tuple[Any, Column, Column, Column, tuple[str | None, ...] | None, Column | None]",
        "Request": "tuple[str, int, str, str | None, int, list[Topic]]",
    },
    result=lambda v: row(
        "group_id",
        ("generation_id_or_member_epoch", 1, "-1"),
        ("member_id", 1, '""'),
        ("group_instance_id", 7, "None"),
        "retention_time_ms" if 2 <= v <= 4 else "-1",
        "topics",
    )(v),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    topics = []
    for topic in value["topics"]:
        parts = topic["partitions"]
        metadata = tuple([part["committed_metadata"] for part in parts])
        topics.append(
            (
                topic["topic_id" if version >= 10 else "name"],
                tuple([part["partition_index"] for part in parts]),
                tuple([part["committed_offset"] for part in parts]),
                tuple([part["committed_leader_epoch"] for part in parts]),
                metadata if any(metadata) else None,
                tuple([part["commit_timestamp"] for part in parts]) if version == 1 else None,
            )
        )
    return (
        value["group_id"],
        value["generation_id_or_member_epoch"],
        value["member_id"],
        value["group_instance_id"],
        value["retention_time_ms"],
        topics,
    )
""",
    rows={
        "topics": (
            "Topic",
            row(
                ("topic_topic_id", 10, "topic_name"),
                "partitions",
                "offsets",
                "leader_epochs",
                "metadata",
                "timestamps",
            ),
        )
    },
    columns=("topic_partitions",),
    arguments=(
        "throttle_time_ms: int",
        "topics: Sequence[tuple[Any, Sequence[int], int | Sequence[int]]]",
    ),
    names={
        "topics[]": "topic, partitions, codes",
        "topics.name": "topic",
        "topics.topic_id": "topic",
        "topics.partitions[]": "codes",
    },
)

OFFSET_FETCH = Shape(
    api="OffsetFetch",
    types={
        "Topic": "tuple[Any, tuple[int, ...]]",
        "Group": "tuple[str, str | None, int, list[Topic] | None]",
        "Request": "tuple[list[Group], bool]",
    },
    result=lambda v: (
        "(groups, require_stable)"
        if v >= 8
        else f"([(group_id, None, -1, topics)], {'require_stable' if v >= 7 else 'False'})"
    ),
    slow_shape="""
def _topics(version: int, topics: list[dict[str, Any]] | None) -> list[Any] | None:
    if topics is None:
        return None
    key = "topic_id" if version >= 10 else "name"
    return [(topic[key], tuple(topic["partition_indexes"])) for topic in topics]


def _shape(version: int, value: dict[str, Any]) -> Request:
    if version < 8:
        topics = _topics(version, value["topics"])
        return ([(value["group_id"], None, -1, topics)], value["require_stable"])
    groups: list[Group] = [
        (
            group["group_id"],
            group["member_id"],
            group["member_epoch"],
            _topics(version, group["topics"]),
        )
        for group in value["groups"]
    ]
    return (groups, value["require_stable"])
""",
    rows={
        "topics": ("Topic", row("topic_name", "topic_partition_indexes")),
        "groups": (
            "Group",
            row(
                "group_group_id",
                ("group_member_id", 9, "None"),
                ("group_member_epoch", 9, "-1"),
                "group_topics",
            ),
        ),
        "group_topics": (
            "Topic",
            row(("group_topic_topic_id", 10, "group_topic_name"), "group_topic_partition_indexes"),
        ),
    },
    arguments=("throttle_time_ms: int", "groups: Sequence[tuple[str, int, Sequence[Any]]]"),
    names={
        "groups[]": "group_id, error_code, topics",
        "topics[]": "topic, partitions, offsets, leader_epochs, metadata, codes",
        "topics.name": "topic",
        "topics.partitions[]": "offsets",
        "groups.topics[]": "topic, partitions, offsets, leader_epochs, metadata, codes",
        "groups.topics.name": "topic",
        "groups.topics.topic_id": "topic",
        "groups.topics.partitions[]": "offsets",
    },
    before=lambda v: (
        []
        if v >= 8
        else ["(group,) = groups", f"{'_, error_code' if v >= 2 else '_, _'}, topics = group"]
    ),
)

JOIN_GROUP = Shape(
    api="JoinGroup",
    types={
        "Protocol": "tuple[str, bytes]",
        "Request": "tuple[str, int, int, str, str | None, str, list[Protocol], str | None]",
    },
    result=row(
        "group_id",
        "session_timeout_ms",
        ("rebalance_timeout_ms", 1, "-1"),
        "member_id",
        ("group_instance_id", 5, "None"),
        "protocol_type",
        "protocols",
        ("reason", 8, "None"),
    ),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["group_id"],
        value["session_timeout_ms"],
        value["rebalance_timeout_ms"],
        value["member_id"],
        value["group_instance_id"],
        value["protocol_type"],
        [(protocol["name"], protocol["metadata"]) for protocol in value["protocols"]],
        value["reason"],
    )
""",
    rows={"protocols": ("Protocol", row("protocol_name", "protocol_metadata"))},
    arguments=(
        "throttle_time_ms: int",
        "error_code: int",
        "generation_id: int",
        "protocol_type: str | None",
        "protocol_name: str | None",
        "leader: str",
        "skip_assignment: bool",
        "member_id: str",
        "members: Sequence[tuple[str, str | None, bytes]]",
    ),
    names={
        "members[]": "joined_member_id, group_instance_id, metadata",
        "members.member_id": "joined_member_id",
    },
)

SYNC_GROUP = Shape(
    api="SyncGroup",
    types={
        "Assignment": "tuple[str, bytes]",
        "Request": "tuple[str, int, str, str | None, str | None, str | None, list[Assignment]]",
    },
    result=row(
        "group_id",
        "generation_id",
        "member_id",
        ("group_instance_id", 3, "None"),
        ("protocol_type", 5, "None"),
        ("protocol_name", 5, "None"),
        "assignments",
    ),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["group_id"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"],
        value["protocol_type"],
        value["protocol_name"],
        [(member["member_id"], member["assignment"]) for member in value["assignments"]],
    )
""",
    rows={"assignments": ("Assignment", row("assignment_member_id", "assignment_assignment"))},
    arguments=(
        "throttle_time_ms: int",
        "error_code: int",
        "protocol_type: str | None",
        "protocol_name: str | None",
        "assignment: bytes",
    ),
)

PRODUCE = Shape(
    api="Produce",
    types={
        "Partition": "tuple[int, bytes | None]",
        "Topic": "tuple[Any, list[Partition]]",
        "Request": "tuple[str | None, int, int, list[Topic]]",
    },
    result=row(("transactional_id", 3, "None"), "acks", "timeout_ms", "topic_data"),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    key = "topic_id" if version >= 13 else "name"
    topics = [
        (topic[key], [(part["index"], part["records"]) for part in topic["partition_data"]])
        for topic in value["topic_data"]
    ]
    return (value["transactional_id"], value["acks"], value["timeout_ms"], topics)
""",
    rows={
        "topic_data": (
            "Topic",
            row(("topic_data_topic_id", 13, "topic_data_name"), "topic_data_partition_data"),
        ),
        "topic_data_partition_data": (
            "Partition",
            row("topic_data_partition_data_index", "topic_data_partition_data_records"),
        ),
    },
    arguments=(
        "topics: Sequence[tuple[Any, Sequence[Any]]]",
        "throttle_time_ms: int",
    ),
    names={
        "responses": "topics",
        "responses[]": "topic, partitions",
        "responses.name": "topic",
        "responses.topic_id": "topic",
        "responses.partition_responses": "partitions",
        "responses.partition_responses[]": (
            "index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors,"
            " error_message"
        ),
        "responses.partition_responses.record_errors[]": "batch_index, batch_index_error_message",
    },
)

FETCH = Shape(
    api="Fetch",
    types={
        "Partition": "tuple[int, int, int, int, int, int]",
        "Topic": "tuple[Any, list[Partition]]",
        "Forgotten": "tuple[Any, tuple[int, ...]]",
        "Request": "tuple[int, int, int, int, int, int, int, list[Topic], list[Forgotten], str]",
    },
    result=row(
        ("-1", 15, "replica_id"),
        "max_wait_ms",
        "min_bytes",
        ("max_bytes", 3, "0x7FFFFFFF"),
        ("isolation_level", 4, "0"),
        ("session_id", 7, "0"),
        ("session_epoch", 7, "-1"),
        "topics",
        ("forgotten_topics_data", 7, "[]"),
        ("rack_id", 11, '""'),
    ),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    key = "topic_id" if version >= 13 else "topic"
    topics: list[Topic] = [
        (
            topic[key],
            [
                (
                    part["partition"],
                    part["current_leader_epoch"],
                    part["fetch_offset"],
                    part["last_fetched_epoch"],
                    part["log_start_offset"],
                    part["partition_max_bytes"],
                )
                for part in topic["partitions"]
            ],
        )
        for topic in value["topics"]
    ]
    return (
        value["replica_state"]["replica_id"] if version >= 15 else value["replica_id"],
        value["max_wait_ms"],
        value["min_bytes"],
        value["max_bytes"],
        value["isolation_level"],
        value["session_id"],
        value["session_epoch"],
        topics,
        [(topic[key], tuple(topic["partitions"])) for topic in value["forgotten_topics_data"]],
        value["rack_id"],
    )
""",
    rows={
        "topics": (
            "Topic",
            row(("topic_topic_id", 13, "topic_topic"), "topic_partitions"),
        ),
        "topic_partitions": (
            "Partition",
            row(
                "topic_partition_partition",
                ("topic_partition_current_leader_epoch", 9, "-1"),
                "topic_partition_fetch_offset",
                ("topic_partition_last_fetched_epoch", 12, "-1"),
                ("topic_partition_log_start_offset", 5, "-1"),
                "topic_partition_partition_max_bytes",
            ),
        ),
        "forgotten_topics_data": (
            "Forgotten",
            row(
                ("forgotten_topics_data_topic_id", 13, "forgotten_topics_data_topic"),
                "forgotten_topics_data_partitions",
            ),
        ),
    },
    arguments=(
        "throttle_time_ms: int",
        "error_code: int",
        "session_id: int",
        "topics: Sequence[tuple[Any, Sequence[Any]]]",
    ),
    names={
        "responses": "topics",
        "responses[]": "topic, partitions",
        "responses.topic": "topic",
        "responses.topic_id": "topic",
        "responses.partitions": "partitions",
        "responses.partitions[]": "each",
        "responses.partitions.partition_index": "each.partition",
        "responses.partitions.error_code": "each.error_code",
        "responses.partitions.high_watermark": "each.high_watermark",
        "responses.partitions.last_stable_offset": "each.last_stable_offset",
        "responses.partitions.log_start_offset": "each.log_start_offset",
        "responses.partitions.aborted_transactions": "each.aborted_transactions",
        "responses.partitions.aborted_transactions[]": "producer_id, first_offset",
        "responses.partitions.preferred_read_replica": "-1",
        "responses.partitions.records": "each.records",
        "responses.partitions.records.size": "each.size_bytes",
        "responses.partitions.diverging_epoch": "each.diverging",
    },
    in_chunks=True,
)

SHARE_FETCH = Shape(
    api="ShareFetch",
    types={
        "Acknowledgements": "tuple[int, int, tuple[int, ...]]",
        "Partition": "tuple[int, list[Acknowledgements]]",
        "Topic": "tuple[bytes, list[Partition]]",
        "Forgotten": "tuple[bytes, tuple[int, ...]]",
        "Request": "tuple[str | None, str | None, int, int, int, int, int, int, int, bool,"
        " list[Topic], list[Forgotten]]",
    },
    result=row(
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        ("max_records", 1, "0x7FFFFFFF"),
        ("batch_size", 1, "0x7FFFFFFF"),
        ("share_acquire_mode", 2, "0"),
        ("is_renew_ack", 2, "False"),
        "topics",
        "forgotten_topics_data",
    ),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    topics: list[Topic] = [
        (
            topic["topic_id"],
            [
                (
                    part["partition_index"],
                    [
                        (
                            batch["first_offset"],
                            batch["last_offset"],
                            tuple(batch["acknowledge_types"]),
                        )
                        for batch in part["acknowledgement_batches"]
                    ],
                )
                for part in topic["partitions"]
            ],
        )
        for topic in value["topics"]
    ]
    return (
        value["group_id"],
        value["member_id"],
        value["share_session_epoch"],
        value["max_wait_ms"],
        value["min_bytes"],
        value["max_bytes"],
        value["max_records"] if version >= 1 else 0x7FFFFFFF,
        value["batch_size"] if version >= 1 else 0x7FFFFFFF,
        value["share_acquire_mode"],
        value["is_renew_ack"],
        topics,
        [
            (topic["topic_id"], tuple(topic["partitions"]))
            for topic in value["forgotten_topics_data"]
        ],
    )
""",
    rows={
        "topics": ("Topic", row("topic_topic_id", "topic_partitions")),
        "topic_partitions": (
            "Partition",
            row("topic_partition_partition_index", "topic_partition_acknowledgement_batches"),
        ),
        "topic_partition_acknowledgement_batches": (
            "Acknowledgements",
            row(
                "topic_partition_acknowledgement_batche_first_offset",
                "topic_partition_acknowledgement_batche_last_offset",
                "topic_partition_acknowledgement_batche_acknowledge_types",
            ),
        ),
        "forgotten_topics_data": (
            "Forgotten",
            row("forgotten_topics_data_topic_id", "forgotten_topics_data_partitions"),
        ),
    },
    arguments=(
        "throttle_time_ms: int",
        "error_code: int",
        "error_message: str | None",
        "acquisition_lock_timeout_ms: int",
        "topics: Sequence[tuple[bytes, Sequence[Any]]]",
        "node_endpoints: Sequence[tuple[int, str, int, str | None]] = ()",
    ),
    names={
        "responses": "topics",
        "responses[]": "topic_id, partitions",
        "responses.topic_id": "topic_id",
        "responses.partitions": "partitions",
        "responses.partitions[]": "each",
        "responses.partitions.partition_index": "each.partition",
        "responses.partitions.error_code": "each.error_code",
        "responses.partitions.error_message": "each.error_message",
        "responses.partitions.acknowledge_error_code": "each.acknowledge_error_code",
        "responses.partitions.acknowledge_error_message": "each.acknowledge_error_message",
        "responses.partitions.current_leader.leader_id": "each.leader_id",
        "responses.partitions.current_leader.leader_epoch": "each.leader_epoch",
        "responses.partitions.records": "each.records",
        "responses.partitions.records.size": "each.size_bytes",
        "responses.partitions.acquired_records": "each.acquired",
        "responses.partitions.acquired_records[]": "first_offset, last_offset, delivery_count",
        "node_endpoints[]": "node_id, host, port, rack",
    },
    in_chunks=True,
)

TXN_OFFSET_COMMIT = Shape(
    api="TxnOffsetCommit",
    types={
        "Column": "tuple[int, ...]",
        "Topic": "tuple[Any, Column, Column, Column, tuple[str | None, ...] | None, None]",
        "Request": "tuple[str, str, int, int, int, str, str | None, list[Topic]]",
    },
    result=row(
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        ("generation_id", 3, "-1"),
        ("member_id", 3, '""'),
        ("group_instance_id", 3, "None"),
        "topics",
    ),
    slow_shape="""
def _shape(version: int, value: dict[str, Any]) -> Request:
    topics: list[Topic] = []
    for topic in value["topics"]:
        parts = topic["partitions"]
        metadata = tuple([part["committed_metadata"] for part in parts])
        topics.append(
            (
                topic["topic_id" if version >= 6 else "name"],
                tuple([part["partition_index"] for part in parts]),
                tuple([part["committed_offset"] for part in parts]),
                tuple([part["committed_leader_epoch"] for part in parts]),
                metadata if any(metadata) else None,
                None,
            )
        )
    return (
        value["transactional_id"],
        value["group_id"],
        value["producer_id"],
        value["producer_epoch"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"],
        topics,
    )
""",
    rows={
        "topics": (
            "Topic",
            row(
                ("topic_topic_id", 6, "topic_name"),
                "partitions",
                "offsets",
                "leader_epochs",
                "metadata",
                "None",
            ),
        )
    },
    columns=("topic_partitions",),
    arguments=OFFSET_COMMIT.arguments,
    names=OFFSET_COMMIT.names,
)

SHAPES = {
    "consumer_group_heartbeat": CONSUMER_GROUP_HEARTBEAT,
    "end_txn": END_TXN,
    "fetch": FETCH,
    "heartbeat": HEARTBEAT,
    "join_group": JOIN_GROUP,
    "offset_commit": OFFSET_COMMIT,
    "offset_fetch": OFFSET_FETCH,
    "produce": PRODUCE,
    "share_fetch": SHARE_FETCH,
    "sync_group": SYNC_GROUP,
    "txn_offset_commit": TXN_OFFSET_COMMIT,
}
