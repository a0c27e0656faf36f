"""The columns of the history and of stretches of topics. Sources return these columns, and tables
are made from them.

Every source returns `EVENTS`: one row for each record of `__consumer_offsets`, in log order within
a partition. Times are timestamps in UTC, in milliseconds as in Kafka. Kafka's -1 is null.
(`log_partition`, `log_offset`) identifies a row: a log has each offset once, so a row that was read
twice is recognized.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COMMIT: Final = "commit"
"""The kind of a record that commits an offset. If `producer_id` is set, the commit is part of a
transaction."""
COMMIT_TOMBSTONE: Final = "commit_tombstone"
"""The kind of a record that deletes an offset, on request or after its expiry."""
GROUP: Final = "group"
"""The kind of a classic group's metadata record. The record contains a generation, or the state of
a group without members."""
GROUP_TOMBSTONE: Final = "group_tombstone"
"""The kind of a record that ends a classic group. The group was deleted, had no offsets or members
left, or was converted to another type of group."""
MARKER: Final = "transaction_marker"
"""The kind of a transaction marker: a transaction of `producer_id` ended in this partition. The
column `marker` is COMMITTED or ABORTED."""
UNKNOWN: Final = "unknown"
"""The kind of a record with an unknown key type or value version. The row has `raw_key` and
`raw_value`. The row has the group id if the key contains a group id."""
DAMAGED: Final = "damaged"
"""The kind of a row for bytes that could not be read. The column `damage` has the file, the
position and the reason. The table `quarantine` has these rows.

If one record is damaged and its key contains a group id, the row has this id. A row without a group
id may concern every group of its partition.
"""
TORN: Final = "torn_tail"
"""The kind of a row for a log that ends in the middle of a batch, without a sign of later records.
The broker was killed during the write, or is just writing the batch. The column `damage` has the
file and the position."""

TOMBSTONE: Final = "_tombstone"
"""The suffix of the kinds of tombstones."""
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
"""The kinds of records of KIP-848, KIP-932 and KIP-1071 groups, by the type in the key. A record
without a value has the kind with the suffix `TOMBSTONE`."""
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
"""A value of the column `marker`: the transaction was aborted. The value `COMMITTED` means that it
was committed."""

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
"""The assignment of a member. `topic_id` is Kafka's text form of a UUID; it is null in classic
groups. `topic` is null if a record has only the topic id, and the topic's name is unknown."""

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
"""The members of a group. Subscription and assignment are null in a classic group whose protocol
type is not `consumer`."""

DAMAGE: Final = pa.struct(
    [("file", pa.string()), ("position", pa.int64()), ("reason", pa.string())]
)
"""The location and the reason of damage. `file` is the name of a segment, and `position` is a byte
position in it. Both are null for records that were read over the wire."""


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
"""A record of `__consumer_offsets`.

`written_at` is the timestamp of the record. `commit_at` is the timestamp in the record's value.
`leader_epoch` is null if it is not set. A row about damage has the offset at which reading stopped.

A record of a KIP-848, KIP-932 or KIP-1071 group has these columns:

- `generation` is the epoch in the record: that of the group, the target or the member.
- `member_id` is the record's member.
- `members` has only one element, the record's member. For a member record, the element has the
  subscription. For a target or current record, it has the assignment, except the tasks of a
  streams group.
- `protocol_type` is as in `GROUP_TYPES`, and `protocol` is the assignor.
- `details` is the whole value as JSON. A topic id has the topic's name next to it, if
  known.
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
"""Stretches of a topic: ranges of offsets with their times.

A stretch from a file is one batch. A stretch that was read over the wire is the range between two
offsets whose times a broker returned or a follower observed. `first_at` is the time of the record
at `base_offset`. `last_at` is the time of the record at `last_offset`, or a later time.
`size_bytes` is the size of a batch, and null for any other stretch. Offsets between stretches have
no records.

A row with `last_offset` = `base_offset` - 1 shows a bound of the log. If it has `last_at`, it is
the log end offset at that time. If it has only `first_at`, it is the log start offset at that time.
If it has no time, it is the log start offset at the time of the read.
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
"""The records in the segments of any topic. The columns are those of Spark's Kafka connector, and
`damage`."""
