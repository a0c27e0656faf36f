"""DeleteAcls, API key 31."""

from protocol.schema import INT8, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds filters.pattern_type_filter; response adds
#     filter_results.matching_acls.pattern_type
# v2: flexible
# v3: the same on the wire

REQUEST = (
    Field(
        "filters",
        Array(
            Field("resource_type_filter", INT8, "0+"),
            Field("resource_name_filter", STRING, "0+", nullable="0+"),
            Field("pattern_type_filter", INT8, "1+", default=3),
            Field("principal_filter", STRING, "0+", nullable="0+"),
            Field("host_filter", STRING, "0+", nullable="0+"),
            Field("operation", INT8, "0+"),
            Field("permission_type", INT8, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "filter_results",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
            Field(
                "matching_acls",
                Array(
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "0+", nullable="0+"),
                    Field("resource_type", INT8, "0+"),
                    Field("resource_name", STRING, "0+"),
                    Field("pattern_type", INT8, "1+", default=3),
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
    key=31,
    name="DeleteAcls",
    versions="0-3",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
