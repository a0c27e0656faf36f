"""ListClientMetricsResources, API key 74."""

from protocol.schema import INT16, INT32, STRING, Api, Array, Field

# v0: the first known

REQUEST: tuple[Field, ...] = ()

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field(
        "client_metrics_resources",
        Array(
            Field("name", STRING, "0+"),
        ),
        "0+",
    ),
)

API = Api(
    key=74,
    name="ListClientMetricsResources",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
