"""ListOffsets, API key 2."""

from protocol.schema import INT8, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: request drops topics.partitions.max_num_offsets; response adds topics.partitions.timestamp,
#     topics.partitions.offset; response drops topics.partitions.old_style_offsets
# v2: request adds isolation_level; response adds throttle_time_ms
# v3: the same on the wire
# v4: request adds topics.partitions.current_leader_epoch; response adds
#     topics.partitions.leader_epoch
# v5: the same on the wire
# v6: flexible
# v7: the same on the wire
# v8: the same on the wire
# v9: the same on the wire
# v10: request adds timeout_ms
# v11: the same on the wire

REQUEST = (
    Field("replica_id", INT32, "0+"),
    Field("isolation_level", INT8, "2+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("current_leader_epoch", INT32, "4+", default=-1),
                    Field("timestamp", INT64, "0+"),
                    Field("max_num_offsets", INT32, "0", default=1),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("timeout_ms", INT32, "10+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "2+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("timestamp", INT64, "1+", default=-1),
                    Field("offset", INT64, "1+", default=-1),
                    Field("leader_epoch", INT32, "4+", default=-1),
                    Field("old_style_offsets", Array(INT64), "0"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=2,
    name="ListOffsets",
    versions="0-11",
    flexible="6+",
    request=REQUEST,
    response=RESPONSE,
)
