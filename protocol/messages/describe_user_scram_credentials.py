"""DescribeUserScramCredentials, API key 50."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known

REQUEST = (
    Field(
        "users",
        Array(
            Field("name", STRING, "0+"),
        ),
        "0+",
        nullable="0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field(
        "results",
        Array(
            Field("user", STRING, "0+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
            Field(
                "credential_infos",
                Array(
                    Field("mechanism", INT8, "0+"),
                    Field("iterations", INT32, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
