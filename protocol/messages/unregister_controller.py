"""UnregisterController, API key 94."""

from protocol.schema import INT16, INT32, STRING, Api, Field

# v0: the first known

REQUEST = (Field("controller_id", INT32, "0+"),)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)

API = Api(
    key=94,
    name="UnregisterController",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
