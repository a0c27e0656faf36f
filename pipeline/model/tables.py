"""The columns of each table; docs/use/pipeline.md describes them.

Times are timestamps in UTC. Durations (`_s`) are doubles in seconds. Differences between offsets
are integers; their unit is records. In tables that grow with the history, the last column is `day`,
and the files of each day are in a folder of their own.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TYPES: Final[dict[str, pa.DataType]] = {
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "texts": pa.list_(pa.string()),
}


def _columns(**kinds: str | pa.DataType) -> pa.Schema:
    return pa.schema(
        [(name, _TYPES[kind] if isinstance(kind, str) else kind) for name, kind in kinds.items()]
    )


def _rows(columns: pa.Schema) -> pa.DataType:
    return pa.list_(pa.struct(list(columns)))


QUARANTINE: Final = _columns(
    log_partition="int", log_offset="long", file="text", position="long", reason="text"
)

PERSON: Final = _columns(
    member_id="text", group_instance_id="text", client_id="text", client_host="text"
)
PERSONS: Final = _rows(PERSON)

COMMITS: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    committed_at="at",
    committed_offset="long",
    leader_epoch="int",
    metadata="text",
    commit_at="at",
    expire_at="at",
    record_at="at",
    record_at_precision_s="double",
    previous_offset="long",
    previous_at="at",
    since_previous_s="double",
    advanced_records="long",
    advanced_s="double",
    log_partition="int",
    log_offset="long",
    producer_id="long",
    marker_offset="long",
    day="day",
)

TRANSACTIONAL_COMMITS: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    written_at="at",
    committed_offset="long",
    metadata="text",
    producer_id="long",
    producer_epoch="int",
    outcome="text",
    ended_at="at",
    log_partition="int",
    log_offset="long",
    marker_offset="long",
)

REWINDS: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    rewound_at="at",
    previous_offset="long",
    committed_offset="long",
    rewound_records="long",
    rewound_s="double",
    since_previous_s="double",
    generation="int",
    owner=pa.struct(list(PERSON)),
    members=PERSONS,
    log_partition="int",
    log_offset="long",
)

RATES: Final = _columns(
    group_id="text",
    topic="text",
    minute="at",
    partitions="long",
    commits="long",
    advanced_records="long",
    rewound_records="long",
    advanced_s="double",
    day="day",
)

HOLDING: Final = _rows(_columns(topic="text", partitions=pa.list_(pa.int32())))

GENERATION_MEMBERS: Final = _rows(PERSON.append(pa.field("assignment", HOLDING)))

MOVES: Final = _rows(_columns(topic="text", partition="int", from_member="text", to_member="text"))

GENERATIONS: Final = _columns(
    group_id="text",
    life="int",
    generation="int",
    began_at="at",
    ended_at="at",
    duration_s="double",
    change="text",
    unseen="int",
    known="bool",
    group_type="text",
    protocol_type="text",
    protocol="text",
    protocol_changed="bool",
    leader="text",
    leader_changed="bool",
    member_count="int",
    members=GENERATION_MEMBERS,
    hosts="texts",
    assigned_partitions="int",
    joined=PERSONS,
    members_left=PERSONS,
    moved=MOVES,
    records="long",
    log_partition="int",
    log_offset="long",
)

ASSIGNMENTS: Final = _columns(
    group_id="text",
    life="int",
    generation="int",
    member_id="text",
    group_instance_id="text",
    client_id="text",
    client_host="text",
    began_at="at",
    ended_at="at",
    duration_s="double",
    member_epoch="int",
    previous_member_epoch="int",
    state="text",
    assigned=HOLDING,
    revoking=HOLDING,
    known="bool",
    log_partition="int",
    log_offset="long",
)

PARTITION_MOVES: Final = _columns(
    group_id="text",
    life="int",
    generation="int",
    topic="text",
    partition="int",
    from_member="text",
    from_client_id="text",
    from_client_host="text",
    to_member="text",
    to_client_id="text",
    to_client_host="text",
    revoking_at="at",
    released_at="at",
    acquired_at="at",
    revoking_s="double",
    unowned_s="double",
    log_partition="int",
    log_offset="long",
)

CHURN: Final = _columns(
    group_id="text",
    group_type="text",
    lives="long",
    generations="long",
    rebalances="long",
    rebalances_per_hour="double",
    observed_s="double",
    members_joined="long",
    members_left="long",
    partitions_moved="long",
    median_generation_s="double",
    member_count="int",
    last_change="text",
    first_at="at",
    last_at="at",
)

RESTLESS_MEMBERS: Final = _columns(
    group_id="text",
    client_id="text",
    client_host="text",
    group_instance_id="text",
    rebalances="long",
    share="double",
    joins="long",
    leaves="long",
    member_ids="long",
    first_at="at",
    last_at="at",
)

LAG: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    minute="at",
    step_s="double",
    as_of="at",
    committed_at="at",
    committed_offset="long",
    end_offset="long",
    lag_records="long",
    lost_records="long",
    unread_at="at",
    lag_s="double",
    lag_precision_s="double",
    day="day",
)

CATCH_UP: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    as_of="at",
    verdict="text",
    never="bool",
    member_count="int",
    catch_up_s="double",
    lag_records="long",
    lost_records="long",
    lag_s="double",
    lag_precision_s="double",
    consumed_per_s="double",
    produced_per_s="double",
    grown_records="long",
    observed_s="double",
)

EXPIRING_OFFSETS: Final = _columns(
    group_id="text",
    group_type="text",
    topic="text",
    partition="int",
    committed_offset="long",
    committed_at="at",
    rule="text",
    since="at",
    expires_at="at",
    expired="bool",
    log_partition="int",
    log_offset="long",
)

DEAD_GROUPS: Final = _columns(
    group_id="text",
    group_type="text",
    reason="text",
    protocol_type="text",
    generation="int",
    kept_offsets="long",
    last_commit_at="at",
    last_at="at",
    log_partition="int",
)

COMPACTION: Final = _columns(
    log_partition="int",
    records="long",
    superseded_records="long",
    aborted_records="long",
    tombstones="long",
    transaction_markers="long",
    bytes_estimate="long",
    superseded_bytes_estimate="long",
    saved_share="double",
)

FORMER_NAMES: Final[dict[str, dict[str, str]]] = {
    "commits": {"committed_at": "at"},
    "rewinds": {"rewound_at": "at"},
    "generations": {"members_left": "left"},
}
"""The former names of columns, by table and by present name of the column. Tables of an older
Muster have columns with the former names. The columns were renamed because DuckDB 2 reserves these
names."""
