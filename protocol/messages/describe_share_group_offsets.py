"""DescribeShareGroupOffsets, API key 90."""

from protocol.schema import INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: response adds groups.topics.partitions.lag

REQUEST = (
    Field(
        "groups",
        Array(
            Field("group_id", STRING, "0+"),
            Field(
                "topics",
                Array(
                    Field("topic_name", STRING, "0+"),
                    Field("partitions", Array(INT32), "0+"),
                ),
                "0+",
                nullable="0+",
                default=None,
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "groups",
        Array(
            Field("group_id", STRING, "0+"),
            Field(
                "topics",
                Array(
                    Field("topic_name", STRING, "0+"),
                    Field("topic_id", UUID, "0+"),
                    Field(
                        "partitions",
                        Array(
                            Field("partition_index", INT32, "0+"),
                            Field("start_offset", INT64, "0+"),
                            Field("leader_epoch", INT32, "0+"),
                            Field("lag", INT64, "1+", default=-1),
                            Field("error_code", INT16, "0+"),
                            Field("error_message", STRING, "0+", nullable="0+", default=None),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
