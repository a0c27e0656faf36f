"""LeaveGroup, API key 13."""

from protocol.schema import INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: request adds members; request drops member_id; response adds members
# v4: flexible
# v5: request adds members.reason

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field(
        "members",
        Array(
            Field("member_id", STRING, "3+"),
            Field("group_instance_id", STRING, "3+", nullable="3+", default=None),
            Field("reason", STRING, "5+", nullable="5+", default=None),
        ),
        "3+",
    ),
    Field("member_id", STRING, "0-2"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field("error_code", INT16, "0+"),
    Field(
        "members",
        Array(
            Field("member_id", STRING, "3+"),
            Field("group_instance_id", STRING, "3+", nullable="3+"),
            Field("error_code", INT16, "3+"),
        ),
        "3+",
    ),
)

API = Api(
    key=13,
    name="LeaveGroup",
    versions="0-5",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
