"""AlterUserScramCredentials, API key 51."""

from protocol.schema import BYTES, INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known

REQUEST = (
    Field(
        "deletions",
        Array(
            Field("name", STRING, "0+"),
            Field("mechanism", INT8, "0+"),
        ),
        "0+",
    ),
    Field(
        "upsertions",
        Array(
            Field("name", STRING, "0+"),
            Field("mechanism", INT8, "0+"),
            Field("iterations", INT32, "0+"),
            Field("salt", BYTES, "0+"),
            Field("salted_password", BYTES, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "results",
        Array(
            Field("user", STRING, "0+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
