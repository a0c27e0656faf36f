"""OffsetCommit, API key 8."""

from protocol.schema import INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request adds generation_id_or_member_epoch, member_id, topics.partitions.commit_timestamp
# v2: request adds retention_time_ms; request drops topics.partitions.commit_timestamp
# v3: response adds throttle_time_ms
# v4: the same on the wire
# v5: request drops retention_time_ms
# v6: request adds topics.partitions.committed_leader_epoch
# v7: request adds group_instance_id
# v8: flexible
# v9: the same on the wire
# v10: request adds topics.topic_id; request drops topics.name; response adds topics.topic_id;
#     response drops topics.name

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field("generation_id_or_member_epoch", INT32, "1+", default=-1),
    Field("member_id", STRING, "1+"),
    Field("group_instance_id", STRING, "7+", nullable="7+", default=None),
    Field("retention_time_ms", INT64, "2-4", default=-1),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "10+"),
            Field("name", STRING, "0-9"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("committed_offset", INT64, "0+"),
                    Field("committed_leader_epoch", INT32, "6+", default=-1),
                    Field("commit_timestamp", INT64, "1", default=-1),
                    Field("committed_metadata", STRING, "0+", nullable="0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "3+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "10+"),
            Field("name", STRING, "0-9"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=8,
    name="OffsetCommit",
    versions="0-10",
    flexible="8+",
    request=REQUEST,
    response=RESPONSE,
)
