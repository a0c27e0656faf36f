"""DeleteShareGroupState, API key 86."""

from protocol.schema import INT16, INT32, STRING, UUID, Api, Array, Field

# v0: the first known

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
    key=86,
    name="DeleteShareGroupState",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
