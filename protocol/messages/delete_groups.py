"""DeleteGroups, API key 42."""

from protocol.schema import INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: the same on the wire
# v2: flexible
# v3: response adds results.error_message

REQUEST = (Field("groups_names", Array(STRING), "0+"),)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "results",
        Array(
            Field("group_id", STRING, "0+"),
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "3+", nullable="3+", default=None),
        ),
        "0+",
    ),
)

API = Api(
    key=42,
    name="DeleteGroups",
    versions="0-3",
    flexible="2+",
    request=REQUEST,
    response=RESPONSE,
)
