"""PushTelemetry, API key 72."""

from protocol.schema import BOOLEAN, BYTES, INT8, INT16, INT32, UUID, Api, Field

# v0: the first known

REQUEST = (
    Field("client_instance_id", UUID, "0+"),
    Field("subscription_id", INT32, "0+"),
    Field("terminating", BOOLEAN, "0+"),
    Field("compression_type", INT8, "0+"),
    Field("metrics", BYTES, "0+"),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
)

API = Api(
    key=72,
    name="PushTelemetry",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
