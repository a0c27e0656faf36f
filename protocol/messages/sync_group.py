"""SyncGroup, API key 14."""

from protocol.schema import BYTES, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: request adds group_instance_id
# v4: flexible
# v5: request adds protocol_type, protocol_name; response adds protocol_type, protocol_name

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("generation_id", INT32, "0+"),
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "3+", nullable="3+", default=None),
    Field("protocol_type", STRING, "5+", nullable="5+", default=None),
    Field("protocol_name", STRING, "5+", nullable="5+", default=None),
    Field(
        "assignments",
        Array(
            Field("member_id", STRING, "0+"),
            Field("assignment", BYTES, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field("error_code", INT16, "0+"),
    Field("protocol_type", STRING, "5+", nullable="5+", default=None),
    Field("protocol_name", STRING, "5+", nullable="5+", default=None),
    Field("assignment", BYTES, "0+"),
)

API = Api(
    key=14,
    name="SyncGroup",
    versions="0-5",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
