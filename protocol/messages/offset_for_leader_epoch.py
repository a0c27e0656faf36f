"""OffsetForLeaderEpoch, API key 23."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: response adds topics.partitions.leader_epoch
# v2: request adds topics.partitions.current_leader_epoch; response adds throttle_time_ms
# v3: request adds replica_id
# v4: flexible

REQUEST = (
    Field("replica_id", INT32, "3+", default=-2),
    Field(
        "topics",
        Array(
            Field("topic", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition", INT32, "0+"),
                    Field("current_leader_epoch", INT32, "2+", default=-1),
                    Field("leader_epoch", INT32, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "2+"),
    Field(
        "topics",
        Array(
            Field("topic", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("error_code", INT16, "0+"),
                    Field("partition", INT32, "0+"),
                    Field("leader_epoch", INT32, "1+", default=-1),
                    Field("end_offset", INT64, "0+", default=-1),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions="0-4",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
