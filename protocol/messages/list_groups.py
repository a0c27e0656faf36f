"""ListGroups, API key 16."""

from protocol.schema import INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: flexible
# v4: request adds states_filter; response adds groups.group_state
# v5: request adds types_filter; response adds groups.group_type

REQUEST = (
    Field("states_filter", Array(STRING), "4+"),
    Field("types_filter", Array(STRING), "5+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field("error_code", INT16, "0+"),
    Field(
        "groups",
        Array(
            Field("group_id", STRING, "0+"),
            Field("protocol_type", STRING, "0+"),
            Field("group_state", STRING, "4+"),
            Field("group_type", STRING, "5+"),
        ),
        "0+",
    ),
)

API = Api(
    key=16,
    name="ListGroups",
    versions="0-5",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
