"""DeleteShareGroupOffsets, API key 92."""

from protocol.schema import INT16, INT32, STRING, UUID, Api, Array, Field

# v0: the first known

REQUEST = (
    Field("group_id", STRING, "0+"),
    Field(
        "topics",
        Array(
            Field("topic_name", STRING, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+", default=None),
    Field(
        "responses",
        Array(
            Field("topic_name", STRING, "0+"),
            Field("topic_id", UUID, "0+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
