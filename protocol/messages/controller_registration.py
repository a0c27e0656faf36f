"""ControllerRegistration, API key 70."""

from protocol.schema import BOOLEAN, INT16, INT32, STRING, UINT16, UUID, Api, Array, Field

# v0: the first known

REQUEST = (
    Field("controller_id", INT32, "0+"),
    Field("incarnation_id", UUID, "0+"),
    Field("zk_migration_ready", BOOLEAN, "0+"),
    Field(
        "listeners",
        Array(
            Field("name", STRING, "0+"),
            Field("host", STRING, "0+"),
            Field("port", UINT16, "0+"),
            Field("security_protocol", INT16, "0+"),
        ),
        "0+",
    ),
    Field(
        "features",
        Array(
            Field("name", STRING, "0+"),
            Field("min_supported_version", INT16, "0+"),
            Field("max_supported_version", INT16, "0+"),
        ),
        "0+",
    ),
)

RESPONSE = (
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
)

API = Api(
    key=70,
    name="ControllerRegistration",
    versions="0-0",
    flexible="0+",
    request=REQUEST,
    response=RESPONSE,
)
