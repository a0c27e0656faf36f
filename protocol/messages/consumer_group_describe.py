"""ConsumerGroupDescribe, API key 69."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, UUID, Api, Array, Field, Struct

# v0: the first known
# v1: response adds groups.members.member_type

REQUEST = (
    Field("group_ids", Array(STRING), "0+"),
    Field("include_authorized_operations", BOOLEAN, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "groups",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+", default=None),
            Field("group_id", STRING, "0+"),
            Field("group_state", STRING, "0+"),
            Field("group_epoch", INT32, "0+"),
            Field("assignment_epoch", INT32, "0+"),
            Field("assignor_name", STRING, "0+"),
            Field(
                "members",
                Array(
                    Field("member_id", STRING, "0+"),
                    Field("instance_id", STRING, "0+", nullable="0+", default=None),
                    Field("rack_id", STRING, "0+", nullable="0+", default=None),
                    Field("member_epoch", INT32, "0+"),
                    Field("client_id", STRING, "0+"),
                    Field("client_host", STRING, "0+"),
                    Field("subscribed_topic_names", Array(STRING), "0+"),
                    Field("subscribed_topic_regex", STRING, "0+", nullable="0+", default=None),
                    Field(
                        "assignment",
                        Struct(
                            Field(
                                "topic_partitions",
                                Array(
                                    Field("topic_id", UUID, "0+"),
                                    Field("topic_name", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                        ),
                        "0+",
                    ),
                    Field(
                        "target_assignment",
                        Struct(
                            Field(
                                "topic_partitions",
                                Array(
                                    Field("topic_id", UUID, "0+"),
                                    Field("topic_name", STRING, "0+"),
                                    Field("partitions", Array(INT32), "0+"),
                                ),
                                "0+",
                            ),
                        ),
                        "0+",
                    ),
                    Field("member_type", INT8, "1+", default=-1),
                ),
                "0+",
            ),
            Field("authorized_operations", INT32, "0+", default=-2147483648),
        ),
        "0+",
    ),
)

API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
