"""DescribeTopicPartitions, API key 75."""

from protocol.schema import BOOLEAN, INT16, INT32, STRING, UUID, Api, Array, Field, Struct

# v0: the first known

REQUEST = (
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
        ),
        "0+",
    ),
    Field("response_partition_limit", INT32, "0+", default=2000),
    Field(
        "cursor",
        Struct(
            Field("topic_name", STRING, "0+"),
            Field("partition_index", INT32, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "topics",
        Array(
            Field("error_code", INT16, "0+"),
            Field("name", STRING, "0+", nullable="0+"),
            Field("topic_id", UUID, "0+"),
            Field("is_internal", BOOLEAN, "0+"),
            Field(
                "partitions",
                Array(
                    Field("error_code", INT16, "0+"),
                    Field("partition_index", INT32, "0+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+", default=-1),
                    Field("replica_nodes", Array(INT32), "0+"),
                    Field("isr_nodes", Array(INT32), "0+"),
                    Field(
                        "eligible_leader_replicas", Array(INT32), "0+", nullable="0+", default=None
                    ),
                    Field("last_known_elr", Array(INT32), "0+", nullable="0+", default=None),
                    Field("offline_replicas", Array(INT32), "0+"),
                ),
                "0+",
            ),
            Field("topic_authorized_operations", INT32, "0+", default=-2147483648),
        ),
        "0+",
    ),
    Field(
        "next_cursor",
        Struct(
            Field("topic_name", STRING, "0+"),
            Field("partition_index", INT32, "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
)

API = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
