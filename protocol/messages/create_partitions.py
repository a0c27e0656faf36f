"""CreatePartitions, API key 37."""

from protocol.schema import BOOLEAN, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible
# v3: the same on the wire

REQUEST = (
    Field(
        "topics",
        Array(
            Field("name", STRING, "0+"),
            Field("count", INT32, "0+"),
            Field(
                "assignments",
                Array(
                    Field("broker_ids", Array(INT32), "0+"),
                ),
                "0+",
                nullable="0+",
            ),
        ),
        "0+",
    ),
    Field("timeout_ms", INT32, "0+"),
    Field("validate_only", BOOLEAN, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "results",
        Array(
            Field("name", STRING, "0+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=37,
    name="CreatePartitions",
    versions="0-3",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
