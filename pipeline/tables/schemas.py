"""The columns of each table; docs/pipeline.md says what they mean.

Times are timestamps in UTC, durations doubles in seconds (`_s`), advances in records. The tables
that grow with the history end in `day`, by which their files are laid out.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: Final[dict[str, DataType]] = {
    "text": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "bool": BooleanType(),
    "at": TimestampType(),
    "day": DateType(),
    "texts": ArrayType(StringType()),
}


def _columns(**kinds: str | DataType) -> StructType:
    return StructType(
        [
            StructField(name, _TYPES[kind] if isinstance(kind, str) else kind)
            for name, kind in kinds.items()
        ]
    )


QUARANTINE: Final = _columns(
    log_partition="int", log_offset="long", file="text", position="long", reason="text"
)

PERSON: Final = _columns(
    member_id="text", group_instance_id="text", client_id="text", client_host="text"
)
"""A member as people know it."""
PERSONS: Final = ArrayType(PERSON)

COMMITS: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    at="at",
    committed_offset="long",
    leader_epoch="int",
    metadata="text",
    commit_at="at",
    expire_at="at",
    record_at="at",
    previous_offset="long",
    previous_at="at",
    since_previous_s="double",
    advanced_records="long",
    advanced_s="double",
    log_partition="int",
    log_offset="long",
    day="day",
)

REWINDS: Final = _columns(
    group_id="text",
    topic="text",
    partition="int",
    at="at",
    previous_offset="long",
    committed_offset="long",
    rewound_records="long",
    rewound_s="double",
    since_previous_s="double",
    generation="int",
    owner=PERSON,
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
