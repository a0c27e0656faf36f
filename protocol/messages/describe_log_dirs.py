"""DescribeLogDirs, API key 35."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible
# v3: response adds error_code
# v4: response adds results.total_bytes, results.usable_bytes
# v5: response adds results.is_cordoned

REQUEST = (
    Field(
        "topics",
        Array(
            Field("topic", STRING, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "3+"),
    Field(
        "results",
        Array(
            Field("error_code", INT16, "0+"),
            Field("log_dir", STRING, "0+"),
            Field(
                "topics",
                Array(
                    Field("name", STRING, "0+"),
                    Field(
                        "partitions",
                        Array(
                            Field("partition_index", INT32, "0+"),
                            Field("partition_size", INT64, "0+"),
                            Field("offset_lag", INT64, "0+"),
                            Field("is_future_key", BOOLEAN, "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
            Field("total_bytes", INT64, "4+", default=-1),
            Field("usable_bytes", INT64, "4+", default=-1),
            Field("is_cordoned", BOOLEAN, "5+"),
        ),
        "0+",
    ),
)

API = Api(
    key=35,
    name="DescribeLogDirs",
    versions="0-5",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
