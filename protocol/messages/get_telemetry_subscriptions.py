"""GetTelemetrySubscriptions, API key 71."""

from protocol.schema import BOOLEAN, INT8, INT16, INT32, STRING, UUID, Api, Array, Field

# v0: the first known

REQUEST = (Field("client_instance_id", UUID, "0+"),)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("client_instance_id", UUID, "0+"),
    Field("subscription_id", INT32, "0+"),
    Field("accepted_compression_types", Array(INT8), "0+"),
    Field("push_interval_ms", INT32, "0+"),
    Field("telemetry_max_bytes", INT32, "0+"),
    Field("delta_temporality", BOOLEAN, "0+"),
    Field("requested_metrics", Array(STRING), "0+"),
)

API = Api(
    key=71,
    name="GetTelemetrySubscriptions",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
