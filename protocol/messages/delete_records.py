"""DeleteRecords, API key 21."""

from protocol.schema import INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible

REQUEST = (
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("offset", INT64, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("timeout_ms", INT32, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("low_watermark", INT64, "0+"),
                    Field("error_code", INT16, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=21,
    name="DeleteRecords",
    versions="0-2",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
