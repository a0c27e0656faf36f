"""ListPartitionReassignments, API key 46."""

from protocol.schema import INT16, INT32, STRING, Api, Array, Field

# v0: the first known

REQUEST = (
    Field("timeout_ms", INT32, "0+", default=60000),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field("partition_indexes", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("replicas", Array(INT32), "0+"),
                    Field("adding_replicas", Array(INT32), "0+"),
                    Field("removing_replicas", Array(INT32), "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=46,
    name="ListPartitionReassignments",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
