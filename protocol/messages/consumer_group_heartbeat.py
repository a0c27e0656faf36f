"""ConsumerGroupHeartbeat, API key 68."""

from protocol.schema import INT16, INT32, STRING, UUID, Api, Array, Field, Struct

# v0: the first known
# v1: request adds subscribed_topic_regex

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("member_id", STRING, "0+"),
    Field("member_epoch", INT32, "0+"),
    Field("instance_id", STRING, "0+", nullable="0+", default=None),
    Field("rack_id", STRING, "0+", nullable="0+", default=None),
    Field("rebalance_timeout_ms", INT32, "0+", default=-1),
    Field("subscribed_topic_names", Array(STRING), "0+", nullable="0+", default=None),
    Field("subscribed_topic_regex", STRING, "1+", nullable="1+", default=None),
    Field("server_assignor", STRING, "0+", nullable="0+", default=None),
    Field(
        "topic_partitions",
        Array(
            Field("topic_id", UUID, "0+"),
            Field("partitions", Array(INT32), "0+"),
        ),
        "0+",
        nullable="0+",
        default=None,
    ),
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
    key=68,
    name="ConsumerGroupHeartbeat",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
