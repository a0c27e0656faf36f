"""ListConfigResources, API key 74."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds resource_types; response adds config_resources.resource_type

REQUEST = (Field("resource_types", Array(INT8), "1+"),)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field(
        "config_resources",
        Array(
            Field("resource_name", STRING, "0+"),
            Field("resource_type", INT8, "1+", default=16),
        ),
        "0+",
    ),
)

API = Api(
    key=74,
    name="ListConfigResources",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
