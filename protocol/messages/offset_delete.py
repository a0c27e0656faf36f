"""OffsetDelete, API key 47."""

from protocol.schema import INT16, INT32, STRING, Api, Array, Field

# v0: the first known

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("error_code", INT16, "0+"),
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=47,
    name="OffsetDelete",
    versions="0-0",
    flexible="",
    request=REQUEST,
    response=RESPONSE,
)
