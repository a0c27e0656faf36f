"""DeleteTopics, API key 20."""

from protocol.schema import INT16, INT32, STRING, UUID, Api, Array, Field

# v0: the first known
# v1: response adds throttle_time_ms
# v2: the same on the wire
# v3: the same on the wire
# v4: flexible
# v5: response adds responses.error_message
# v6: request adds topics; request drops topic_names; response adds responses.topic_id; response
#     changes responses.name

REQUEST = (
    Field(
        "topics",
        Array(
            Field("name", STRING, "6+", nullable="6+", default=None),
            Field("topic_id", UUID, "6+"),
        ),
        "6+",
    ),
    Field("topic_names", Array(STRING), "0-5"),
    Field("timeout_ms", INT32, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "1+"),
    Field(
        "responses",
        Array(
            Field("name", STRING, "0+", nullable="6+"),
            Field("topic_id", UUID, "6+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "5+", nullable="5+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=20,
    name="DeleteTopics",
    versions="0-6",
    flexible="4+",
    request=REQUEST,
    response=RESPONSE,
)
