"""ReadShareGroupStateSummary, API key 87."""

from protocol.schema import INT16, INT32, INT64, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: response adds results.partitions.delivery_complete_count

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
                    Field("leader_epoch", INT32, "0+"),
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
                    Field("state_epoch", INT32, "0+"),
                    Field("leader_epoch", INT32, "0+"),
                    Field("start_offset", INT64, "0+"),
                    Field("delivery_complete_count", INT32, "1+", default=-1),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=87,
    name="ReadShareGroupStateSummary",
    versions="0-1",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
