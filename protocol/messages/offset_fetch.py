"""OffsetFetch, API key 9."""

from protocol.schema import BOOLEAN, INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: request changes topics; response adds error_code
# v3: response adds throttle_time_ms
# v4: the same on the wire
# v5: response adds topics.partitions.committed_leader_epoch
# v6: flexible
# v7: request adds require_stable
# v8: request adds groups; request drops group_id, topics; response adds groups; response drops
#     topics, error_code
# v9: request adds groups.member_id, groups.member_epoch
# v10: request adds groups.topics.topic_id; request drops groups.topics.name; response adds
#     groups.topics.topic_id; response drops groups.topics.name

REQUEST = (
    Field(
        "groups",
        Array(
            Field("group_id", STRING, "8+"),
            Field("member_id", STRING, "9+", nullable="9+", default=None),
            Field("member_epoch", INT32, "9+", default=-1),
            Field(
                "topics",
                Array(
                    Field("topic_id", UUID, "10+"),
                    Field("name", STRING, "8-9"),
                    Field("partition_indexes", Array(INT32), "8+"),
                ),
                "8+",
                nullable="8+",
            ),
        ),
        "8+",
    ),
    Field("group_id", STRING, "0-7"),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0-7"),
            Field("partition_indexes", Array(INT32), "0-7"),
        ),
        "0-7",
        nullable="2+",
    ),
    Field("require_stable", BOOLEAN, "7+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "3+"),
    Field(
        "groups",
        Array(
            Field("group_id", STRING, "8+"),
            Field(
                "topics",
                Array(
                    Field("topic_id", UUID, "10+"),
                    Field("name", STRING, "8-9"),
                    Field(
                        "partitions",
                        Array(
                            Field("partition_index", INT32, "8+"),
                            Field("committed_offset", INT64, "8+"),
                            Field("committed_leader_epoch", INT32, "8+", default=-1),
                            Field("metadata", STRING, "8+", nullable="8+"),
                            Field("error_code", INT16, "8+"),
                        ),
                        "8+",
                    ),
                ),
                "8+",
            ),
            Field("error_code", INT16, "8+"),
        ),
        "8+",
    ),
    Field(
        "topics",
        Array(
            Field("name", STRING, "0-7"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0-7"),
                    Field("committed_offset", INT64, "0-7"),
                    Field("committed_leader_epoch", INT32, "5-7", default=-1),
                    Field("metadata", STRING, "0-7", nullable="0+"),
                    Field("error_code", INT16, "0-7"),
                ),
                "0-7",
            ),
        ),
        "0-7",
    ),
    Field("error_code", INT16, "2-7"),
)

API = Api(
    key=9,
    name="OffsetFetch",
    versions="0-10",
    flexible="6+",
    request=REQUEST,
    response=RESPONSE,
)
