"""DescribeAcls, API key 29."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds pattern_type_filter; response adds resources.pattern_type
# v2: flexible
# v3: the same on the wire

REQUEST = (
    Field("resource_type_filter", INT8, "0+"),
    Field("resource_name_filter", STRING, "0+", nullable="0+"),
    Field("pattern_type_filter", INT8, "1+", default=3),
    Field("principal_filter", STRING, "0+", nullable="0+"),
    Field("host_filter", STRING, "0+", nullable="0+"),
    Field("operation", INT8, "0+"),
    Field("permission_type", INT8, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field(
        "resources",
        Array(
            Field("resource_type", INT8, "0+"),
            Field("resource_name", STRING, "0+"),
            Field("pattern_type", INT8, "1+", default=3),
            Field(
                "acls",
                Array(
                    Field("principal", STRING, "0+"),
                    Field("host", STRING, "0+"),
                    Field("operation", INT8, "0+"),
                    Field("permission_type", INT8, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=29,
    name="DescribeAcls",
    versions="0-3",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
