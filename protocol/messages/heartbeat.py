"""Heartbeat, API key 12."""

from protocol.schema import INT16, INT32, STRING, Api, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: request adds group_instance_id
# v4: flexible

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("generation_id", INT32, "0+"),
    Field("member_id", STRING, "0+"),
    Field("group_instance_id", STRING, "3+", nullable="3+", default=None),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field("error_code", INT16, "0+"),
)

API = Api(
    key=12,
    name="Heartbeat",
    versions="0-4",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
