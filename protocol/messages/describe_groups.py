"""DescribeGroups, API key 15."""

from protocol.schema import BOOLEAN, BYTES, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: request adds include_authorized_operations; response adds groups.authorized_operations
# v4: response adds groups.members.group_instance_id
# v5: flexible
# v6: response adds groups.error_message

REQUEST = (
    Field("groups", Array(STRING), "0+"),
    Field("include_authorized_operations", BOOLEAN, "3+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field(
        "groups",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "6+", nullable="6+", default=None),
            Field("group_id", STRING, "0+"),
            Field("group_state", STRING, "0+"),
            Field("protocol_type", STRING, "0+"),
            Field("protocol_data", STRING, "0+"),
            Field(
                "members",
                Array(
                    Field("member_id", STRING, "0+"),
                    Field("group_instance_id", STRING, "4+", nullable="4+", default=None),
                    Field("client_id", STRING, "0+"),
                    Field("client_host", STRING, "0+"),
                    Field("member_metadata", BYTES, "0+"),
                    Field("member_assignment", BYTES, "0+"),
                ),
                "0+",
            ),
            Field("authorized_operations", INT32, "3+", default=-2147483648),
        ),
        "0+",
    ),
)

API = Api(
    key=15,
    name="DescribeGroups",
    versions="0-6",
    flexible="5+",
    request=REQUEST,
    response=RESPONSE,
)
