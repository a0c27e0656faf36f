"""JoinGroup, API key 11."""

from protocol.schema import BOOLEAN, BYTES, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: request adds rebalance_timeout_ms
# v2: response adds throttle_time_ms
# v3: the same on the wire
# v4: the same on the wire
# v5: request adds group_instance_id; response adds members.group_instance_id
# v6: flexible
# v7: response adds protocol_type; response changes protocol_name
# v8: request adds reason
# v9: response adds skip_assignment

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("session_timeout_ms", INT32, "0+"),
    Field("rebalance_timeout_ms", INT32, "1+", default=-1),
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "5+", nullable="5+", default=None),
    Field("protocol_type", STRING, "0+"),
    Field(
        "protocols",
        Array(
            Field("name", STRING, "0+"),
            Field("metadata", BYTES, "0+"),
        ),
        "0+",
    ),
    Field("reason", STRING, "8+", nullable="8+", default=None),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "2+"),
    Field("error_code", INT16, "0+"),
    Field("generation_id", INT32, "0+", default=-1),
    Field("protocol_type", STRING, "7+", nullable="7+", default=None),
    Field("protocol_name", STRING, "0+", nullable="7+"),
    Field("leader", STRING, "0+"),
    Field("skip_assignment", BOOLEAN, "9+"),
    Field("member_id", STRING, "0+"),
    Field(
        "members",
        Array(
            Field("member_id", STRING, "0+"),
            Field("group_instance_id", STRING, "5+", nullable="5+", default=None),
            Field("metadata", BYTES, "0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=11,
    name="JoinGroup",
    versions="0-9",
    flexible="6+",
    request=REQUEST,
    response=RESPONSE,
)
