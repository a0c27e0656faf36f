"""CreateAcls, API key 30."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds creations.resource_pattern_type
# v2: flexible
# v3: the same on the wire

REQUEST = (
    Field(
        "creations",
        Array(
            Field("resource_type", INT8, "0+"),
            Field("resource_name", STRING, "0+"),
            Field("resource_pattern_type", INT8, "1+", default=3),
            Field("principal", STRING, "0+"),
            Field("host", STRING, "0+"),
            Field("operation", INT8, "0+"),
            Field("permission_type", INT8, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "results",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=30,
    name="CreateAcls",
    versions="0-3",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
