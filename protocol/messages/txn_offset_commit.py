"""TxnOffsetCommit, API key 28."""

from protocol.schema import INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: request adds topics.partitions.committed_leader_epoch
# v3: request adds generation_id, member_id, group_instance_id; flexible
# v4: the same on the wire
# v5: the same on the wire
# v6: request adds topics.topic_id; request drops topics.name; response adds topics.topic_id;
#     response drops topics.name

REQUEST = (
    Field("transactional_id", STRING, "0+"),
    Field("group_id", STRING, "0+"),
    Field("producer_id", INT64, "0+"),
    Field("producer_epoch", INT16, "0+"),
    Field("generation_id", INT32, "3+", default=-1),
    Field("member_id", STRING, "3+"),
    Field("group_instance_id", STRING, "3+", nullable="3+", default=None),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "6+"),
            Field("name", STRING, "0-5"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("committed_offset", INT64, "0+"),
                    Field("committed_leader_epoch", INT32, "2+", default=-1),
                    Field("committed_metadata", STRING, "0+", nullable="0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "6+"),
            Field("name", STRING, "0-5"),
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
    key=28,
    name="TxnOffsetCommit",
    versions="0-6",
    flexible="3+",
    request=REQUEST,
    response=RESPONSE,
)
