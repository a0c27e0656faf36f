"""AlterPartition, API key 56."""

from protocol.schema import INT8, INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request adds topics.partitions.leader_recovery_state; response adds
#     topics.partitions.leader_recovery_state
# v2: request adds topics.topic_id; request drops topics.topic_name; response adds
#     topics.topic_id; response drops topics.topic_name
# v3: request adds topics.partitions.new_isr_with_epochs; request drops topics.partitions.new_isr

REQUEST = (
    Field("broker_id", INT32, "0+"),
    Field("broker_epoch", INT64, "0+", default=-1),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "2+"),
            Field("topic_name", STRING, "0-1"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field(
                        "new_isr_with_epochs",
                        Array(
                            Field("broker_id", INT32, "3+"),
                            Field("broker_epoch", INT64, "3+", default=-1),
                        ),
                        "3+",
                    ),
                    Field("new_isr", Array(INT32), "0-2"),
                    Field("leader_recovery_state", INT8, "1+"),
                    Field("partition_epoch", INT32, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "2+"),
            Field("topic_name", STRING, "0-1"),
            Field(
                "partitions",
                Array(
                    Field("partition_index", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("leader_id", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field("isr", Array(INT32), "0+"),
                    Field("leader_recovery_state", INT8, "1+"),
                    Field("partition_epoch", INT32, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=56,
    name="AlterPartition",
    versions="0-3",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
