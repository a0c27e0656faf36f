"""AlterConfigs, API key 33."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible

REQUEST = (
    Field(
        "resources",
        Array(
            Field("resource_type", INT8, "0+"),
            Field("resource_name", STRING, "0+"),
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
    Field("validate_only", BOOLEAN, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "responses",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
            Field("resource_type", INT8, "0+"),
            Field("resource_name", STRING, "0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=33,
    name="AlterConfigs",
    versions="0-2",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
