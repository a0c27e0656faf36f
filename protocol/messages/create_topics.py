"""CreateTopics, API key 19."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request adds validate_only; response adds topics.error_message
# v2: response adds throttle_time_ms
# v3: the same on the wire
# v4: the same on the wire
# v5: response adds topics.num_partitions, topics.replication_factor, topics.configs,
#     topics.topic_config_error_code; flexible
# v6: the same on the wire
# v7: response adds topics.topic_id

REQUEST = (
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field("num_partitions", INT32, "0+"),
            Field("replication_factor", INT16, "0+"),
            Field(
                "assignments",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("broker_ids", Array(INT32), "0+"),
                ),
                "0+",
            ),
            Field(
                "configs",
                Array(
                    Field("name", STRING, "0+"),
                    Field("value", STRING, "0+", nullable="0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("timeout_ms", INT32, "0+", default=60000),
    Field("validate_only", BOOLEAN, "1+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "2+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field("topic_id", UUID, "7+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "1+", nullable="1+"),
            Field("num_partitions", INT32, "5+", default=-1),
            Field("replication_factor", INT16, "5+", default=-1),
            Field(
                "configs",
                Array(
                    Field("name", STRING, "5+"),
                    Field("value", STRING, "5+", nullable="5+"),
                    Field("read_only", BOOLEAN, "5+"),
                    Field("config_source", INT8, "5+", default=-1),
                    Field("is_sensitive", BOOLEAN, "5+"),
                ),
                "5+",
                nullable="5+",
            ),
            Field("topic_config_error_code", INT16, "5+", tag=0),
        ),
        "0+",
    ),
)

API = Api(
    key=19,
    name="CreateTopics",
    versions="0-7",
    flexible="5+",
    request=REQUEST,
    response=RESPONSE,
)
