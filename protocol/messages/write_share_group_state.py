"""WriteShareGroupState, API key 85."""

from protocol.schema import INT8, INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: request adds topics.partitions.delivery_complete_count

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_id", UUID, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition", INT32, "0+"),
                    Field("state_epoch", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field("start_offset", INT64, "0+"),
                    Field("delivery_complete_count", INT32, "1+", default=-1),
                    Field(
                        "state_batches",
                        Array(
                            Field("first_offset", INT64, "0+"),
                            Field("last_offset", INT64, "0+"),
                            Field("delivery_state", INT8, "0+"),
                            Field("delivery_count", INT16, "0+"),
                        ),
                        "0+",
                    ),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field(
        "results",
        Array(
            Field("topic_id", UUID, "0+"),
            Field(
                "partitions",
                Array(
                    Field("partition", INT32, "0+"),
                    Field("error_code", INT16, "0+"),
                    Field("error_message", STRING, "0+", nullable="0+", default=None),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=85,
    name="WriteShareGroupState",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
