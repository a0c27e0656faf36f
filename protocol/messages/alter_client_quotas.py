"""AlterClientQuotas, API key 49."""

from protocol.schema import BOOLEAN, FLOAT64, INT16, INT32, STRING, Api, Array, Field

# v0: the first known
# v1: flexible

REQUEST = (
    Field(
        "entries",
        Array(
            Field(
                "entity",
                Array(
                    Field("entity_type", STRING, "0+"),
                    Field("entity_name", STRING, "0+", nullable="0+"),
                ),
                "0+",
            ),
            Field(
                "ops",
                Array(
                    Field("key", STRING, "0+"),
                    Field("value", FLOAT64, "0+"),
                    Field("remove", BOOLEAN, "0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
    Field("validate_only", BOOLEAN, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field(
        "entries",
        Array(
            Field("error_code", INT16, "0+"),
            Field("error_message", STRING, "0+", nullable="0+"),
            Field(
                "entity",
                Array(
                    Field("entity_type", STRING, "0+"),
                    Field("entity_name", STRING, "0+", nullable="0+"),
                ),
                "0+",
            ),
        ),
        "0+",
    ),
)

API = Api(
    key=49,
    name="AlterClientQuotas",
    versions="0-1",
    flexible="1+",
    request=REQUEST,
    response=RESPONSE,
)
