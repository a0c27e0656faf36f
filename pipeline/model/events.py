"""The contract between sources and tables: the columns of the history and of topics' stretches.

Every source returns `EVENTS`: one row for each record of `__consumer_offsets`, in the order of the
log within a partition. Times are timestamps in UTC, cut to milliseconds as in Kafka; -1 in Kafka is
null. (`log_partition`, `log_offset`) identifies a row: a log holds each offset once, so a row that
was read twice is recognized.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COMMIT: Final = "commit"
"""An offset was committed: at once, or by a transaction if `producer_id` is set."""
COMMIT_TOMBSTONE: Final = "commit_tombstone"
"""An offset was deleted or expired."""
GROUP: Final = "group"
"""A classic group's metadata: a generation, or an empty group."""
GROUP_TOMBSTONE: Final = "group_tombstone"
"""A classic group was deleted, had nothing left, or was converted to another kind."""
MARKER: Final = "transaction_marker"
"""A transaction of `producer_id` ended in this partition; `marker` is COMMITTED or ABORTED."""
UNKNOWN: Final = "unknown"
"""A record with an unknown key type or value version: kept as `raw_key` and `raw_value`, with its
group if the key names it.
"""
DAMAGED: Final = "damaged"
"""Bytes that could not be read; `damage` has the place and the reason. They go to quarantine. A
single record has its group if the key names it; damage without a group may concern every group of
its partition.
"""
TORN: Final = "torn_tail"
"""A log ends within a batch, and nothing shows that there was more: its broker was killed while it
wrote, or is writing. `damage` has the place.
"""

TOMBSTONE: Final = "_tombstone"
"""The suffix of the kind of a tombstone."""
RECORD_KINDS: Final[dict[int, str]] = {
    3: "consumer_group_epoch",
    4: "consumer_group_topics",
    5: "consumer_group_member",
    6: "consumer_group_target",
    7: "consumer_group_target_member",
    8: "consumer_group_current_member",
    10: "share_group_member",
    11: "share_group_epoch",
    12: "share_group_target",
    13: "share_group_target_member",
    14: "share_group_current_member",
    15: "share_group_topics",
    16: "consumer_group_pattern",
    17: "streams_group_epoch",
    19: "streams_group_member",
    20: "streams_group_target",
    21: "streams_group_target_member",
    22: "streams_group_current_member",
    23: "streams_group_topology",
}
"""The kinds of records of KIP-848, KIP-932 and KIP-1071 groups, by the type in their key. The kind
of a record without a value has the suffix `TOMBSTONE`.
"""
KINDS: Final = (
    COMMIT,
    COMMIT_TOMBSTONE,
    GROUP,
    GROUP_TOMBSTONE,
    MARKER,
    UNKNOWN,
    DAMAGED,
    TORN,
    *[kind + end for kind in RECORD_KINDS.values() for end in ("", TOMBSTONE)],
)
COMMITTED: Final = "commit"
ABORTED: Final = "abort"
"""Values of `marker`: how a transaction ended."""

AT: Final = pa.timestamp("us", "UTC")

ASSIGNMENT: Final = pa.list_(
    pa.struct(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partitions", pa.list_(pa.int32())),
        ]
    )
)
"""`topic_id` is Kafka's text of a UUID, null in classic groups; `topic` is null if a record has
only the id and its name is unknown.
"""

MEMBERS: Final = pa.list_(
    pa.struct(
        [
            ("member_id", pa.string()),
            ("group_instance_id", pa.string()),
            ("client_id", pa.string()),
            ("client_host", pa.string()),
            ("rebalance_timeout_ms", pa.int32()),
            ("session_timeout_ms", pa.int32()),
            ("subscription", pa.list_(pa.string())),
            ("assignment", ASSIGNMENT),
        ]
    )
)
"""Subscription and assignment are null if a classic group's protocol type is not `consumer`."""

DAMAGE: Final = pa.struct(
    [("file", pa.string()), ("position", pa.int64()), ("reason", pa.string())]
)
"""File and byte position in a segment; both null for records read over the wire."""


def _needed(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


EVENTS: Final = pa.schema(
    [
        _needed("log_partition", pa.int32()),
        _needed("log_offset", pa.int64()),
        ("written_at", AT),
        _needed("kind", pa.string()),
        ("value_version", pa.int16()),
        ("group_id", pa.string()),
        # commits and their tombstones
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_at", AT),
        ("expire_at", AT),
        # records of transactions and their markers
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("marker", pa.string()),
        # groups
        ("protocol_type", pa.string()),
        ("generation", pa.int32()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("state_at", AT),
        ("member_id", pa.string()),
        ("members", MEMBERS),
        ("details", pa.string()),
        # records that are not understood
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
        ("damage", DAMAGE),
    ]
)
"""One record of `__consumer_offsets`. `written_at` is the record's timestamp, `commit_at` the
value's; `leader_epoch` is null when unset; a damaged row has the offset at which reading stopped. A
record of the newer kinds of groups has its epoch as `generation` (that of the group, the target or
the member), its member as `member_id` and as the one element of `members` (names in a member
record; assignment in a target or current one), `protocol_type` as in `GROUP_TYPES`, the assignor as
`protocol`, and the whole value as JSON in `details`.
"""

GROUP_TYPES: Final = ("consumer", "share", "streams")

STRETCHES: Final = pa.schema(
    [
        _needed("topic", pa.string()),
        _needed("partition", pa.int32()),
        _needed("base_offset", pa.int64()),
        _needed("last_offset", pa.int64()),
        ("first_at", AT),
        ("last_at", AT),
        ("size_bytes", pa.int64()),
    ]
)
"""The relation between offsets and time in an ordinary topic. In a file a stretch is one batch;
over the wire it is the range between two offsets whose times a broker returned or a follower saw.
`first_at` is the time of the record at `base_offset`; `last_at` is that of the record at
`last_offset`, or later. `size_bytes` is that of a batch, null for any other stretch. Gaps between
stretches hold no records. A row with `last_offset` = `base_offset` - 1 reports a log's bounds: with
`last_at`, the log ended there at that time; with `first_at` alone, or no time, it began there at
that time, or at the time of the read.
"""

SEGMENT_RECORDS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", AT),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("damage", DAMAGE),
    ]
)
"""Records of any topic's segments, with the columns of Spark's Kafka connector and `damage`."""
