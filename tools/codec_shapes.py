"""What the generated codecs' tuples look like; the data of ``make_codecs.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

NONE: Final[dict[str, Any]] = {}


class Shape(NamedTuple):
    """One API's tuples."""

    api: str
    types: dict[str, str]
    """Type aliases of the module; ``Request`` is the request tuple."""
    result: Callable[[int], str]
    """The request tuple in terms of the decoder's variables, by version."""
    slow_shape: str
    """``_shape(version, value)``: the same tuple from the reference's dict."""
    rows: dict[str, tuple[str, Callable[[int], str]]] = NONE
    """Of each array, by its variable: its element's type and tuple."""
    columns: Sequence[str] = ()
    """Arrays that are decoded as columns."""
    arguments: Sequence[str] = ()
    """The encoder's arguments after the correlation id; none for no encoder."""
    names: dict[str, str] = NONE
    """Response fields by path that are not called as in the table; ``path[]`` names elements."""
    before: Callable[[int], list[str]] = lambda _: []
    """Lines that an encoder begins with."""


HEARTBEAT = Shape(
    api="Heartbeat",
    types={"Request": "tuple[str, int, str, str | None]"},
    result=lambda v: (
        f"(group_id, generation_id, member_id, {'group_instance_id' if v >= 3 else 'None'})"
    ),
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

OFFSET_COMMIT = Shape(
    api="OffsetCommit",
    types={
        "Column": "tuple[int, ...]",
        "Topic": "tuple[Any, Column, Column, Column, tuple[str | None, ...] | None, Column | None]",
        "Request": "tuple[str, int, str, str | None, int, list[Topic]]",
    },
    result=lambda v: (
        "("
        + ", ".join(
            [
                "group_id",
                "generation_id_or_member_epoch" if v >= 1 else "-1",
                "member_id" if v >= 1 else '""',
                "group_instance_id" if v >= 7 else "None",
                "retention_time_ms" if 2 <= v <= 4 else "-1",
                "topics",
            ]
        )
        + ")"
    ),
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
            lambda v: (
                f"({'topic_topic_id' if v >= 10 else 'topic_name'}, partitions, offsets, "
                "leader_epochs, metadata, timestamps)"
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
        "topics": ("Topic", lambda _: "(topic_name, topic_partition_indexes)"),
        "groups": (
            "Group",
            lambda v: (
                "(group_group_id, "
                f"{'group_member_id, group_member_epoch' if v >= 9 else 'None, -1'}, group_topics)"
            ),
        ),
        "group_topics": (
            "Topic",
            lambda v: (
                f"({'group_topic_topic_id' if v >= 10 else 'group_topic_name'}, "
                "group_topic_partition_indexes)"
            ),
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
    result=lambda v: (
        "("
        + ", ".join(
            [
                "group_id",
                "session_timeout_ms",
                "rebalance_timeout_ms" if v >= 1 else "-1",
                "member_id",
                "group_instance_id" if v >= 5 else "None",
                "protocol_type",
                "protocols",
                "reason" if v >= 8 else "None",
            ]
        )
        + ")"
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
    rows={"protocols": ("Protocol", lambda _: "(protocol_name, protocol_metadata)")},
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
    result=lambda v: (
        "("
        + ", ".join(
            [
                "group_id",
                "generation_id",
                "member_id",
                "group_instance_id" if v >= 3 else "None",
                "protocol_type" if v >= 5 else "None",
                "protocol_name" if v >= 5 else "None",
                "assignments",
            ]
        )
        + ")"
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
    rows={"assignments": ("Assignment", lambda _: "(assignment_member_id, assignment_assignment)")},
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
    result=lambda v: f"({'transactional_id' if v >= 3 else 'None'}, acks, timeout_ms, topic_data)",
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
            lambda v: (
                f"({'topic_data_topic_id' if v >= 13 else 'topic_data_name'}, "
                "topic_data_partition_data)"
            ),
        ),
        "topic_data_partition_data": (
            "Partition",
            lambda _: "(topic_data_partition_data_index, topic_data_partition_data_records)",
        ),
    },
)

FETCH_PARTITION = (
    ("partition", 0, "-1"),
    ("current_leader_epoch", 9, "-1"),
    ("fetch_offset", 0, "-1"),
    ("last_fetched_epoch", 12, "-1"),
    ("log_start_offset", 5, "-1"),
    ("partition_max_bytes", 0, "-1"),
)
"""A partition of a Fetch: field, since which version, its default before."""

FETCH = Shape(
    api="Fetch",
    types={
        "Partition": "tuple[int, int, int, int, int, int]",
        "Topic": "tuple[Any, list[Partition]]",
        "Forgotten": "tuple[Any, tuple[int, ...]]",
        "Request": "tuple[int, int, int, int, int, int, int, list[Topic], list[Forgotten], str]",
    },
    result=lambda v: (
        "("
        + ", ".join(
            [
                "replica_id" if v < 15 else "-1",
                "max_wait_ms",
                "min_bytes",
                "max_bytes" if v >= 3 else "0x7FFFFFFF",
                "isolation_level" if v >= 4 else "0",
                "session_id" if v >= 7 else "0",
                "session_epoch" if v >= 7 else "-1",
                "topics",
                "forgotten_topics_data" if v >= 7 else "[]",
                "rack_id" if v >= 11 else '""',
            ]
        )
        + ")"
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
            lambda v: f"({'topic_topic_id' if v >= 13 else 'topic_topic'}, topic_partitions)",
        ),
        "topic_partitions": (
            "Partition",
            lambda v: (
                "("
                + ", ".join(
                    f"topic_partition_{name}" if v >= since else default
                    for name, since, default in FETCH_PARTITION
                )
                + ")"
            ),
        ),
        "forgotten_topics_data": (
            "Forgotten",
            lambda v: (
                f"({'forgotten_topics_data_topic_id' if v >= 13 else 'forgotten_topics_data_topic'}"
                ", forgotten_topics_data_partitions)"
            ),
        ),
    },
)

SHAPES = {
    "fetch": FETCH,
    "heartbeat": HEARTBEAT,
    "join_group": JOIN_GROUP,
    "offset_commit": OFFSET_COMMIT,
    "offset_fetch": OFFSET_FETCH,
    "produce": PRODUCE,
    "sync_group": SYNC_GROUP,
}
