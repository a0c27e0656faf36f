"""AlterShareGroupOffsets, API key 91."""

from protocol.schema import INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("start_offset", INT64, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field(
        "responses",
        Array(
            Field("topic_name", STRING, "0+"),
            Field("topic_id", UUID, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "0+", nullable="0+", default=None),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=91,
    name="AlterShareGroupOffsets",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
