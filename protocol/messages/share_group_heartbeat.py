"""ShareGroupHeartbeat, API key 76."""

from protocol.schema import INT16, INT32, STRING, UUID, Api, Array, Field, Struct

# v0: the first known
# v1: the same on the wire

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("member_id", STRING, "0+"),
    Field("member_epoch", INT32, "0+"),
    Field("rack_id", STRING, "0+", nullable="0+", default=None),
    Field("subscribed_topic_names", Array(STRING), "0+", nullable="0+", default=None),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field("member_id", STRING, "0+", nullable="0+", default=None),
    Field("member_epoch", INT32, "0+"),
    Field("heartbeat_interval_ms", INT32, "0+"),
    Field(
        "assignment",
        Struct(
            Field(
                "topic_partitions",
                Array(
                    Field("topic_id", UUID, "0+"),
                    Field("partitions", Array(INT32), "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
)

API = Api(
    key=76,
    name="ShareGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
